"""Secure sums among neighbours: a node learns the sum of what its neighbours send in a round, and no single model.

References
----------
K. Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", CCS 2017: here each node is
the server of a round of its neighbours, which send it masked vectors (:mod:`gossiprec.compute.secure_sums`).

Notes
-----
The neighbours of a node must agree on masks before they send, so they must know of one another and of the round. In a
fixed graph in which nodes wake at the same interval they do. If receivers are drawn per wake, or nodes wake at random
times, no node knows which others send to the same receiver before it wakes next.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import LARGEST, Options
from gossiprec.compute.messages import Transform, WithholdUserRow
from gossiprec.compute.plan.tape import MERGING, Behaviour, Op
from gossiprec.compute.secure_sums import FixedPoint, NeighbourSums, Quorum
from gossiprec.defences import POLICIES, Policy
from gossiprec.models.base import Layout, Model
from gossiprec.rules.aggregators import InboxConfig, make_aggregator


class SecureNeighboursOptions(Options):
    """Options of secure sums among neighbours."""

    clip: float = Field(default=8.0, gt=0, le=1e6)
    """largest magnitude of a number of a model; larger numbers are clipped, and counted in the summary"""
    bits: int = Field(default=16, ge=1, le=40)
    """binary digits after the point of an encoded number"""
    minimum: int = Field(default=2, ge=2, le=LARGEST)
    """smallest number of neighbours of a sum; a round with fewer models is skipped"""
    threshold: float = Field(default=0.67, gt=0, le=1)
    """fraction of a node's neighbours that must send shares to recover a secret; a round with fewer is skipped"""
    masks: Literal["auto"] | bool = "auto"
    """compute keys, masks and shares; false: the same sums in less time; auto: compute them in small networks"""


@POLICIES.register("secure-neighbours")
class SecureNeighbours(Policy):
    """A node averages its own model with the sum of its neighbours' models, the only thing that it learns from them."""

    Options = SecureNeighboursOptions
    options: SecureNeighboursOptions
    needs_all_nodes = True
    scheme = "sums"

    def check(self, model: Model, layout: Layout) -> None:
        """Refuse messages with the rows of all users."""
        if layout.n_users > 1:
            raise ScenarioError(
                "policies: secure-neighbours: found protocol.user_table 'averaged', with which messages hold the rows "
                "of all users, each known to its user; set user_table to own"
            )

    def check_behaviour(self, behaviour: Behaviour) -> None:
        """Refuse nodes that do not average what they received when they wake."""
        found = behaviour.on_any_receive
        if not (found & MERGING and found <= {Op.BLEND, Op.AVERAGE}):
            raise ScenarioError(
                "policies: secure-neighbours: a node must average what it received when it wakes, but with this "
                "protocol it adopts, answers, scores or trains on single models; use rand-gossip with train_on: wake"
            )

    def inbox(self) -> InboxConfig:
        """Return the mean of all models since the last wake."""
        return InboxConfig("mean", lambda: make_aggregator("mean"), None, 8)

    def transform(self) -> Transform:
        """Return the transform that withholds the user's row, of which a sum means nothing."""
        return WithholdUserRow()

    def neighbour_sums(self) -> NeighbourSums:
        """Return how sums are encoded."""
        options = self.options
        masks = None if options.masks == "auto" else options.masks
        return NeighbourSums(
            FixedPoint(options.clip, options.bits), Quorum(options.threshold, options.minimum), masks
        )
