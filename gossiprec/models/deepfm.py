"""DeepFM: a factorisation machine and a perceptron on the embeddings of users, items and their attributes.

References
----------
Guo et al., "DeepFM: a factorization-machine based neural network for CTR prediction", IJCAI 2017.
"""

from __future__ import annotations

import copy
import itertools
import math
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from gossiprec.data.training_data import TrainingData
from gossiprec.models import MODELS
from gossiprec.models.base import Model, ReductionOptions
from gossiprec.models.base.parameter_blocks import BlockRole, ParameterBlock, TensorMap, normal, uniform
from gossiprec.models.base.sequence_model import dropout_mask
from gossiprec.models.feeds import AttributedFeed, PointwiseFeed, features_of, require_labels
from gossiprec.models.feeds.base import Columns, Feed

if TYPE_CHECKING:
    from torch import Tensor

Width = Annotated[int, Field(ge=1, le=4096)]


class DeepFMOptions(ReductionOptions):
    """Options of DeepFM."""

    user_attributes: tuple[str, ...] = ()
    """columns of labels of users, such as gender; each is a field"""
    item_attributes: tuple[str, ...] = ()
    """columns of labels of items, such as genres; each is a field"""
    unknown: Literal["refuse", "zero"] = "refuse"
    """users and items without a label in a column: refuse them, or let the field be zero"""
    dim: int = Field(default=8, ge=1, le=1024)
    """embedding size d of each field"""
    hidden: Annotated[tuple[Width, ...], Field(min_length=1)] = (32, 16)
    """widths of the hidden layers"""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """share of hidden units that drop out in a step"""
    init_std: float = Field(default=0.01, gt=0)
    """standard deviation of the initial embeddings"""


@MODELS.register("deepfm")
class DeepFM(Model):
    """Score: ``sigmoid(c + sum_f w_f + sum_{f<g} e_f . e_g + MLP([e_f ...]))`` over fields f.

    Fields are the user, the item, and each column of attributes. The embedding e_f of a row with several labels is
    their mean, and so is its weight w_f.

    Notes
    -----
    If other nodes score a model, as attacks do, the attributes of its user are unknown, and their fields are zero.
    Layers start from the Kaiming-uniform distribution.
    """

    Options = DeepFMOptions
    options: DeepFMOptions
    feed = PointwiseFeed
    needs_features = True
    user_widths: tuple[int, ...] = ()
    item_widths: tuple[int, ...] = ()

    def bind_to_data(self, split: TrainingData) -> DeepFM:
        """Return the model with the attributes of all items, and the numbers of labels of each column."""
        options, bound = self.options, copy.copy(self)
        if users := options.user_attributes:
            table = features_of(split.user_features, "users", split.name, users, "model.user_attributes")
            bound.user_widths = tuple(len(table.labels(name).labels) for name in users)
        if items := options.item_attributes:
            table = features_of(split.item_features, "items", split.name, items, "model.item_attributes")
            if options.unknown == "refuse":
                require_labels(table, "items", items, "model.item_attributes", names=split.item_names)
            shares = [table.labels(name).shares() for name in items]
            bound.item_widths = tuple(part.shape[1] for part in shares)
            bound.constants = {"item_shares": np.concatenate(shares, axis=1)}
        return bound

    def make_feed(self, split: TrainingData) -> Feed:
        """Return the labelled items, with the attributes of the node's user if the model uses them."""
        columns = self.options.user_attributes
        if not columns:
            return PointwiseFeed.of(split)
        allowed = self.options.unknown == "zero"
        return AttributedFeed.of_columns(
            split, columns, option="model.user_attributes", allow_unknown=allowed
        )

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths between the layers: the input's first, the output's, 1, last."""
        n_fields = 2 + len(self.user_widths) + len(self.item_widths)
        return (n_fields * self.options.dim, *self.options.hidden, 1)

    def blocks(self) -> tuple[ParameterBlock, ...]:
        """Return ``[factors | weight]`` of users and items, then those of labels, the offset and the layers."""
        dim, embedding = self.options.dim, normal(self.options.init_std)
        n_labels = sum(self.user_widths) + sum(self.item_widths)
        of_labels = (
            ParameterBlock("label_factors", BlockRole.SHARED, (n_labels, dim), embedding),
            ParameterBlock("label_weights", BlockRole.SHARED, (n_labels,)),
        )
        layers = [
            block
            for k, (n, m) in enumerate(itertools.pairwise(self.widths))
            for block in (
                ParameterBlock(f"layer{k}", BlockRole.SHARED, (m, n), uniform(math.sqrt(6.0 / n))),
                ParameterBlock(f"layer{k}_offset", BlockRole.SHARED, (m,)),
            )
        ]
        return (
            ParameterBlock("user_factors", BlockRole.USER, (dim,), embedding),
            ParameterBlock("user_weight", BlockRole.USER, (1,)),
            ParameterBlock("item_factors", BlockRole.ITEM, (dim,), embedding),
            ParameterBlock("item_weight", BlockRole.ITEM, (1,)),
            *(of_labels if n_labels else ()),
            ParameterBlock("offset", BlockRole.SHARED, (1,)),
            *layers,
        )

    def draws(self, samples: Columns, draw: np.random.Generator) -> Columns:
        """Return the factors of hidden units, 0 for those that drop out."""
        shape = (len(samples["items"]), sum(self.options.hidden))
        return dropout_mask(shape, self.options.dropout, draw)

    def score(self, p: TensorMap, query: TensorMap) -> Tensor:
        """Return the logits."""
        import torch

        user, items = query["user"], query["items"]
        embeddings = [p["user_factors"][user], p["item_factors"][items]]
        logits = p["user_weight"][user, 0] + p["item_weight"][items, 0] + p["offset"]
        shares: list[Tensor | None] = [None] * len(self.user_widths)
        if self.user_widths and "attributes" in query:
            shares = _parts(query["attributes"], self.user_widths)
        if self.item_widths:
            shares += _parts(p["item_shares"][items], self.item_widths)
        at = 0
        for share, width in zip(shares, (*self.user_widths, *self.item_widths), strict=True):
            if share is None:
                embeddings.append(torch.zeros_like(embeddings[0]))
            else:
                embeddings.append(share @ p["label_factors"][at : at + width])
                logits = logits + share @ p["label_weights"][at : at + width]
            at += width
        fields = torch.stack(torch.broadcast_tensors(*embeddings))  # type: ignore[no-untyped-call]
        pairs = (fields.sum(0).square() - fields.square().sum(0)).sum(-1) / 2
        return logits + pairs + self._deep(p, torch.cat(tuple(fields), dim=-1), query.get("keep"))

    def _deep(self, p: TensorMap, values: Tensor, keep: Tensor | None) -> Tensor:
        """Return the output of the perceptron, shape (n,)."""
        import torch

        at, last = 0, len(self.widths) - 2
        for k in range(last + 1):
            values = values @ p[f"layer{k}"].T + p[f"layer{k}_offset"]
            if k < last:
                values = torch.relu(values)
                if keep is not None:
                    values = values * keep[:, at : at + values.shape[-1]]
                at += values.shape[-1]
        return values[..., 0]

    def loss(self, p: TensorMap, batch: TensorMap) -> Tensor:
        """Return the binary cross-entropy."""
        return self.options.cross_entropy(self.score(p, batch), batch["labels"], batch["weights"])


def _parts(shares: Tensor, widths: tuple[int, ...]) -> list[Tensor | None]:
    """Return the columns of each field."""
    ends = itertools.accumulate(widths)
    return [shares[..., end - width : end] for end, width in zip(ends, widths, strict=True)]
