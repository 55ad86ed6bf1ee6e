"""Neural collaborative filtering: a perceptron on a user's and an item's concatenated rows.

References
----------
He et al., "Neural collaborative filtering", WWW 2017, section 3.3 (the MLP); CL4FedRec and PDC-FRS use it federated.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, model_validator

from gossiprec.models import MODELS
from gossiprec.models.base import Model, ReductionOptions
from gossiprec.models.base.kernel_interface import CompiledGradient, ModelKernels
from gossiprec.models.base.parameter_blocks import (
    BlockRole,
    ParameterBlock,
    TensorMap,
    embedding_blocks,
    normal,
    uniform,
)
from gossiprec.models.feeds import PointwiseFeed

if TYPE_CHECKING:
    from torch import Tensor


Width = Annotated[int, Field(ge=1, le=4096)]


class NCFOptions(ReductionOptions):
    """Options of NCF."""

    dim: int = Field(default=32, ge=1, le=1024)
    """embedding size d"""
    hidden: Annotated[tuple[Width, ...], Field(min_length=1)] = (64, 32, 16)
    """widths of the hidden layers"""
    first_is_input: bool = False
    """the first number of hidden is the input width 2 d, not a layer (an alternative reading of papers)"""
    init_std: float = Field(default=0.01, gt=0)
    """standard deviation of the initial embeddings"""

    @model_validator(mode="after")
    def _input_fits(self) -> NCFOptions:
        if self.first_is_input and (self.hidden[0] != 2 * self.dim or len(self.hidden) < 2):
            raise ValueError(
                f"first_is_input: found hidden {list(self.hidden)}; expected 2 dim = {2 * self.dim}, "
                "followed by at least one layer"
            )
        return self


@MODELS.register("ncf")
class NCF(Model):
    """Score of item j for user u: ``sigmoid(h . MLP([u; v_j]))``, ReLU between affine layers.

    Notes
    -----
    Weights start from the Kaiming-uniform distribution U(-sqrt(6 / n), sqrt(6 / n)), n inputs; offsets from zero.
    """

    Options = NCFOptions
    options: NCFOptions
    feed = PointwiseFeed

    @classmethod
    def kernels(cls) -> type[ModelKernels]:
        """Return the compiled form, which trains by the gradient."""
        from gossiprec.models.base.gradient_kernels import GradientKernels

        return GradientKernels

    def gradient(self) -> CompiledGradient:
        """Return the gradient by back-propagation."""
        from gossiprec.models.ncf.gradient import gradient

        return gradient(self.widths, summed=self.options.summed)

    @functools.cached_property
    def widths(self) -> tuple[int, ...]:
        """Widths between the layers: the input's first, the output's, 1, last."""
        hidden = self.options.hidden[1:] if self.options.first_is_input else self.options.hidden
        return (2 * self.options.dim, *hidden, 1)

    def blocks(self) -> tuple[ParameterBlock, ...]:
        """Return ``users | items``, then each layer's matrix and offsets."""
        embedding = normal(self.options.init_std)
        layers = [self.layer(k, *size) for k, size in enumerate(itertools.pairwise(self.widths))]
        return (*embedding_blocks(self.options.dim, embedding, embedding), *itertools.chain(*layers))

    def layer(self, k: int, n: int, m: int) -> tuple[ParameterBlock, ParameterBlock]:
        """Return the matrix and the offsets of layer k, with n inputs and m outputs."""
        return (
            ParameterBlock(f"weight{k}", BlockRole.SHARED, (m, n), uniform(math.sqrt(6.0 / n))),
            ParameterBlock(f"offset{k}", BlockRole.SHARED, (m,)),
        )

    def score(self, p: TensorMap, query: TensorMap) -> Tensor:
        """Return the logits."""
        import torch

        dim, first = self.options.dim, p["weight0"]  # [u; v] times the matrix, half by half
        user = p["users"][query["user"]] @ first[:, :dim].T + p["offset0"]
        values: Tensor = p["items"][query["items"]] @ first[:, dim:].T + user
        for k in range(1, len(self.widths) - 1):
            values = torch.relu(values) @ p[f"weight{k}"].T + p[f"offset{k}"]
        return values[:, 0]

    def score_all_items(self, p: TensorMap) -> Callable[[Tensor], Tensor]:
        """Return a function that scores all items; the items' half of the first layer is computed here, once."""
        import torch

        dim, last = self.options.dim, len(self.widths) - 2
        of_user = p["weight0"][:, :dim].T
        of_items = torch.addmm(p["offset0"], p["items"], p["weight0"][:, dim:].T)

        def scores(user: Tensor) -> Tensor:
            values = of_items + p["users"][user] @ of_user
            for k in range(1, last + 1):
                values = torch.addmm(p[f"offset{k}"], values.relu_(), p[f"weight{k}"].T)
            return values[:, 0]

        return scores

    def loss(self, p: TensorMap, batch: TensorMap) -> Tensor:
        """Return the binary cross-entropy."""
        return self.options.cross_entropy(self.score(p, batch), batch["labels"], batch["weights"])


__all__ = ["NCF", "NCFOptions"]
