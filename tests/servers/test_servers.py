"""The arithmetic of each server; what all keep to is in tests/contracts."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.rules.aggregators import Inbox
from gossiprec.rules.servers import ClientAnswers, RoundContext, make_server
from tests.layouts import layout_of

LAYOUT = layout_of(2, 2, 1, n_items=3)


def answers(*clients):
    none = np.zeros((len(clients), 7), np.float32)
    return ClientAnswers(
        np.array(clients, np.int64), Inbox(none, np.arange(len(clients)), np.ones(len(clients)))
    )


def played(server, rounds):
    """Return the versions of some rounds, each of which is given what its answers were aggregated to."""
    version, versions = np.zeros(7, np.float32), []
    for number, target in enumerate(rounds):
        aggregated = np.full(7, target, np.float32)
        downlink = server.round(version, aggregated, answers(0, 2), RoundContext(1, number, 4, LAYOUT))
        version = downlink.versions[0]
        versions.append(downlink)
    return versions


def test_momentum_takes_a_share_of_the_last_step_again():
    found = played(make_server({"name": "momentum", "beta": 0.5, "learning_rate": 1.0}), [1.0, 1.0, 1.0])
    steps = [downlink.versions[0][0] for downlink in found]
    assert steps == pytest.approx([1.0, 1.5, 1.25])  # then 0.5 * 1 + 0, then 0.5 * 0.5 - 0.5


def test_momentum_without_momentum_is_plain_averaging():
    found = played(make_server({"name": "momentum", "beta": 0.0}), [1.0, 3.0])
    assert [downlink.versions[0][0] for downlink in found] == [1.0, 3.0]


def test_adaptive_takes_the_steps_of_fedadam():
    options = {"learning_rate": 0.1, "beta1": 0.5, "beta2": 0.75, "tau": 0.5}
    first, second = (
        d.versions[0][0] for d in played(make_server({"name": "adaptive", **options}), [1.0, 1.0])
    )

    square = 0.75 * 0.25 + 0.25 * 1.0
    assert first == pytest.approx(0.1 * 0.5 / (square**0.5 + 0.5))
    mean, square = 0.5 * 0.5 + 0.5 * (1 - first), 0.75 * square + 0.25 * (1 - first) ** 2
    assert second == pytest.approx(first + 0.1 * mean / (square**0.5 + 0.5))


def test_fedyogi_moves_the_mean_square_by_a_bounded_amount():
    options = {"learning_rate": 0.1, "beta1": 0.5, "beta2": 0.75, "tau": 2.0}
    targets, version, mean, square = [1.0, 5.0, 0.0], 0.0, 0.0, 4.0
    found = [d.versions[0][0] for d in played(make_server({"name": "fedyogi", **options}), targets)]

    for target, after in zip(targets, found, strict=True):
        delta = target - version
        mean = 0.5 * mean + 0.5 * delta
        square -= 0.25 * delta**2 * np.sign(square - delta**2)
        version += 0.1 * mean / (square**0.5 + 2.0)
        assert after == pytest.approx(version, rel=1e-5)


def test_draws_of_a_round_are_its_own():
    draws = {
        RoundContext(seed, number, 4, LAYOUT).generator(what).random()
        for seed in (1, 2)
        for number in (0, 1)
        for what in "ab"
    }
    assert len(draws) == 8
    assert RoundContext(1, 0, 4, LAYOUT).generator("a").random() in draws
