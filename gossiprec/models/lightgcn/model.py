"""LightGCN: matrix factorisation with rows that are propagated over the graph of interactions.

References
----------
He et al., "LightGCN: simplifying and powering graph convolution network for recommendation", SIGIR 2020.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import numpy as np
from pydantic import Field

from gossiprec.base.options import Options
from gossiprec.data.split import TrainingData
from gossiprec.models import MODELS
from gossiprec.models.base.analytic_gradients import PairGradient
from gossiprec.models.base.graph import GraphModel, InteractionGraph
from gossiprec.models.base.model import DotProductScores
from gossiprec.models.base.parameter_blocks import ParameterBlock, TensorMap, embedding_blocks, uniform
from gossiprec.models.feeds import PairwiseFeed
from gossiprec.models.lightgcn.propagation import mean_of_layers, propagate, propagate_single_user, stack_rows

if TYPE_CHECKING:
    from torch import Tensor


class LightGCNOptions(Options):
    """Options of LightGCN."""

    dim: int = Field(default=64, ge=1, le=1024)
    """embedding size d"""
    layers: int = Field(default=2, ge=1, le=16)
    """L: number of propagation layers"""
    l2: float = Field(default=1e-4, ge=0)
    """weight of half the squared norms of the rows that a sample touches"""


@MODELS.register("lightgcn")
class LightGCN(DotProductScores, GraphModel):
    """Score of item j for user u: ``e_u . e_j``, e being the mean of layers 0 to L of the rows (eqs. 4, 9).

    The loss is BPR, ``-log sigmoid`` of a positive's lead over its negative (eq. 15), plus `l2` times the squares of
    the rows of layer 0.

    Notes
    -----
    Rows start from the Xavier-uniform distribution of each table, U(-b, b) with ``b = sqrt(6 / (n_rows + d))``, as in
    the published code. SELFRec adds norms that are not squared, divided by the batch size: they are negligible.
    """

    Options = LightGCNOptions
    options: LightGCNOptions
    feed = PairwiseFeed
    predicts_probabilities = False
    at_clients = True
    first_layer = 0
    """First layer in the mean."""

    _n_rows: tuple[int, int] = (0, 0)

    def bind_to_data(self, split: TrainingData) -> Self:
        """Return the model with tables of known length."""
        fitted = type(self)(self.options)
        fitted._n_rows = split.n_users, split.n_items
        return fitted

    def blocks(self) -> tuple[ParameterBlock, ...]:
        """Return ``users | items``."""
        dim = self.options.dim
        return embedding_blocks(dim, *(uniform(math.sqrt(6.0 / (n + dim))) for n in self._n_rows))

    def pair_gradient(self) -> PairGradient:
        """Return the gradient on the graph of one user."""
        from gossiprec.models.lightgcn.pair_gradient import gradient

        return gradient(self.options.layers, self.first_layer, self.options.l2)

    def encode(self, p: TensorMap, graph: InteractionGraph) -> TensorMap:
        """Return the means of layers."""
        rows = stack_rows(p)
        return self.read_out(p, [rows, *propagate(rows, graph, self.options.layers)], graph)

    def encode_own(self, p: TensorMap, batch: TensorMap) -> TensorMap:
        """Return the means of layers on the graph of one user, and the rows of layer 0."""
        import torch

        none = torch.zeros(len(p["items"]), device=p["items"].device)
        times = none.index_add(0, batch["items"].long(), batch["weights"])
        layers = propagate_single_user(p["users"], p["items"], (times > 0).float(), self.options.layers)
        users, items = (mean_of_layers(each[self.first_layer :]) for each in layers)
        return self.with_ego_rows(p, {**p, "users": users, "items": items})

    def encode_step(
        self,
        p: TensorMap,
        graph: InteractionGraph,
        views: Sequence[InteractionGraph],
        draw: np.random.Generator,
    ) -> TensorMap:
        """Return the means of layers, and the rows of layer 0."""
        return self.with_ego_rows(p, self.encode(p, graph))

    @staticmethod
    def with_ego_rows(p: TensorMap, encoded: TensorMap) -> dict[str, Tensor]:
        """Return encoded rows with the rows of layer 0, to which :meth:`loss` applies `l2`."""
        return {**encoded, "ego_users": p["users"], "ego_items": p["items"]}

    def read_out(self, p: TensorMap, layers: Sequence[Tensor], graph: InteractionGraph) -> TensorMap:
        """Return the means of layers 0 to L, or from :attr:`first_layer` on."""
        rows = mean_of_layers(layers[self.first_layer :])
        return {**p, "users": rows[: graph.n_users], "items": rows[graph.n_users :]}

    def loss(self, p: TensorMap, batch: TensorMap) -> Tensor:
        """Return the mean loss over the samples."""
        from torch.nn.functional import softplus

        user, items, negatives, weights = (batch[name] for name in ("user", "items", "negatives", "weights"))
        gain = (p["users"][user] * (p["items"][items] - p["items"][negatives])).sum(-1)
        users, table = p.get("ego_users", p["users"]), p.get("ego_items", p["items"])
        squares = sum(rows.square().sum(-1) for rows in (users[user], table[items], table[negatives]))
        each = softplus(-gain) + self.options.l2 / 2 * squares
        return (each * weights).sum() / weights.sum()
