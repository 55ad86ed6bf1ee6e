"""Sums in place of single answers: what the coordinator sees, and what nodes of gossip learn of their neighbours."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gossiprec.adversaries.attacks import Attack
from gossiprec.base.arrays import F32, F64, I32, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.registry import registry_name
from gossiprec.compute.answer_rounds import AnswerRounds, NeighbourRounds, SumRounds
from gossiprec.compute.executors import Executor
from gossiprec.compute.inbox_reducer import Collected, InboxReduction, ReceiverConfig
from gossiprec.compute.messages import OutgoingTransforms, WithholdUserRow
from gossiprec.compute.plan.tape import TapeSegment
from gossiprec.compute.secure_sums import (
    EXCHANGES,
    MASKED_COHORT,
    WIDEST,
    FixedPoint,
    Modulus,
    NeighbourSums,
    Quorum,
    Round,
    SecureSum,
    SumSettings,
    mean_model,
)
from gossiprec.defences.secure_neighbours import SecureNeighbours
from gossiprec.emulation.assembly.attack_hook import AttackHook
from gossiprec.emulation.assembly.components import NodeLoad, RunComponents
from gossiprec.emulation.assembly.message_scheme import SCHEMES, MessageScheme
from gossiprec.emulation.assembly.schedule import Schedule
from gossiprec.network.protocols import Protocol
from gossiprec.rules.aggregators import Aggregator, Inbox
from gossiprec.rules.servers import Server
from gossiprec.runs.reader import Columns
from gossiprec.scenario import Scenario

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.prepare import PreparedRun

OTHERWISE = "or set coordinator.sees to updates or final"


@SCHEMES.register("sums")
class Sums(MessageScheme):
    """Receivers that learn sums of a round, and no single answer: a coordinator, or the nodes of gossip.

    Attributes
    ----------
    rounds : SumRounds
    """

    def __init__(self, components: RunComponents, executor: Executor, schedule: Schedule) -> None:
        super().__init__(components, executor, schedule)
        neighbours = make_neighbour_rounds(components, inline=schedule.deliveries_implied)
        self._components, self._among_neighbours = components, neighbours is not None
        self._meters: list[AttackHook] = []
        options = components.scenario.coordinator
        quorum = Quorum(options.threshold, options.minimum)
        self.rounds: SumRounds = neighbours or AnswerRounds(components.protocol.n_users, quorum)
        self._learns_sums = options.sees != "final"
        self.control_kinds = EXCHANGES if self._learns_sums else ()

    @classmethod
    def change_outgoing(
        cls, scenario: Scenario, protocol: Protocol, outgoing: OutgoingTransforms, server: Server | None
    ) -> None:
        """Leave users' rows out of answers of which the coordinator sees no single one."""
        sees = scenario.coordinator.sees
        if sees == "updates":
            return
        if not protocol.has_coordinator:
            raise ScenarioError(
                f"coordinator.sees: found {sees!r}, but {scenario.protocol.name} has no coordinator; use fedavg, or "
                "remove the section coordinator"
            )
        if protocol.whole_user_table:
            raise ScenarioError(
                f"coordinator.sees: found {sees!r}, but with protocol.user_table 'averaged' answers hold the rows of "
                "all users; set user_table to own"
            )
        if outgoing.layout.user_width:
            outgoing.add("coordinator.sees", WithholdUserRow(), np.arange(protocol.n_users))

    @classmethod
    def check(cls, components: RunComponents) -> None:
        """Refuse what needs single answers, if the coordinator sees none."""
        check_coordinator(components)

    @classmethod
    def node_load(cls, components: RunComponents) -> NodeLoad:
        """Return messages of the size of masked vectors, if receivers only learn sums."""
        settings, load = make_sum_settings(components), components.node_load
        settings = settings or make_neighbour_settings(components)
        if settings is None:
            return load
        size = np.full(components.protocol.n_users, settings.vector_bytes)
        rest = slice(components.protocol.n_users, None)
        sizes = np.append(size, load.message_bytes[rest]), np.append(size, load.planned_bytes[rest])
        return NodeLoad(*sizes, load.samples)

    def hide(self, meters: list[AttackHook]) -> None:
        """Hide the models that nodes or a coordinator receive; a mean or the final model is shown in their place."""
        protocol, self._meters = self._components.protocol, meters
        hidden = range(protocol.n_users, protocol.n_nodes)
        if self._among_neighbours:
            refuse_coalitions([meter.attack for meter in meters])
            hidden = range(protocol.n_users)
        for meter in meters:
            for node in hidden:
                meter.hide_node(node)

    def receivers(self, receivers: dict[int, ReceiverConfig]) -> dict[int, ReceiverConfig]:
        """Let receivers compute with sums."""
        if self._among_neighbours:
            settings = make_neighbour_settings(self._components)
            # a node of gossip does not know the versions before training
            views: list[ModelView] = [functools.partial(m.show_model, has_base=False) for m in self._meters]
            nodes = list(receivers)
        else:
            settings = make_sum_settings(self._components)
            views, nodes = [meter.show_model for meter in self._meters], [self._components.protocol.n_users]
        if settings is None:
            return receivers
        of_changes = not self._among_neighbours
        reduction = SumReduction(SecureSum(settings), self.rounds, views, of_changes=of_changes)
        return receivers | {node: replace(receivers[node], reduction=reduction) for node in nodes}

    def read_segment(self, segment: TapeSegment) -> None:
        """Read the rounds of a segment."""
        self.rounds.read_segment(segment)

    def replay_segment(self, segment: TapeSegment) -> None:
        """Read the rounds of a segment that was logged before."""
        self.rounds.replay_segment(segment)

    def set_sizes(self, sizes: I32, segment: TapeSegment) -> None:
        """Set the bytes of masked vectors."""
        if self._learns_sums:
            answers = segment.sender < self._components.protocol.n_users
            sizes[answers] = self._components.node_load.message_bytes[segment.sender[answers]]

    def control_rows(self) -> Iterator[Columns]:
        """Yield the exchanges of keys and shares."""
        if self._learns_sums:
            yield self.rounds.take_rows()

    def show_final_model(self, prepared: PreparedRun) -> None:
        """Show attacks the coordinator's model in place of each client's latest answer, if they see nothing else."""
        if not isinstance(self.rounds, AnswerRounds) or self._learns_sums:
            return
        coordinator = self._components.protocol.n_users
        version = prepared.executor.store.merged_columns(prepared.planner.current_row(coordinator))
        latest = self.rounds.latest
        messages = np.array([latest[client] for client in sorted(latest)], np.int32)
        for meter in self._meters if len(messages) else ():
            meter.show_model(coordinator, messages, version, version)


