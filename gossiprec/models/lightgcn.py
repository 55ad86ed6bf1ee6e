"""LightGCN: rows that are propagated over the graph of interactions; and what models that contrast its views share.

References
----------
He et al., "LightGCN: simplifying and powering graph convolution network for recommendation", SIGIR 2020.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Self

from numpy.random import Generator
from pydantic import Field

from gossiprec.base.options import Options
from gossiprec.data.training_data import TrainingData
from gossiprec.models import MODELS
from gossiprec.models.base import DotProductScores
from gossiprec.models.base.contrastive import mean_info_nce, sum_info_nce
from gossiprec.models.base.graph import GraphModel, Graphs, InteractionGraph
from gossiprec.models.base.kernel_interface import CompiledGradient
from gossiprec.models.base.parameter_blocks import (
    ParameterBlock,
    TensorMap,
    embedding_blocks,
    normal,
    uniform,
)
from gossiprec.models.feeds import PairwiseFeed

if TYPE_CHECKING:
    from torch import Tensor


Change = Callable[["Tensor"], "Tensor"]


def stack_rows(p: TensorMap) -> Tensor:
    """Return the rows of users, then of items, shape (n_users + n_items, d)."""
    import torch

    return torch.cat([p["users"], p["items"]])


def propagate(
    rows: Tensor, graph: InteractionGraph, n_layers: int, change: Change | None = None
) -> list[Tensor]:
    """Return layers 1 .. n_layers, given layer 0: ``E(k+1) = D^-1/2 A D^-1/2 E(k)`` (LightGCN, eq. 8)."""
    return propagate_from(graph.propagate(rows), graph, n_layers, change)


def propagate_from(
    first: Tensor, graph: InteractionGraph, n_layers: int, change: Change | None = None
) -> list[Tensor]:
    """Return layers 1 .. n_layers, given the first; `change` is applied to each before the next one."""
    layers = [first if change is None else change(first)]
    while len(layers) < n_layers:
        layer = graph.propagate(layers[-1])
        layers.append(layer if change is None else change(layer))
    return layers


def propagate_single_user(
    user: Tensor, items: Tensor, taken: Tensor, n_layers: int
) -> tuple[list[Tensor], list[Tensor]]:
    """Return layers 0 .. n_layers of a user's row and of items, on the graph of this user's interactions.

    Parameters
    ----------
    user : Tensor, shape (1, d)
    items : Tensor, shape (n_items, d)
    taken : Tensor of float32, shape (n_items,)
        1 for items of the user, at least one; other items have no neighbour, and zeros from layer 1 on.
    n_layers : int
    """
    scale = taken.sum().clamp(min=1.0).rsqrt()  # 1 / sqrt(|N_u| |N_i|), every |N_i| being 1
    users, tables = [user], [items]
    for _ in range(n_layers):
        users, tables = (
            [*users, scale * (taken @ tables[-1])[None]],
            [*tables, scale * taken[:, None] * users[-1]],
        )
    return users, tables


def mean_of_layers(layers: Sequence[Tensor]) -> Tensor:
    """Return the mean over layers."""
    total = layers[0]
    for layer in layers[1:]:
        total = total + layer
    return total / len(layers)


class LightGCNOptions(Options):
    """Options of LightGCN."""

    dim: int = Field(default=64, ge=1, le=1024)
    """embedding size d"""
    layers: int = Field(default=2, ge=1, le=16)
    """L: number of propagation layers"""
    l2: float = Field(default=1e-4, ge=0)
    """weight of half the squared norms of the rows that a sample touches"""
    init_std: float | None = Field(default=None, gt=0)
    """standard deviation of normal initial rows; null: Xavier-uniform rows"""


@MODELS.register("lightgcn")
class LightGCN(DotProductScores, GraphModel):
    """Score of item j for user u: ``e_u . e_j``, e being the mean of layers 0 to L of the rows (eqs. 4, 9).

    The loss is BPR, ``-log sigmoid`` of a positive's lead over its negative (eq. 15), plus `l2` times the squares of
    the rows of layer 0.

    Notes
    -----
    Rows start from the Xavier-uniform distribution of each table, U(-b, b) with ``b = sqrt(6 / (n_rows + d))``, as in
    the authors' first code, or from N(0, `init_std`^2), 0.1 in their code for torch. SELFRec adds norms that are not
    squared, divided by the batch size: they are negligible.
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
        dim, std = self.options.dim, self.options.init_std
        initial = (uniform(math.sqrt(6.0 / (n + dim))) if std is None else normal(std) for n in self._n_rows)
        return embedding_blocks(dim, *initial)

    def gradient(self) -> CompiledGradient:
        """Return the gradient on the graph of one user."""
        from gossiprec.models.base.dot_product_gradients import lightgcn_gradient

        return lightgcn_gradient(self.options.layers, self.first_layer, self.options.l2)

    def encode(self, p: TensorMap, graph: InteractionGraph) -> TensorMap:
        """Return the means of layers."""
        rows = stack_rows(p)
        return self.combine_layers(p, [rows, *propagate(rows, graph, self.options.layers)], graph)

    def encode_client(self, p: TensorMap, batch: TensorMap) -> TensorMap:
        """Return the means of layers on the graph of one user, and the rows of layer 0."""
        import torch

        none = torch.zeros(len(p["items"]), device=p["items"].device)
        times = none.index_add(0, batch["items"].long(), batch["weights"])
        layers = propagate_single_user(p["users"], p["items"], (times > 0).float(), self.options.layers)
        users, items = (mean_of_layers(each[self.first_layer :]) for each in layers)
        return self.with_ego_rows(p, {**p, "users": users, "items": items})

    def encode_step(self, p: TensorMap, graph: InteractionGraph, views: Graphs, draw: Generator) -> TensorMap:
        """Return the means of layers, and the rows of layer 0."""
        return self.with_ego_rows(p, self.encode(p, graph))

    @property
    def layers_of_batches(self) -> int | None:
        """The number of layers, unless a derived class encodes or learns in its own way."""
        parts = ("encode", "encode_step", "combine_layers", "with_ego_rows", "draws", "loss")
        own = all(getattr(type(self), part) is getattr(LightGCN, part) for part in parts)
        return self.options.layers if own else None

    def encode_rows(self, p: TensorMap, layers: Sequence[Tensor], graph: InteractionGraph) -> TensorMap:
        """Return the means of layers, and the rows of layer 0."""
        return self.with_ego_rows(p, self.combine_layers(p, layers, graph))

    @staticmethod
    def with_ego_rows(p: TensorMap, encoded: TensorMap) -> dict[str, Tensor]:
        """Return encoded rows with the rows of layer 0, to which :meth:`loss` applies `l2`."""
        return {**encoded, "ego_users": p["users"], "ego_items": p["items"]}

    def combine_layers(self, p: TensorMap, layers: Sequence[Tensor], graph: InteractionGraph) -> TensorMap:
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


