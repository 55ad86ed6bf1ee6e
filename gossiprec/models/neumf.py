"""NeuMF: matrix factorisation and a perceptron, each with embeddings of its own, under one output.

References
----------
He et al., "Neural collaborative filtering", WWW 2017, section 3.4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic import Field

from gossiprec.models import MODELS
from gossiprec.models.base.kernel_interface import CompiledGradient
from gossiprec.models.base.parameter_blocks import (
    BlockRole,
    Initial,
    ParameterBlock,
    TensorMap,
    normal,
    uniform,
)
from gossiprec.models.ncf import NCF, NCFOptions

if TYPE_CHECKING:
    from torch import Tensor


class NeuMFOptions(NCFOptions):
    """Options of NeuMF: those of its perceptron, and the size of the factors."""

    gmf_dim: int | None = Field(default=None, ge=1, le=1024)
    """size of the factors that are multiplied; null: dim, as the embeddings of the perceptron"""


@MODELS.register("neumf")
class NeuMF(NCF):
    """Score of item j for user u: ``sigmoid(h . [p_u * q_j; MLP([u; v_j])] + b)`` (eq. 12).

    Notes
    -----
    Weights and offsets of n inputs start from U(-1 / sqrt(n), 1 / sqrt(n)), as torch and RecBole draw them; the paper
    draws all from N(0, 0.01^2), and begins with both halves trained separately, which is not done here.
    """

    Options = NeuMFOptions
    options: NeuMFOptions

    def gradient(self) -> CompiledGradient:
        """Return the gradient by back-propagation."""
        from gossiprec.models.ncf.gradient import gradient

        return gradient(self.widths, self.gmf_dim, summed=self.options.summed)

    @property
    def gmf_dim(self) -> int:
        """Size of the factors."""
        return self.options.gmf_dim or self.options.dim

    def blocks(self) -> tuple[ParameterBlock, ...]:
        """Return the embeddings and layers of the perceptron, then the factors and their weights in the output."""
        size, factors = self.gmf_dim, normal(self.options.init_std)
        return (
            *super().blocks(),
            ParameterBlock("user_factors", BlockRole.USER, (size,), factors),
            ParameterBlock("item_factors", BlockRole.ITEM, (size,), factors),
            ParameterBlock("factor_weights", BlockRole.SHARED, (size,), self._of_output()),
        )

    def layer(self, k: int, n: int, m: int) -> tuple[ParameterBlock, ParameterBlock]:
        """Return the matrix and the offsets of layer k of the perceptron."""
        initial = self._of_output() if k == len(self.widths) - 2 else uniform(1.0 / math.sqrt(n))
        return (
            ParameterBlock(f"weight{k}", BlockRole.SHARED, (m, n), initial),
            ParameterBlock(f"offset{k}", BlockRole.SHARED, (m,), initial),
        )

    def _of_output(self) -> Initial:
        """Return the first weights of the output, with inputs from the factors and from the perceptron."""
        return uniform(1.0 / math.sqrt(self.gmf_dim + self.widths[-2]))

    def score(self, p: TensorMap, query: TensorMap) -> Tensor:
        """Return the logits."""
        products = p["item_factors"][query["items"]] * p["user_factors"][query["user"]]
        return super().score(p, query) + products @ p["factor_weights"]

    def score_all_items(self, p: TensorMap) -> Callable[[Tensor], Tensor]:
        """Return a function that scores all items; the weighted factors of the items are computed here, once."""
        perceptron, items = super().score_all_items(p), p["item_factors"] * p["factor_weights"]
        return lambda user: perceptron(user) + items @ p["user_factors"][user][0]
