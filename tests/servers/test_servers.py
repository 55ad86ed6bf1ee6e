"""What every registered server keeps to, and the arithmetic of each."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.aggregators import Inbox
from gossiprec.servers import SERVERS, Answers, Round
from gossiprec.servers.choice import make_server
from tests.layouts import layout_of

LAYOUT = layout_of(2, 2, 1, n_items=3)


def answers(*clients):
    none = np.zeros((len(clients), 7), np.float32)
    return Answers(np.array(clients, np.int64), Inbox(none, np.arange(len(clients)), np.ones(len(clients))))


def played(server, rounds, start=None):
    """Return the versions of some rounds, each of which is given what its answers were aggregated to, or None."""
    version, versions = np.zeros(7, np.float32) if start is None else start, []
    for number, target in enumerate(rounds):
        who = answers() if target is None else answers(0, 2)
        aggregated = version if target is None else np.full(7, target, np.float32)
        downlink = server.round(version, aggregated, who, Round(1, number, 4, LAYOUT))
        version = downlink.versions[0]
        versions.append(downlink)
    return versions


@pytest.fixture(params=list(SERVERS))
def server(request):
    """Return a function that makes a registered server anew."""
    return lambda: make_server(request.param)


def test_versions_are_as_many_and_as_wide_as_announced(server):
    for downlink in played(server(), [None, 1.0, None, 2.0]):
        assert downlink.versions.shape == (server().n_versions, 7)
        assert downlink.versions.dtype == np.float32
        assert np.isfinite(downlink.versions).all()
        assert sum(extra.nbytes for extra in downlink.extras.values()) == server().extra_bytes


def test_without_answers_nothing_moves(server):
    one = server()
    (before, after) = played(one, [1.0, None])
    np.testing.assert_array_equal(after.versions[0], before.versions[0])


def test_what_it_remembers_is_in_its_state(server):
    whole, first, second = server(), server(), server()
    expected = played(whole, [None, 1.0, 2.0, -1.0])
    second_half_from = played(first, [None, 1.0])[-1].versions[0]
    second.restore(first.state())

    for found, due in zip(played(second, [2.0, -1.0], second_half_from), expected[2:], strict=True):
        np.testing.assert_array_equal(found.versions, due.versions)


def test_answers_that_agree_with_it_are_followed(server):
    """Answers near the target pull the version there."""
    one, version = server(), np.zeros(7, np.float32)
    for number in range(400):
        aggregated = version + 0.1 * (1.0 - version)
        version = one.round(version, aggregated, answers(1), Round(1, number, 4, LAYOUT)).versions[0]
    assert np.abs(version - 1.0).max() < 0.1


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


def test_draws_of_a_round_are_its_own():
    draws = {
        Round(seed, number, 4, LAYOUT).generator(what).random()
        for seed in (1, 2)
        for number in (0, 1)
        for what in "ab"
    }
    assert len(draws) == 8
    assert Round(1, 0, 4, LAYOUT).generator("a").random() in draws
