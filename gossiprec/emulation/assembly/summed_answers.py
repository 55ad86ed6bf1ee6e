"""Sums in place of single answers: what the coordinator sees, and what nodes of gossip learn of their neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gossiprec.adversaries.attacks import Attack
from gossiprec.base.arrays import F64, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.registry import registry_name
from gossiprec.compute.answer_rounds import AnswerRounds, NeighbourRounds
from gossiprec.compute.messages import OutgoingTransforms, WithholdUserRow
from gossiprec.compute.secure_sums import (
    MASKED_COHORT,
    WIDEST,
    FixedPoint,
    Modulus,
    NeighbourSums,
    Quorum,
    SumSettings,
)
from gossiprec.models import Layout
from gossiprec.network.protocols import Protocol
from gossiprec.rules.aggregators import Aggregator
from gossiprec.scenario import Scenario

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.components import RunComponents

OTHERWISE = "or set coordinator.sees to updates or final"


def withhold_user_rows(
    scenario: Scenario, protocol: Protocol, layout: Layout, outgoing: OutgoingTransforms
) -> None:
    """Leave users' rows out of answers of which the coordinator sees no single one.

    Raises
    ------
    ScenarioError
        If there is no coordinator, or models hold the rows of all users.
    """
    sees = scenario.coordinator.sees
    if sees == "updates":
        return
    if not protocol.has_coordinator:
        raise ScenarioError(
            f"coordinator.sees: found {sees!r}, but {scenario.protocol.name} has no coordinator; use fedavg, or remove "
            "the section coordinator"
        )
    if protocol.whole_user_table:
        raise ScenarioError(
            f"coordinator.sees: found {sees!r}, but with protocol.user_table 'averaged' answers hold the rows of all "
            "users; set user_table to own"
        )
    if layout.user_width:
        outgoing.add("coordinator.sees", WithholdUserRow(), np.arange(protocol.n_users))


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


def make_answer_rounds(scenario: Scenario, protocol: Protocol) -> AnswerRounds | None:
    """Return the rounds of the coordinator, or None if it sees every answer."""
    options = scenario.coordinator
    if options.sees == "updates":
        return None
    return AnswerRounds(protocol.n_users, Quorum(options.threshold, options.minimum))


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
    found = [policy.neighbour_sums() for policy in components.policies]
    return next((each for each in found if each is not None), None)


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
