"""Low-rank uploads: of the changes of item rows a client sends their parts along a few directions drawn for the round.

References
----------
N.-H. Nguyen, T.-A. Nguyen, T. Nguyen, V. T. Hoang, D. D. Le, K.-S. Wong, "Towards efficient communication and secure
federated recommendation system via low-rank training" (CoLR), WWW 2024, and its public code (NNHieu/CoLR-FedRec), the
source of the orthonormal directions and their scale. There a client trains the low-rank change ``A B`` itself, with B
from the coordinator; here it trains the rows, and the policy projects their change. After one step of SGD both are the
same.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import LARGEST, Options
from gossiprec.base.rng import generator
from gossiprec.compute.messages import MessagePayload, PushContext, Transform
from gossiprec.compute.plan.tape import MERGING, Behaviour, Op
from gossiprec.defences import POLICIES, Policy
from gossiprec.models.base import Layout, Model


class LowRankOptions(Options):
    """Options of low-rank uploads."""

    rank: int = Field(default=4, ge=1, le=LARGEST)
    """r: numbers that are sent for each item row"""


def round_directions(seed: int, round: int, width: int, rank: int) -> F64:
    """Return the orthonormal directions of a round, shape (width, rank): the same for all clients.

    They are the nearest orthonormal ones to a Gaussian matrix, as in the public code.
    """
    drawn = generator(seed, "low-rank", counter=round).normal(size=(width, rank))
    left, _, right = np.linalg.svd(drawn, full_matrices=False)
    return left @ right


class Projection(Transform):
    """A transform that projects the changes of item rows, times ``sqrt(d / r)``."""

    rewrites = True
    resizes = True

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def encode(
        self, payload: MessagePayload, base: MessagePayload | None, push: PushContext
    ) -> MessagePayload:
        """Return the payload with projected changes of items; without training there is no change."""
        n_items, width = payload.items.shape
        n_numbers = sum(part.size for part in payload.parts) - n_items * (width - self._rank)
        named = 0 if payload.touched is None else payload.touched.nbytes
        payload = replace(payload, n_numbers=n_numbers, overhead=payload.overhead + named)
        if base is None:
            return payload
        directions = round_directions(push.seed, push.round, width, self._rank)
        change = (payload.items - base.items).astype(np.float64) @ directions @ directions.T
        items = (base.items + np.sqrt(width / self._rank) * change).astype(np.float32)
        return replace(payload, items=items)


@POLICIES.register("low-rank")
class LowRank(Policy):
    """Clients send r numbers for each item row: their changes along directions that all clients of a round share.

    The sum of such messages is one of the same form, so secure sums stay possible.
    """

    Options = LowRankOptions
    options: LowRankOptions

    def check(self, model: Model, layout: Layout) -> None:
        """Refuse a rank above the size of an item's row."""
        if self.options.rank > layout.item_width:
            raise ScenarioError(
                f"policies: low-rank: rank: found {self.options.rank}; expected at most {layout.item_width}, the "
                "numbers of an item's row; lower it, or remove the policy to send whole rows"
            )

    def check_behaviour(self, behaviour: Behaviour) -> None:
        """Refuse gossip, in which a receiver does not know the version that a change belongs to."""
        if MERGING & behaviour.on_any_receive != {Op.ADOPT}:
            raise ScenarioError(
                "policies: low-rank: found gossip, but a receiver needs the version that the changes belong to, "
                "which only a coordinator has; use fedavg, or another policy such as top-k"
            )

    def transform(self) -> Projection:
        """Return the transform that projects."""
        return Projection(self.options.rank)
