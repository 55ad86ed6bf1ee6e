"""Contract of servers: they push what they announce, change only by answers, and have resumable state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from gossiprec.base.arrays import F32
from gossiprec.models import BlockRole, Layout, ParameterBlock
from gossiprec.rules.aggregators import Inbox
from gossiprec.rules.servers import SERVERS, ClientAnswers, Downlink, RoundContext, Server
from gossiprec.testing.aggregators import with_stand_in_root
from gossiprec.testing.blinding import refuse_reach_in_runs
from gossiprec.testing.tiny_runs import (
    FEDERATED,
    UPDATES,
    check_claims,
    registered_as,
    tiny_scenario,
)

Make = Callable[[], Server]

N_CLIENTS, SEED = 4, 1
BLOCKS = (
    ParameterBlock("users", BlockRole.USER, (2,)),
    ParameterBlock("items", BlockRole.ITEM, (2,)),
    ParameterBlock("weights", BlockRole.SHARED, (1,)),
)
LAYOUT = Layout(BLOCKS, n_items=3, n_users=1)
WIDTH = LAYOUT.merged.stop - LAYOUT.merged.start
"""Columns of a version."""


def check_server(server: type[Server], options: Mapping[str, Any] | None = None) -> None:
    """Check a server by playing some rounds.

    Parameters
    ----------
    server : type of Server
        The class; it need not be registered.
    options : mapping, optional
        Options as in a scenario.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    """
    chosen = server.Options.model_validate(options or {})
    about = f"the server {server.__name__}"
    check_claims(about, __name__, make=lambda: with_stand_in_root(server(chosen)))
    with registered_as(SERVERS, server) as name:
        section = {"name": name, **(options or {})}
        check_claims(about, __name__, named=(server, section))


def _downlink(server: Server, published: F32, number: int, aggregated: F32 | None) -> Downlink:
    """Return the server's downlink after a round with the answers of two clients, or with none."""
    clients = np.array([] if aggregated is None else [0, 2], np.int64)
    rows = np.tile(published if aggregated is None else aggregated, (len(clients), 1))
    answers = ClientAnswers(clients, Inbox(rows, np.arange(len(clients)), np.ones(len(clients))))
    result = published.copy() if aggregated is None else aggregated
    return server.round(published.copy(), result, answers, RoundContext(SEED, number, N_CLIENTS, LAYOUT))


def _played(
    server: Server, targets: Iterable[float | None], first: int = 0, start: F32 | None = None
) -> list[Downlink]:
    """Play some rounds, each with the aggregate of its answers, or None if there are none."""
    published, pushed = np.zeros(WIDTH, np.float32) if start is None else start, []
    for number, target in enumerate(targets, first):
        aggregated = None if target is None else np.full(WIDTH, target, np.float32)
        pushed.append(_downlink(server, published, number, aggregated))
        published = pushed[-1].versions[0]
    return pushed


def it_pushes_what_it_announces(make: Make) -> None:
    """Push n_versions finite versions in float32 and extras of extra_bytes, and select existing versions."""
    due = (make().n_versions, WIDTH)
    for number, downlink in enumerate(_played(make(), [None, 1.0, None, 2.0])):
        versions, chosen = downlink.versions, downlink.version_of
        assert versions.shape == due, f"Found versions of shape {versions.shape} for {due} in round {number}."
        assert versions.dtype == np.float32, f"Found versions in {versions.dtype}."
        assert np.isfinite(versions).all(), f"Found {versions} in round {number}."
        size = sum(extra.nbytes for extra in downlink.extras.values())
        assert size == make().extra_bytes, f"Found extras of {size} bytes for {make().extra_bytes}."
        if chosen is not None:
            assert np.shape(chosen) == (N_CLIENTS,), f"Found version_of in shape {np.shape(chosen)}."
            assert np.isin(chosen, np.arange(due[0])).all(), (
                f"Found version_of {chosen} for {due[0]} versions."
            )


def without_answers_nothing_moves(make: Make) -> None:
    """Leave the first version as it is in a round without answers."""
    before, after = _played(make(), [1.0, None])
    np.testing.assert_array_equal(after.versions[0], before.versions[0])


def what_it_remembers_is_in_its_state(make: Make) -> None:
    """Continue from its state() after restore() as if it had not been interrupted."""
    whole, first, second = make(), make(), make()
    expected = _played(whole, [None, 1.0, 2.0, -1.0])
    published = _played(first, [None, 1.0])[-1].versions[0]
    second.restore(first.state())
    for found, due in zip(_played(second, [2.0, -1.0], 2, published), expected[2:], strict=True):
        np.testing.assert_array_equal(found.versions, due.versions)


def answers_that_agree_are_followed(make: Make) -> None:
    """Approach the value to which the answers of 400 rounds agree."""
    server, version = make(), np.zeros(WIDTH, np.float32)
    for number in range(400):
        version = _downlink(server, version, number, version + np.float32(0.1) * (1 - version)).versions[0]
    off = np.abs(version - 1).max()
    assert off < 0.1, f"It is {off:.3g} off."


def its_inputs_give_no_access_to_the_run(named: tuple[type[Server], dict[str, Any]]) -> None:
    """Get inputs from which no data of the run can be reached, for example through a view of another array."""
    cls, section = named
    runs = {
        name: tiny_scenario(protocol={**protocol, "server": section})
        for name, protocol in {"models": FEDERATED, "updates": UPDATES}.items()
    }
    refuse_reach_in_runs(runs, cls, "round")
