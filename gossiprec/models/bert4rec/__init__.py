"""BERT4Rec: a transformer that reads a sequence in both directions and predicts the item at a gap.

References
----------
Sun et al., "BERT4Rec: sequential recommendation with bidirectional encoder representations from transformer", CIKM
2019; sizes, initial values and masking as in the RecBole library. The encoder: Vaswani et al., "Attention is all you
need", NIPS 2017; Devlin et al., "BERT: pre-training of deep bidirectional transformers for language understanding",
NAACL 2019.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field, model_validator

from gossiprec.data.training_data import TrainingData
from gossiprec.models import MODELS
from gossiprec.models.base.parameter_blocks import (
    BlockRole,
    Initial,
    ParameterBlock,
    TensorMap,
    normal,
    ones,
    zeros,
)
from gossiprec.models.base.sequence_model import SequenceModel, SequenceOptions, dropout_mask
from gossiprec.models.feeds import MaskedFeed
from gossiprec.models.feeds.base import Columns

if TYPE_CHECKING:
    from torch import Tensor


EPSILON = 1e-12
"""Constant added to variances in norms, as in BERT."""


@dataclass(frozen=True)
class SequencePositions:
    """Places of some sequences, and their dropout.

    Attributes
    ----------
    real : Tensor of bool, shape (n, length)
        Whether each place is used; the others are padding.
    numbers : Tensor of int64, shape (n_worked_out,), or None
        Indices of the places that are computed, which include all real ones; None for all places. Rows of places have
        shape (n_computed, ...) or (n, length, ...) accordingly.
    keep : mapping of str to Tensor
        Dropout factors, 0 for dropped values; empty without dropout. ``keep``, by place and shape (2 n_layers + 1,
        d), applies to the rows before the layers and to the two sums in each; ``keep_attention``, shape (n, n_layers,
        n_heads, length, length), applies to the attention weights.
    """

    real: Tensor
    numbers: Tensor | None = None
    keep: TensorMap = field(default_factory=dict)

    def select(self, every: Tensor) -> Tensor:
        """Return the computed places of an array over all places, shape (n, length, ...)."""
        return every if self.numbers is None else every.flatten(0, 1)[self.numbers]

    def by_sequence(self, rows: Tensor) -> Tensor:
        """Return rows of places by sequence, shape (n, length, ...); 0 for places that were not computed."""
        if self.numbers is None:
            return rows
        every = rows.new_zeros(self.real.numel(), *rows.shape[1:]).index_copy(0, self.numbers, rows)
        return every.view(*self.real.shape, *rows.shape[1:])

    def drop_out(self, rows: Tensor, number: int) -> Tensor:
        """Return rows of places after their `number`-th dropout."""
        return rows * self.keep["keep"][..., number, :] if self.keep else rows


def encoder_blocks(n_layers: int, dim: int, inner: int, begin: Initial) -> tuple[ParameterBlock, ...]:
    """Return the weights, shapes (n_layers, ...); a layer is like ``torch.nn.TransformerEncoderLayer``."""
    shapes = {
        "attention_weights": (3 * dim, dim),
        "attention_biases": (3 * dim,),
        "joining_weights": (dim, dim),
        "joining_biases": (dim,),
        "joining_scales": (dim,),
        "joining_offsets": (dim,),
        "inner_weights": (inner, dim),
        "inner_biases": (inner,),
        "outer_weights": (dim, inner),
        "outer_biases": (dim,),
        "outer_scales": (dim,),
        "outer_offsets": (dim,),
    }
    starts = {"weights": begin, "scales": ones}
    return tuple(
        ParameterBlock(name, BlockRole.SHARED, (n_layers, *shape), starts.get(name.split("_")[1], zeros))
        for name, shape in shapes.items()
    )


def encode(p: TensorMap, rows: Tensor, places: SequencePositions, n_heads: int) -> Tensor:
    """Return the rows of some places after all layers, with the same shape."""
    from torch.nn.functional import gelu

    for k in range(len(p["outer_scales"])):
        joined = _attention(p, k, rows, places, n_heads)
        rows = layer_norm(
            rows + places.drop_out(joined, 1 + 2 * k), p["joining_scales"][k], p["joining_offsets"][k]
        )
        inner = gelu(rows @ p["inner_weights"][k].T + p["inner_biases"][k])
        outer = inner @ p["outer_weights"][k].T + p["outer_biases"][k]
        rows = layer_norm(
            rows + places.drop_out(outer, 2 + 2 * k), p["outer_scales"][k], p["outer_offsets"][k]
        )
    return rows


def layer_norm(rows: Tensor, scales: Tensor, offsets: Tensor) -> Tensor:
    """Return rows of mean 0 and variance 1, scaled and shifted."""
    from torch.nn.functional import layer_norm

    return layer_norm(rows, rows.shape[-1:], scales, offsets, EPSILON)


def _attention(p: TensorMap, k: int, rows: Tensor, places: SequencePositions, n_heads: int) -> Tensor:
    """Return the attention output of each place over all real places of its sequence."""
    import torch

    given = places.by_sequence(rows @ p["attention_weights"][k].T + p["attention_biases"][k])
    width = rows.shape[-1] // n_heads
    query, key, value = given.view(*given.shape[:2], 3, n_heads, width).movedim(1, -2).unbind(1)
    closeness = query @ key.transpose(-1, -2) / sqrt(width)
    least = torch.finfo(closeness.dtype).min  # not minus infinity: places may all be padding
    shares = torch.where(places.real[:, None, None], closeness, least).softmax(-1)
    if places.keep:
        shares = shares * places.keep["keep_attention"][:, k]
    mixed = places.select((shares @ value).transpose(1, 2).flatten(2))
    return mixed @ p["joining_weights"][k].T + p["joining_biases"][k]


class BERT4RecOptions(SequenceOptions):
    """Options of BERT4Rec."""

    init_std: float = Field(default=0.02, gt=0)
    """standard deviation of the initial rows and weights"""
    layers: int = Field(default=2, ge=1, le=64)
    """number of encoder layers"""
    heads: int = Field(default=2, ge=1, le=64)
    """number of attention heads; must divide d"""
    inner: int = Field(default=256, ge=1, le=2**14)
    """width of the perceptron of a layer"""
    output_layer: bool = True
    """add a dense layer, GELU and a normalisation after the encoder, as later versions of RecBole do"""
    dropout: float = Field(default=0.2, ge=0, lt=1)
    """dropout rate of the layers and of their attention"""
    max_length: int = Field(default=50, ge=2, le=10**4)
    """number of most recent positions used, including the masked one"""
    mask: float = Field(default=0.2, ge=0, lt=1)
    """fraction of the items of a sequence that are masked"""
    last_alone: float = Field(default=0.5, ge=0, le=1)
    """fraction of the local updates in which only the last item is masked"""
    random_end: float = Field(default=0.0, ge=0, le=1)
    """fraction of the local updates in which the sequence is cut after a random item, so that each item comes last"""

    @model_validator(mode="after")
    def _heads_share_the_numbers(self) -> BERT4RecOptions:
        if self.dim % self.heads:
            raise ValueError(
                f"heads: found {self.heads} for dim {self.dim}; expected a divisor of dim; change one of them"
            )
        return self


@MODELS.register("bert4rec")
class BERT4Rec(SequenceModel):
    """Score of item j after a sequence: ``v_j . o``, o being the output at a gap after its last item.

    Notes
    -----
    The rows of items are both input and output (tied). Positions count from the end of a sequence, so that the gap
    after a history has the same position for all users. In RecBole they count from the beginning, so that the gap
    after the longest sequences has a position that was never trained. RecBole until August 2023, which published work
    on federated recommenders used, takes the encoder's output directly (``output_layer: false``); later versions add
    a dense layer, and an offset of each item's score, which does not exist here.
    """

    Options = BERT4RecOptions
    options: BERT4RecOptions
    feed = MaskedFeed

    def blocks(self) -> tuple[ParameterBlock, ...]:
        """Return ``items | shared``; there is no user row, because the history represents the user."""
        options, begin = self.options, normal(self.options.init_std)
        d = options.dim
        output = (
            ParameterBlock("output_weights", BlockRole.SHARED, (d, d), begin),
            ParameterBlock("output_biases", BlockRole.SHARED, (d,)),
            ParameterBlock("output_scales", BlockRole.SHARED, (d,), ones),
            ParameterBlock("output_offsets", BlockRole.SHARED, (d,)),
        )
        return (
            ParameterBlock("items", BlockRole.ITEM, (d,), begin),
            ParameterBlock("gap", BlockRole.SHARED, (d,), begin),
            ParameterBlock("positions", BlockRole.SHARED, (options.max_length, d), begin),
            ParameterBlock("input_scales", BlockRole.SHARED, (d,), ones),
            ParameterBlock("input_offsets", BlockRole.SHARED, (d,)),
            *encoder_blocks(options.layers, d, options.inner, begin),
            *(output if options.output_layer else ()),
        )

    def make_feed(self, split: TrainingData) -> MaskedFeed:
        """Return the feed of sequences, in which some items are masked in each update."""
        options = self.options
        drawn = {name: getattr(options, name) for name in ("mask", "last_alone", "random_end")}
        return MaskedFeed.within(split, options.max_length, **drawn)

    def without_padding(self, samples: Columns) -> Columns:
        """Return the batch with the indices of the places that are not padding, ``real``, added."""
        batch = super().without_padding(samples)
        return {**batch, "real": np.flatnonzero((batch["previous"] >= 0) | (batch["items"] >= 0))}

    def draws(self, samples: Columns, draw: np.random.Generator) -> Columns:
        """Return the dropout factors, only for real places if the batch has their indices."""
        options = self.options
        n, length = samples["previous"].shape
        places = (len(samples["real"]),) if "real" in samples else (n, length)
        rows = dropout_mask((*places, 1 + 2 * options.layers, options.dim), options.dropout, draw)
        shares = dropout_mask((n, options.layers, options.heads, length, length), options.dropout, draw)
        return {**rows, **{f"{name}_attention": factors for name, factors in shares.items()}}

    def states(self, p: TensorMap, batch: TensorMap) -> Tensor:
        """Return the output at each place; a gap is a place with an item to learn and no known one."""
        keep = {name: part for name, part in batch.items() if name.startswith("keep")}
        places = SequencePositions((batch["previous"] >= 0) | (batch["items"] >= 0), batch.get("real"), keep)
        return places.by_sequence(self._outputs(p, batch["previous"], places))

    def state_after(self, p: TensorMap, history: Tensor, user: Tensor) -> Tensor:
        """Return the output at a gap after the last item."""
        import torch

        history = history[
            :, : self.options.max_length - 1
        ]  # histories of the feed are no longer, but some are wider
        known = torch.cat([history, -torch.ones_like(history[:, :1])], dim=1)
        length = (history >= 0).sum(1, keepdim=True)
        places = SequencePositions(torch.arange(known.shape[1], device=known.device) <= length)
        outputs = self._outputs(p, known, places)
        return outputs.gather(1, length[..., None].expand(-1, -1, outputs.shape[-1]))[:, 0]

    def _outputs(self, p: TensorMap, known: Tensor, places: SequencePositions) -> Tensor:
        """Return the outputs of the computed places; `known` is the item at each place, or -1."""
        import torch
        from torch.nn.functional import gelu

        ages = places.real.sum(1, keepdim=True) - 1 - torch.arange(known.shape[1], device=known.device)
        item, age = places.select(known), places.select(ages.clamp(0, self.options.max_length - 1))
        rows = torch.where((item >= 0)[..., None], p["items"][item.clamp(min=0)], p["gap"])
        rows = layer_norm(rows + p["positions"][age], p["input_scales"], p["input_offsets"])
        rows = encode(p, places.drop_out(rows, 0), places, self.options.heads)
        if not self.options.output_layer:
            return rows
        dense = gelu(rows @ p["output_weights"].T + p["output_biases"])
        return layer_norm(dense, p["output_scales"], p["output_offsets"])


__all__ = ["BERT4Rec"]
