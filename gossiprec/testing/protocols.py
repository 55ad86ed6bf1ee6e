"""Contract of protocols: plannable behaviours, runs that end, and the same run for the same seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gossiprec.compute.plan.tape import MERGING, Behaviour, Op, TapeEvent, TapeSegment, operations_by_slot
from gossiprec.network.protocols import Protocol
from gossiprec.network.sim.availability import Availability
from gossiprec.testing.tapes import (
    NaiveInterpreter,
    ShuffledPlanRunner,
    make_test_planner,
    make_test_protocol,
    record_tape,
)
from gossiprec.testing.tiny_runs import check_claims

N_USERS = 6
NETWORKS: Mapping[str, Mapping[str, Any]] = {
    "an instant network": {},
    "a slow network": {"latency": 0.3},
    "a lossy network": {"distribution": "exponential", "latency": 0.5, "loss": 0.3},
    "a network with copies": {"distribution": "exponential", "latency": 0.5, "duplication": 0.3},
    "a network with churn": {"distribution": "exponential", "latency": 0.5, "loss": 0.1, "churn": True},
}
OFFLINE = {0: (1.5, 3.25), 1: (2.0,), N_USERS - 1: (0.25, 2.5, 3.5, 4.0)}
"""Times at which nodes go offline and come back under churn."""


@dataclass(frozen=True)
class ProtocolCase:
    """A protocol with its options, and the tapes of a few runs."""

    kind: type[Protocol]
    options: Mapping[str, Any]
    tapes: dict[str, tuple[list[TapeSegment], bool]] = field(default_factory=dict)

    def made(self, seed: int = 1, *, churn: bool = False) -> Protocol:
        """Return a new protocol; under churn some nodes are offline for a while."""
        made = make_test_protocol(self.kind, N_USERS, seed, **self.options)
        if not churn:
            return made
        changes = [np.array(OFFLINE.get(node, ())) for node in range(made.n_nodes)]
        availability = Availability([True] * made.n_nodes, changes)
        return self.kind(made.options, n_users=N_USERS, seed=seed, availability=availability)

    def record(self, network: str, *, seed: int = 1, every: float = 1e9) -> tuple[list[TapeSegment], bool]:
        """Return the tape of a new run, and whether deliveries are implied."""
        about = dict(NETWORKS[network])
        return record_tape(self.made(seed, churn=about.pop("churn", False)), **about, every=every)

    def recorded(self, network: str) -> tuple[list[TapeSegment], bool]:
        """Return a run's tape, cut at each unit of time, and whether deliveries are implied."""
        if network not in self.tapes:
            self.tapes[network] = self.record(network, every=1)
        return self.tapes[network]


def check_protocol(kind: type[Protocol], options: Mapping[str, Any] | None = None) -> None:
    """Run a protocol among six users on five networks, and carry out its plans.

    The networks are instant, slow, lossy, one that copies messages, and one with nodes that go offline.

    Parameters
    ----------
    kind : type of Protocol
        The class; it need not be registered.
    options : mapping, optional
        Options as in a scenario, chosen for a short run.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    """
    check_claims(f"the protocol {kind.__name__}", __name__, case=ProtocolCase(kind, options or {}))


def options_can_be_left_out(case: ProtocolCase) -> None:
    """Give every option a default, and read the same options again from what is written."""
    options = case.kind.Options()
    assert case.kind.Options.model_validate(options.model_dump()) == options, f"Found {options}."


def roles_have_behaviours(case: ProtocolCase) -> None:
    """Give every node a role, and every role a behaviour."""
    made = case.made()
    shape = made.roles.shape
    assert shape == (made.n_nodes,), f"Found roles of shape {shape}, nodes are {made.n_nodes}."
    roles, known = set(made.roles.tolist()), len(made.role_behaviours)
    assert roles == set(range(known)), f"Found roles {sorted(roles)} for {known} behaviours."
    assert all(isinstance(part, Behaviour) for part in made.role_behaviours), f"Found {made.role_behaviours}."


def deliveries_merge_and_pushes_send(case: ProtocolCase) -> None:
    """Merge only on a receive, once, and send by a push: on each wake that sends, and with an answer."""
    made, answering = case.made(), _answering(case)
    for node, role in enumerate(made.roles):
        on_wake, *on_receives = operations_by_slot(made.role_behaviours)[role]
        assert not MERGING & set(on_wake), f"Node {node} merges on its wake, when it receives nothing."
        for on_receive in on_receives:
            merges = [op for op in on_receive if op in MERGING]
            assert len(merges) <= 1, f"Node {node} merges what it receives {len(merges)} times."
        for operations in (on_wake, *on_receives):
            assert operations.count(Op.PUSH) <= 1, f"Node {node} pushes twice at one event."
        if made.sees_messages:  # its book checks each message that is sent
            continue
        pushes = Op.PUSH in on_wake or node not in made.clock.node_ids or made.messages_per_wake == 0
        assert pushes, f"Node {node} wakes, but Op.PUSH is not in its on_wake."
        assert Op.PUSH in on_receives[0] or node not in answering, (
            f"Node {node} answers, but Op.PUSH is not in its on_receive."
        )


def answering_is_announced(case: ProtocolCase) -> None:
    """Declare by `replies` whether a delivery can make a node send."""
    declared, answering = case.made().replies, _answering(case)
    assert declared == bool(answering), f"It declares {declared}, and nodes {sorted(answering)} send."


