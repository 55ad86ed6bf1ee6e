"""FedRAP: a table of items that all share, and one of each node's own that never leaves it; scores use their sum.

References
----------
Z. Li, G. Long, T. Zhou, "Federated recommendation with additive personalization", ICLR 2024 (arXiv 2301.09109), and its
public code (mtics/FedRAP), which this follows because the text was not readable.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F32
from gossiprec.base.options import Options
from gossiprec.base.rng import generator
from gossiprec.data.training_data import TrainingData
from gossiprec.models import MODELS
from gossiprec.models.base import BlockRole, Layout, Model, ParameterBlock
from gossiprec.models.base.parameter_blocks import TensorMap, normal
from gossiprec.models.feeds import PointwiseFeed

if TYPE_CHECKING:
    from torch import Tensor


class FedRAPOptions(Options):
    """Options of FedRAP."""

    dim: int = Field(default=32, ge=1, le=1024)
    """embedding size d"""
    init_std: float = Field(default=1.0, gt=0)
    """standard deviation of the initial rows of both tables"""
    apart: float = Field(default=0.1, ge=0)
    """lambda, weight of the mean squared difference of the two tables, which training raises"""
    sparse: float = Field(default=0.1, ge=0)
    """mu, weight of the mean absolute value of the common table"""
    score_step: float = Field(default=1.0, gt=0)
    """learning rate of the score function, as a multiple of the training's"""


@MODELS.register("fedrap")
class FedRAP(Model):
    """Score of item j at node u: ``w_u . (c_j + d_uj) + b_u``, a logit; c is common, d and (w, b) are the node's own.

    Notes
    -----
    All nodes begin with the same d and the same (w, b), and keep the change of (w, b) as their user's row. The first w
    is ``(3 d)^-1/2`` in all numbers, b is 0: w is as long as a new linear unit of torch on average, and its direction
    does not matter, because rows of items are drawn in all directions equally. An item's row ends in the item's number,
    by which a model of few items finds the rows of d; it does not move.
    """

    Options = FedRAPOptions
    options: FedRAPOptions
    feed = PointwiseFeed
    _n_items = 0

    def bind_to_data(self, split: TrainingData) -> FedRAP:
        """Return a model with a private row for each item of the data."""
        bound = FedRAP(self.options)
        bound._n_items = split.n_items
        return bound

    def blocks(self) -> tuple[ParameterBlock, ...]:
        """Return ``change of (w, b) | c | number of the item | d``."""
        dim, table = self.options.dim, normal(self.options.init_std)
        return (
            ParameterBlock("change", BlockRole.USER, (dim + 1,)),
            ParameterBlock("common", BlockRole.ITEM, (dim,), table),
            ParameterBlock("number", BlockRole.ITEM, (1,), lambda rng, count: np.arange(float(count))),
            ParameterBlock("personal", BlockRole.PRIVATE, (self._n_items, dim), table),
        )

    def initial_own(self, layout: Layout, n_nodes: int, seed: int) -> tuple[F32, F32]:
        """Return no change, and the same first d for all nodes."""
        users = np.zeros((n_nodes, layout.user_width), np.float32)
        return users, np.tile(layout.initial_private(generator(seed, "initial-private", 0)), (n_nodes, 1))

    @property
    def _first(self) -> float:
        """Each number of the first w."""
        return 1 / math.sqrt(3 * self.options.dim)

    def _personal(self, p: TensorMap, items: Tensor | slice) -> Tensor:
        """Return the node's own rows of items."""
        number = p["number"][items, 0].detach().round().long().clamp(0, self._n_items - 1)
        return p["personal"][number]

    def score(self, p: TensorMap, query: TensorMap) -> Tensor:
        """Return the logits."""
        items, unit = query["items"], p["change"][query["user"]]
        rows = p["common"][items] + self._personal(p, items)
        return (rows * (unit[:, :-1] + self._first)).sum(-1) + unit[:, -1]

    def score_all_items(self, p: TensorMap) -> Callable[[Tensor], Tensor]:
        """Return the function that scores the sum of both tables."""
        rows = p["common"] + self._personal(p, slice(None))

        def scores(user: Tensor) -> Tensor:
            unit = p["change"][user][0]
            return rows @ (unit[:-1] + self._first) + unit[-1]

        return scores

    def loss(self, p: TensorMap, batch: TensorMap) -> Tensor:
        """Return the mean over samples of cross-entropy - lambda (d - c)^2 + mu |c|, squares and |c| per number."""
        from torch.nn.functional import binary_cross_entropy_with_logits

        options, items, weights = self.options, batch["items"], batch["weights"]
        if options.score_step != 1.0:
            held = p["change"].detach()
            p = {**p, "change": held + options.score_step * (p["change"] - held)}
        logits = self.score(p, batch)
        total = binary_cross_entropy_with_logits(logits, batch["labels"], weights, reduction="sum")
        common = p["common"][items]
        apart = (self._personal(p, items) - common).square().mean(-1)
        terms = options.sparse * common.abs().mean(-1) - options.apart * apart
        return (total + (weights * terms).sum()) / weights.sum()
