"""Sums that nodes of gossip learn of their neighbours: their rounds, their encoding, and the refusal of misfits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gossiprec.adversaries.attacks import Attack
from gossiprec.base.arrays import I64
from gossiprec.base.errors import ScenarioError
from gossiprec.compute.answer_rounds import NeighbourRounds
from gossiprec.compute.secure_sums import MASKED_COHORT, WIDEST, Modulus, NeighbourSums, SumSettings

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.components import RunComponents

POLICY = "policies: secure-neighbours:"


def find_neighbour_sums(components: RunComponents) -> NeighbourSums | None:
    """Return how nodes learn sums of their neighbours, or None if they see every model."""
    found = [policy.neighbour_sums() for policy in components.policies]
    return next((each for each in found if each is not None), None)


def check_neighbour_sums(components: RunComponents) -> None:
    """Refuse protocols without rounds of known senders, and parts that need single models.

    Raises
    ------
    ScenarioError
    """
    sums = find_neighbour_sums(components)
    if sums is None:
        return
    scenario = components.scenario
    if components.outgoing.nodes_with("is_partial").any():
        raise ScenarioError(
            f"{POLICY} another policy sends parts of models, which shows the receiver what is missing, but in a sum "
            "every node sends a whole vector; remove one of them"
        )
    if scenario.churn.model == "reset":
        raise ScenarioError(
            f"{POLICY} found churn.model 'reset', which loses what waits for a sum; set it to keep"
        )
    for node, senders in enumerate(round_senders(components)):
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
    check_neighbour_sums(components)
    layout, weights = components.layout, components.merge_weights
    senders = round_senders(components)
    largest = max(float(weights[each].sum()) for each in senders)
    modulus = sums.encoding.needed_modulus(largest)
    if modulus > WIDEST:
        raise ScenarioError(
            f"{POLICY} found clip {sums.encoding.clip:g} and {sums.encoding.bits} bits, with which sums of weights up "
            f"to {largest:g} need {modulus} bits, and {WIDEST} is the limit; lower clip or bits"
        )
    # recovering secrets takes most of the time, which grows with the cube of the clients
    few = sum(len(each) ** 3 for each in senders) <= MASKED_COHORT**3
    return SumSettings(
        components.scenario.seed,
        sums.encoding,
        Modulus(max(modulus, 2)),
        layout.merged.stop - layout.merged.start,
        layout.n_items,
        layout.item_width,
        weighs=bool((weights != 1.0).any()),
        counts_items=False,
        quorum=sums.quorum,
        masks=few if sums.masks is None else sums.masks,
    )
