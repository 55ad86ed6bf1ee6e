"""What every registered protocol keeps to."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.compute.plan.tape import Behaviour, Event, Op
from gossiprec.protocols import PROTOCOLS
from tests.properties.tapes import Naive, Plans, planner, protocol, record

N_USERS = 6
SHORT = {"rand-gossip": {"wakes": 5}, "pers-gossip": {"wakes": 5}, "fedavg": {"rounds": 5}}
"""Options that make a run short; a protocol that is not here runs with its defaults."""
NETWORKS = [{}, {"latency": 0.3}, {"law": "exponential", "latency": 0.5, "loss": 0.3}]


@pytest.fixture(params=list(PROTOCOLS))
def made(request):
    """Return a function that makes the protocol anew."""
    return lambda seed=1: protocol(request.param, N_USERS, seed, **SHORT.get(request.param, {}))


BUFFER = {
    "name": "buffered",
    "buffer": 2,
    "concurrency": 4,
    "mixing": 0.5,
    "staleness": {"law": "polynomial"},
}
STEERED = {
    "fedavg-waiting": {"rounds": 5, "round": {"deadline": 1.0, "give_up": 2.0, "late": "discard"}},
    "fedavg-buffered": {"rounds": 5, "aggregation": BUFFER},
}
"""Protocols that set their own wakes by what arrives."""


@pytest.fixture(params=[*PROTOCOLS, *STEERED])
def running(request):
    """Return a function that makes the protocol anew, or one that steers."""
    if request.param in STEERED:
        return lambda seed=1: protocol("fedavg", N_USERS, seed, **STEERED[request.param])
    return lambda seed=1: protocol(request.param, N_USERS, seed, **SHORT.get(request.param, {}))


def test_protocol_has_options_that_can_all_be_left_out(made):
    options = type(made()).Options()

    assert type(options).model_validate(options.model_dump()) == options


def test_every_node_has_a_role_and_every_role_a_behaviour(made):
    control = made()

    assert control.roles.shape == (control.n_nodes,)
    assert set(control.roles.tolist()) == set(range(len(control.behaviours)))
    assert all(isinstance(behaviour, Behaviour) for behaviour in control.behaviours)


def test_only_a_delivery_gives_something_to_merge_and_only_a_push_sends(made):
    control = made()
    merging = {Op.BLEND, Op.ADOPT, Op.POOL, Op.APPRAISE}
    for node, role in enumerate(control.roles):
        behaviour = control.behaviours[role]
        assert not merging & set(behaviour.on_wake)
        assert sum(op in merging for op in behaviour.on_receive) <= 1
        if node in control.clock.node_ids:
            assert Op.PUSH in behaviour.on_wake
        assert not (control.on_receive(node, 0, 0.0) and Op.PUSH not in behaviour.on_receive)


def test_a_protocol_that_answers_says_so(made):
    control = made()
    assert control.replies == any(control.on_receive(node, 0, 0.0) for node in range(control.n_nodes))


def test_weights_are_those_of_all_nodes(made):
    weights = made().merge_weights(np.arange(1, N_USERS + 1))

    assert weights.shape == (made().n_nodes,)
    assert weights.dtype == np.float64
    assert (weights[:N_USERS] > 0).all()


@pytest.mark.parametrize("network", NETWORKS)
def test_it_runs_to_its_end(running, network):
    control = running()
    segments, inline = record(control, **network, every=2)
    wakes = np.concatenate([s.node[s.kind == Event.WAKE] for s in segments])
    sent = sum(len(s.receiver) for s in segments)
    ended = sum(int((s.kind != Event.WAKE).sum()) for s in segments)

    assert np.bincount(wakes, minlength=control.n_nodes)[list(control.clock.node_ids)].tolist() == [
        control.wakes
    ] * len(control.clock.node_ids)
    assert sent > 0
    assert ended == (0 if inline else sent)


@pytest.mark.parametrize("network", NETWORKS)
def test_nobody_sends_to_itself_or_twice_to_the_same_at_once(running, network):
    segments, _ = record(running(), **network)
    for segment in segments:
        assert (segment.sender != segment.receiver).all()
        event = np.repeat(np.arange(len(segment.kind)), segment.count)
        pairs = set(zip(event.tolist(), segment.receiver.tolist(), strict=True))
        assert len(pairs) == len(segment.receiver)
        assert ((segment.receiver >= 0) & (segment.receiver < running().n_nodes)).all()


@pytest.mark.parametrize("network", NETWORKS)
def test_the_same_seed_gives_the_same_tape_and_another_seed_another(made, network):
    def tape(seed):
        (segment,), _ = record(made(seed), **network)
        columns = (segment.kind, segment.node, segment.message, segment.count, segment.receiver, segment.time)
        return [column.tolist() for column in columns]

    assert tape(1) == tape(1)
    has_chance = made().clock.intervals(0, 1)[0] != made(2).clock.intervals(0, 1)[0] or network.get("law")
    assert (tape(1) != tape(2)) == bool(has_chance)


@pytest.mark.parametrize("every", [1, 1e9])
@pytest.mark.parametrize("network", NETWORKS)
def test_its_plans_do_what_its_tape_says(running, network, every):
    control = running()
    segments, inline = record(control, **network, every=every)
    plans, naive, planning = (
        Plans(control.n_nodes),
        Naive(control, inline=inline),
        planner(control, inline=inline),
    )
    for segment in segments:
        plans.run(planning.plan(segment), planning.capacity)
        naive.play(segment)

    np.testing.assert_array_equal(plans.rows[planning.current], naive.values)


def test_the_predicted_fraction_met_is_one_and_grows(made):
    predicted = [made().predicted_fraction_met(rounds) for rounds in (0, 1, 10, 1000)]

    if predicted[0] is not None:
        assert predicted[0] == 0
        assert predicted == sorted(predicted)
        assert predicted[-1] <= 1
