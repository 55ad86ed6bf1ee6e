"""Epidemic learning: push to a few random nodes per wake, and average all that has arrived.

References
----------
M. de Vos, S. Farhadkhani, R. Guerraoui, A.-M. Kermarrec, R. Pires, R. Sharma, "Epidemic learning: boosting
decentralized learning with randomized communication", NeurIPS 2023 (arXiv 2310.01972), algorithm 1 with EL-Local. There
all nodes take a step together; here each node has its own clock, and a wake is its step. EL-Oracle, in which each node
also receives exactly s models, needs steps of all nodes together and is not built.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

from gossiprec.base.options import Count, Options, Problem
from gossiprec.network.overlay import too_many_peers
from gossiprec.network.protocols import PROTOCOLS
from gossiprec.network.protocols.gossip import CountedRefreshOptions, ViewOptions, WakeOptions
from gossiprec.network.protocols.rand_gossip import RandGossip


class EpidemicOptions(Options):
    """Options of epidemic learning."""

    receivers: Count = 3
    """s: number of random nodes to which a node sends per wake"""
    heal: bool = True
    """draw an online node in place of an offline one; if false, messages to offline nodes are lost"""
    merge: Literal["mean", "samples"] = "mean"
    """weight of a model: mean (1, as in the paper) or samples (its positives)"""
    user_table: Literal["own", "averaged"] = "own"
    """own: a node has only its own user row; averaged: every node has and merges all rows"""
    start: Literal["common", "own"] = "common"
    """initial item tables and shared weights: the same for all nodes, or drawn per node"""
    wake: WakeOptions = WakeOptions(law="constant")
    wakes: Count = 500
    """wakes of each node"""

    def check_sizes(self, n_users: int, n_items: int) -> Iterator[Problem]:
        """Yield more receivers than there are."""
        return too_many_peers("receivers", self.receivers, n_users)

    @property
    def fanout(self) -> int:
        """Number of receivers per wake."""
        return self.receivers

    @property
    def view(self) -> ViewOptions:
        """Views that are drawn for each wake."""
        return ViewOptions(size=self.receivers, refresh=CountedRefreshOptions(every=1), heal=self.heal)

    @property
    def average(self) -> Literal["all"]:
        """Models are averaged together at the next wake."""
        return "all"

    @property
    def train_on(self) -> Literal["wake"]:
        """Nodes train when they wake."""
        return "wake"


@PROTOCOLS.register("epidemic")
class Epidemic(RandGossip):
    """On wake: average the own model and all that arrived, train, and push to s random nodes."""

    Options = EpidemicOptions  # type: ignore[assignment]
    options: EpidemicOptions  # type: ignore[assignment]

    def predicted_fraction_met(self, rounds: float) -> float:
        """Return ``1 - (1 - s / (N - 1))**V`` after V wakes: each of them reaches s of N - 1 nodes."""
        missed = 1.0 - self.options.receivers / (self.n_users - 1)
        return 1.0 - math.pow(missed, rounds)
