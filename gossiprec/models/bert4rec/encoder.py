"""The transformer's encoder as a formula: layers of bidirectional attention, normalised after each sum.

References
----------
Vaswani et al., "Attention is all you need", NIPS 2017; Devlin et al., "BERT: pre-training of deep bidirectional
transformers for language understanding", NAACL 2019.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING

from gossiprec.models.base.parameter_blocks import BlockRole, Initial, ParameterBlock, TensorMap, ones, zeros

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

    def of(self, every: Tensor) -> Tensor:
        """Return the computed places of an array over all places, shape (n, length, ...)."""
        return every if self.numbers is None else every.flatten(0, 1)[self.numbers]

    def spread(self, rows: Tensor) -> Tensor:
        """Return rows of places by sequence, shape (n, length, ...); 0 for places that were not computed."""
        if self.numbers is None:
            return rows
        every = rows.new_zeros(self.real.numel(), *rows.shape[1:]).index_copy(0, self.numbers, rows)
        return every.view(*self.real.shape, *rows.shape[1:])

    def kept(self, rows: Tensor, number: int) -> Tensor:
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
            rows + places.kept(joined, 1 + 2 * k), p["joining_scales"][k], p["joining_offsets"][k]
        )
        inner = gelu(rows @ p["inner_weights"][k].T + p["inner_biases"][k])
        outer = inner @ p["outer_weights"][k].T + p["outer_biases"][k]
        rows = layer_norm(rows + places.kept(outer, 2 + 2 * k), p["outer_scales"][k], p["outer_offsets"][k])
    return rows


def layer_norm(rows: Tensor, scales: Tensor, offsets: Tensor) -> Tensor:
    """Return rows of mean 0 and variance 1, scaled and shifted."""
    from torch.nn.functional import layer_norm

    return layer_norm(rows, rows.shape[-1:], scales, offsets, EPSILON)


def _attention(p: TensorMap, k: int, rows: Tensor, places: SequencePositions, n_heads: int) -> Tensor:
    """Return the attention output of each place over all real places of its sequence."""
    import torch

    given = places.spread(rows @ p["attention_weights"][k].T + p["attention_biases"][k])
    width = rows.shape[-1] // n_heads
    query, key, value = given.view(*given.shape[:2], 3, n_heads, width).movedim(1, -2).unbind(1)
    closeness = query @ key.transpose(-1, -2) / sqrt(width)
    least = torch.finfo(closeness.dtype).min  # not minus infinity: places may all be padding
    shares = torch.where(places.real[:, None, None], closeness, least).softmax(-1)
    if places.keep:
        shares = shares * places.keep["keep_attention"][:, k]
    mixed = places.of((shares @ value).transpose(1, 2).flatten(2))
    return mixed @ p["joining_weights"][k].T + p["joining_biases"][k]