def _answering(case: ProtocolCase) -> set[int]:
    """Return the nodes that send on a delivery; a protocol that sets its own wakes is played to find them."""
    made = case.made()
    if not made.sets_own_wakes and not made.sees_messages:
        return {node for node in range(made.n_nodes) if made.on_delivery(node, 0, 0.0)}
    segments, _ = case.recorded("a slow network")
    return {int(n) for s in segments for n in s.node[(s.kind != TapeEvent.WAKE) & (s.count > 0)]}


def weights_are_those_of_all_nodes(case: ProtocolCase) -> None:
    """Give the models of each node a weight in float64, above 0 for users."""
    weights, n_nodes = case.made().merge_weights(np.arange(1, N_USERS + 1)), case.made().n_nodes
    assert weights.shape == (n_nodes,), f"Found shape {weights.shape} for {n_nodes} nodes."
    assert weights.dtype == np.float64, f"Found {weights.dtype}."
    assert (weights[:N_USERS] > 0).all(), f"Found {weights[:N_USERS]}."


def it_runs_to_its_end(case: ProtocolCase) -> None:
    """Wake and send as often as it declares, send at least one message, and lose or deliver each message."""
    for network in NETWORKS:
        made, (segments, inline) = case.made(), case.recorded(network)
        wakes = np.concatenate([s.node[s.kind == TapeEvent.WAKE] for s in segments])
        missed = np.concatenate([wakes[:0], *[s.misses.node for s in segments]])
        certain = not {"churn", "duplication"} & set(NETWORKS[network])
        rung = np.concatenate([wakes, missed])
        found = np.bincount(rung, minlength=made.n_nodes)[list(made.clock.node_ids)].tolist()
        assert found == [made.wakes] * len(found), f"On {network} nodes woke {found} times, not {made.wakes}."
        sent = sum(len(s.receiver) for s in segments)
        ended = sum(int((s.kind != TapeEvent.WAKE).sum()) for s in segments)
        announced = made.messages_per_wake
        assert sent > 0 or announced == 0, f"On {network} nothing was sent."
        assert not certain or announced in (None, sent / sum(found)), (
            f"On {network} {sent} messages were sent by {sum(found)} wakes, not {announced} by each."
        )
        assert ended == (0 if inline else sent), f"On {network} {ended} of {sent} messages came to an end."


def receivers_are_others(case: ProtocolCase) -> None:
    """Send to other existing nodes, and to each of them only once per push."""
    n_nodes = case.made().n_nodes
    for network, about in NETWORKS.items():
        for segment in case.recorded(network)[0]:
            inside = (segment.receiver >= 0) & (segment.receiver < n_nodes)
            assert inside.all(), f"Found receiver {segment.receiver[~inside][0]} of {n_nodes} nodes."
            selfish = segment.sender[segment.sender == segment.receiver]
            assert not len(selfish), f"Node {selfish[0]} sends to itself."
            event = np.repeat(np.arange(len(segment.kind)), segment.count)
            control = segment.control if len(segment.control) else np.zeros_like(segment.receiver)
            different = len(np.unique(np.stack([event, segment.receiver, control]), axis=1).T)
            copied = "duplication" in about
            assert copied or different == len(event), "A node sends twice to the same one at once."


def the_tape_follows_from_the_seed(case: ProtocolCase) -> None:
    """Run identically with the same seed, and differently with another seed if wakes or deliveries are random."""
    chance = case.made(1).clock.intervals(0, 1)[0] != case.made(2).clock.intervals(0, 1)[0]
    for network, about in NETWORKS.items():
        one, again, other = (_columns(case.record(network, seed=seed)[0]) for seed in (1, 1, 2))
        assert one == again, f"On {network} two runs with the same seed differ."
        by_chance = chance.any() or ("distribution" in about and case.made().messages_per_wake != 0)
        differs = one != other or not by_chance
        assert differs, f"On {network} another seed changes nothing."


def _columns(segments: list[TapeSegment]) -> list[list[float]]:
    (all_of_it,) = segments
    names = ("kind", "node", "message", "count", "receiver", "time", "slot", "control")
    return [getattr(all_of_it, name).tolist() for name in names]


def plans_do_what_the_tape_says(case: ProtocolCase) -> None:
    """Give the same models whether a plan is run in waves of tasks or event by event."""
    for network in NETWORKS:
        for segments, inline in (case.recorded(network), case.record(network)):
            for found, expected in _played(case.made(), segments, inline):
                np.testing.assert_array_equal(found, expected, err_msg=f"On {network} models differ")


def _played(made: Protocol, segments: list[TapeSegment], inline: bool) -> Iterator[tuple[Any, Any]]:
    plans, naive = ShuffledPlanRunner(made.n_nodes), NaiveInterpreter(made, inline=inline)
    planning = make_test_planner(made, inline=inline)
    for segment in segments:
        plans.run(planning.plan(segment), planning.capacity)
        naive.play(segment)
        yield plans.rows[planning.current_rows], naive.values


def the_fraction_met_is_a_share_that_grows(case: ProtocolCase) -> None:
    """Predict a fraction met that begins at 0, grows and never exceeds 1, or None."""
    predicted = [case.made().predicted_fraction_met(rounds) for rounds in (0, 1, 10, 1000)]
    known = [share for share in predicted if share is not None]
    if known:
        assert known == sorted(known), f"Found {known}."
        assert known[0] == 0, f"Found {known[0]:g} before the first round."
        assert known[-1] <= 1, f"Found {known[-1]:g}."