__all__ = ["LightGCN"]


class ContrastOptions(LightGCNOptions):
    """Options of LightGCN and of the contrastive loss."""

    weight: float = Field(default=0.1, gt=0)
    """lambda, weight of the contrastive loss"""
    temperature: float = Field(default=0.2, gt=0)
    """tau"""
    contrast_reduction: Literal["mean", "sum"] = "mean"
    """reduction of the contrastive loss over the rows that are contrasted"""
    contrast_with: Literal["batch", "all"] = "batch"
    """batch: the users and the positive items of a batch, each once, among one another; all: the user and the positive
    item of each sample, repeated as often as there, among all users and all items"""


class ContrastiveLightGCN(LightGCN):
    """LightGCN plus `weight` times the InfoNCE of two views, which a step adds to `p` as ``one`` and ``other``.

    A view has a row for every user, then for every item. Without views there is no contrastive loss.
    """

    options: ContrastOptions
    has_sample_gradients = False
    at_clients = False

    def loss(self, p: TensorMap, batch: TensorMap) -> Tensor:
        """Return L_rec + lambda L_cl."""
        import torch

        loss = super().loss(p, batch)
        if "one" not in p:
            return loss
        n_users, options = len(p["users"]), self.options
        summed, contrast = options.contrast_reduction == "sum", torch.zeros(())
        if options.contrast_with == "all":
            for rows, table in ((batch["user"], slice(n_users)), (batch["items"], slice(n_users, None))):
                total = sum_info_nce(p["one"][table], p["other"][table], rows, options.temperature)
                contrast = contrast + (total if summed else total / len(rows))
            return loss + options.weight * contrast
        users, items = (torch.unique(batch[name]) for name in ("user", "items"))
        for some in self.contrast_groups(users, items + n_users):
            views = p["one"][some], p["other"][some]
            if summed:
                contrast = contrast + sum_info_nce(*views, torch.arange(len(some)), options.temperature)
            else:
                contrast = contrast + mean_info_nce(*views, options.temperature)
        return loss + options.weight * contrast

    def contrast_groups(self, users: Tensor, items: Tensor) -> Sequence[Tensor]:
        """Return groups of view rows to contrast with one another: by default users, and items.

        Parameters
        ----------
        users, items : Tensor
            Rows of the users and of the positive items of a batch, each once.
        """
        return users, items