ModelView: TypeAlias = Callable[[int, I32, F32, F32], None]
"""A function that shows observers the model which takes the place of answers.

Its arguments are the receiver, the messages of the answers, the model, and the receiver's own one; models are the
columns that receivers merge.
"""


class SumReduction(InboxReduction):
    """The reduction of a receiver that only learns sums: a coordinator, or a node of gossip.

    Parameters
    ----------
    sums : SecureSum
    rounds : SumRounds
    views : sequence of ModelView
        Called with the mean of each round.
    of_changes : bool
        Whether changes of the receiver's own version are summed, or whole models.
    """

    def __init__(
        self, sums: SecureSum, rounds: SumRounds, views: Sequence[ModelView], *, of_changes: bool
    ) -> None:
        self._sums, self._rounds, self._views, self._of_changes = sums, rounds, views, of_changes

    def reduce(self, receiver: ReceiverConfig, collected: Collected) -> tuple[F32, Inbox]:
        """Return the next version, and an inbox in which the mean of the round replaces each answer."""
        collected.keep(self._rounds.rounds_of(collected.messages) >= 0)
        own, rule, inbox = collected.own, receiver.rule, collected.inbox()
        collected.refuse(~inbox.is_finite)
        if not len(inbox):
            return own, inbox
        number = int(self._rounds.rounds_of(collected.messages[:1])[0])
        done = self._rounds.completed[number]
        round_ = Round(collected.node, number, done.cohort)
        base = own if self._of_changes else np.zeros_like(own)
        clients = collected.senders.astype(np.int64)
        sums = self._sums.sum_answers(base, inbox, clients, round_, done.clients)
        mean = mean_model(rule, base, sums)
        for view in self._views:
            view(collected.node, done.messages, mean, own)
        stand_ins = Inbox(mean[None], np.zeros(len(inbox), np.int64), inbox.weights.copy(), inbox.own_weight)
        if self._of_changes:
            return rule.reduce_sums(own.copy(), sums), stand_ins
        share = inbox.own_weight / (inbox.own_weight + sums.weight)
        return (share * own + (1 - share) * mean).astype(np.float32), stand_ins

    def counters(self) -> dict[str, int]:
        """Return how many numbers were clipped."""
        return {"n_clipped": self._sums.n_clipped}

    def restore(self, counters: Mapping[str, int]) -> None:
        """Restore how many numbers were clipped."""
        self._sums.n_clipped = counters["n_clipped"]

    def report(self, totals: Mapping[str, int]) -> dict[str, Any]:
        """Return the counts of rounds, and the size of a vector."""
        settings = self._sums.settings
        return {"secure_sums": {
            **self._rounds.counts, "clipped": totals["n_clipped"], "bits": settings.modulus.k,
            "vector_bytes": settings.vector_bytes, "masked": settings.masks,
        }}  # fmt: skip

    def notes(self, report: Mapping[str, Any]) -> Iterator[str]:
        """Yield a sentence about rounds without a sum, and one about clipped numbers."""
        found = report["secure_sums"]
        if found["skipped"]:
            yield (
                f"{found['skipped']:,} of {found['rounds']:,} rounds were skipped, because fewer clients answered in "
                "time than a secure sum needs (threshold, minimum)"
            )
        if found["clipped"]:
            yield (
                f"{found['clipped']:,} numbers of answers were clipped before they were summed; raise clip to keep "
                "them"
            )


