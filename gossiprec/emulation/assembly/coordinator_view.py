"""What the coordinator sees of answers: its reduction of sums, and the refusal of parts that need single answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gossiprec.base.arrays import I32
from gossiprec.base.errors import ScenarioError
from gossiprec.base.registry import registry_name
from gossiprec.compute.answer_rounds import AnswerRounds
from gossiprec.compute.messages import OutgoingTransforms, WithholdUserRow
from gossiprec.compute.secure_sums import MASKED_COHORT, WIDEST, FixedPoint, Modulus, Quorum, SumSettings
from gossiprec.models import Layout
from gossiprec.network.protocols import Protocol
from gossiprec.rules.aggregators import Aggregator, InboxConfig
from gossiprec.scenario import Scenario

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.components import RunComponents

OTHERWISE = "or set coordinator.sees to updates or final"


def coordinator_inbox(scenario: Scenario, protocol: Protocol) -> InboxConfig | None:
    """Return the rule of the coordinator's inbox; sums wait for all answers of a round.

    Raises
    ------
    ScenarioError
        If the coordinator is to see sums, and the protocol cannot compute them.
    """
    if scenario.coordinator.sees != "sums":
        return protocol.inbox()
    found = protocol.sums_inbox()
    if found is None:
        raise ScenarioError(
            f"coordinator.sees: found 'sums', but {scenario.protocol.name} has no rounds of which the answers are "
            f"summed; use fedavg, {OTHERWISE}"
        )
    return found


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
    scenario, recommender = components.scenario, components.recommender
    sees = scenario.coordinator.sees
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
    rule = components.receivers[components.protocol.n_users].rule
    if not _reduces_sums(rule):
        raise ScenarioError(
            f"protocol.merge: {registry_name(rule)} compares or limits single answers, but with coordinator.sees "
            f"'sums' the coordinator learns their sum only; use samples, mean, sum or touched-mean, {OTHERWISE}"
        )
    if recommender is not None and (components.user_upload_width or components.contribution is not None):
        raise ScenarioError(
            f"recommender: {name} sends the coordinator data of single users, but coordinator.sees 'sums' sums all "
            f"answers; choose another recommender, {OTHERWISE}"
        )
    for part in () if components.server is None else components.server.parts:
        if part is not None and getattr(part, "needs_answers", True):
            key = "recommender" if part is components.coordinator_hook else "protocol.server"
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
    scenario, protocol, layout = components.scenario, components.protocol, components.layout
    options, inbox = scenario.coordinator, coordinator_inbox(scenario, protocol)
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
    return SumSettings(
        scenario.seed,
        encoding,
        Modulus(modulus),
        layout.merged.stop - layout.merged.start,
        layout.n_items,
        layout.item_width,
        weighs=bool((weights != 1.0).any()),
        counts_items=components.receivers[protocol.n_users].rule.counts_items,
        quorum=Quorum(options.threshold, options.minimum),
        masks=n <= MASKED_COHORT if options.masks == "auto" else options.masks,
    )


def latest_answers(rounds: AnswerRounds) -> I32:
    """Return the latest answer of each client from which one has arrived, by client."""
    return np.array([rounds.latest[client] for client in sorted(rounds.latest)], np.int32)