def check_coordinator(components: RunComponents) -> None:
    """Refuse what needs single answers, if the coordinator sees none.

    Raises
    ------
    ScenarioError
    """
    scenario, coordination = components.scenario, components.coordination
    recommender, sees = coordination.recommender, scenario.coordinator.sees
    if sees == "updates":
        return
    name = "" if scenario.recommender is None else scenario.recommender.name
    if recommender is not None and recommender.upload_attack is not None:
        raise ScenarioError(
            f"recommender.leaks: {name} attacks single uploads, but with coordinator.sees {sees!r} the coordinator "
            "sees none; remove leaks, or set coordinator.sees to updates"
        )
    if sees != "sums":
        return
    rule = components.inboxes.receivers[components.protocol.n_users].rule
    if not _reduces_sums(rule):
        raise ScenarioError(
            f"protocol.merge: {registry_name(rule)} compares or limits single answers, but with coordinator.sees "
            f"'sums' the coordinator learns their sum only; use samples, mean, sum or touched-mean, {OTHERWISE}"
        )
    if recommender is not None and (components.user_upload_width or coordination.contribution is not None):
        raise ScenarioError(
            f"recommender: {name} sends the coordinator data of single users, but coordinator.sees 'sums' sums all "
            f"answers; choose another recommender, {OTHERWISE}"
        )
    for part in () if coordination.server is None else coordination.server.parts:
        if part is not None and getattr(part, "needs_answers", True):
            key = "recommender" if part is coordination.hook else "protocol.server"
            which = name if key == "recommender" else registry_name(part)
            raise ScenarioError(
                f"{key}: {which} computes with single answers, but with coordinator.sees 'sums' the coordinator learns "
                f"their sum only; choose another one (momentum, adaptive, fedyogi, adam), {OTHERWISE}"
            )
    if components.outgoing.nodes_with("is_partial").any():
        raise ScenarioError(
            "policies: a policy sends parts of models, which shows the coordinator what is missing, but with "
            f"coordinator.sees 'sums' every client sends a whole vector; remove the policy, {OTHERWISE}"
        )


def _reduces_sums(rule: Aggregator) -> bool:
    """Return whether a rule reduces sums, and does not inherit this from a rule of which it replaces the result."""

    def owner(name: str) -> type:
        return next(kind for kind in type(rule).__mro__ if name in vars(kind))

    own = owner("reduce_sums")
    return rule.from_sums and issubclass(own, owner("reduce")) and issubclass(own, owner("aggregate"))


def make_sum_settings(components: RunComponents) -> SumSettings | None:
    """Return the settings of secure sums, or None if the coordinator sees more or less than sums.

    Raises
    ------
    ScenarioError
        If a round has too few clients, or a sum might overflow.
    """
    scenario, protocol = components.scenario, components.protocol
    options, inbox = scenario.coordinator, protocol.coordinator_inbox(scenario.coordinator.sees)
    if options.sees != "sums":
        return None
    assert inbox is not None
    n, weights = inbox.expected, components.merge_weights[: protocol.n_users]
    if n < options.minimum:
        raise ScenarioError(
            f"coordinator.minimum: found {options.minimum}, but a round has only {n} clients; raise "
            "protocol.participation (or slice), or lower minimum"
        )
    encoding, largest = FixedPoint(options.clip, options.bits), float(np.sort(weights)[-n:].sum())
    needed = encoding.needed_modulus(largest)
    modulus = needed if options.modulus == "auto" else options.modulus
    if needed > min(modulus, WIDEST):
        raise ScenarioError(
            f"coordinator.modulus: found {options.modulus}, but sums of {n} clients with clip {options.clip:g}, "
            f"{options.bits} bits and weights of up to {largest:g} together need {needed} bits, and {WIDEST} is the "
            "limit; raise modulus, or lower clip, bits or the number of clients of a round"
        )
    rule = components.inboxes.receivers[protocol.n_users].rule
    quorum = Quorum(options.threshold, options.minimum)
    masks = n <= MASKED_COHORT if options.masks == "auto" else options.masks
    about = {"counts_items": rule.counts_items, "quorum": quorum, "masks": masks}
    return _sum_settings(components, encoding, modulus, weights, **about)


def _sum_settings(
    components: RunComponents, encoding: FixedPoint, modulus: int, weights: F64, **about: Any
) -> SumSettings:
    """Return the settings of sums of whole answers."""
    layout, seed, weighs = components.layout, components.scenario.seed, bool((weights != 1.0).any())
    shape = layout.merged.stop - layout.merged.start, layout.n_items, layout.item_width
    return SumSettings(seed, encoding, Modulus(modulus), *shape, weighs=weighs, **about)


POLICY = "policies: secure-neighbours:"


def find_neighbour_sums(components: RunComponents) -> NeighbourSums | None:
    """Return how nodes learn sums of their neighbours, or None if they see every model."""
    found = [policy for policy in components.policies if isinstance(policy, SecureNeighbours)]
    return found[0].neighbour_sums() if found else None


def check_neighbour_sums(components: RunComponents, sums: NeighbourSums, senders_of: Sequence[I64]) -> None:
    """Refuse protocols without rounds of known senders, and parts that need single models.

    Raises
    ------
    ScenarioError
    """
    if components.outgoing.nodes_with("is_partial").any():
        raise ScenarioError(
            f"{POLICY} another policy sends parts of models, which shows the receiver what is missing, but in a sum "
            "every node sends a whole vector; remove one of them"
        )
    if components.scenario.churn.model == "reset":
        raise ScenarioError(
            f"{POLICY} found churn.model 'reset', which loses what waits for a sum; set it to keep"
        )
    for node, senders in enumerate(senders_of):
        if 0 < len(senders) < sums.quorum.minimum:
            raise ScenarioError(
                f"{POLICY} minimum: found {sums.quorum.minimum}, but only {len(senders)} send to node {node}; choose a "
                "graph with more links, or lower minimum (2 at least: a sum of one model is the model)"
            )


def refuse_coalitions(attacks: Sequence[Attack]) -> None:
    """Refuse observers that collude.

    Raises
    ------
    ScenarioError
    """
    for attack in attacks:
        if len(attack.pools):
            raise ScenarioError(
                f"{POLICY} {attack.label} is a coalition, of which members know one another's masks and models, and "
                "this is not modelled; set who to single, or remove the policy"
            )


def round_senders(components: RunComponents) -> list[I64]:
    """Return the nodes that send to each node in every round."""
    receivers = components.protocol.receivers_in_step(POLICY)
    senders: list[list[int]] = [[] for _ in receivers]
    for node, peers in enumerate(receivers):
        for peer in peers:
            senders[peer].append(node)
    return [np.array(sorted(each), np.int64) for each in senders]


def make_neighbour_rounds(components: RunComponents, *, inline: bool) -> NeighbourRounds | None:
    """Return the rounds of all nodes, or None if nodes see every model."""
    sums = find_neighbour_sums(components)
    if sums is None:
        return None
    interval = components.protocol.clock.mean
    return NeighbourRounds(round_senders(components), interval, sums.quorum, inline=inline)


def make_neighbour_settings(components: RunComponents) -> SumSettings | None:
    """Return the settings of sums among neighbours, or None if nodes see every model.

    Raises
    ------
    ScenarioError
        If a sum might overflow.
    """
    sums = find_neighbour_sums(components)
    if sums is None:
        return None
    senders = round_senders(components)
    check_neighbour_sums(components, sums, senders)
    weights = components.merge_weights
    largest = max(float(weights[each].sum()) for each in senders)
    modulus = sums.encoding.needed_modulus(largest)
    if modulus > WIDEST:
        raise ScenarioError(
            f"{POLICY} found clip {sums.encoding.clip:g} and {sums.encoding.bits} bits, with which sums of weights up "
            f"to {largest:g} need {modulus} bits, and {WIDEST} is the limit; lower clip or bits"
        )
    # recovering secrets takes most of the time, which grows with the cube of the clients
    few = sum(len(each) ** 3 for each in senders) <= MASKED_COHORT**3
    masks = few if sums.masks is None else sums.masks
    about = {"counts_items": False, "quorum": sums.quorum, "masks": masks}
    return _sum_settings(components, sums.encoding, max(modulus, 2), weights, **about)
