"""Generalised matrix factorisation: the model of the community-detection study.

References
----------
He et al., "Neural collaborative filtering", WWW 2017, eq. 9; the CDA paper (arXiv 2306.08929), eq. 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from gossiprec.models import MODELS
from gossiprec.models.base import Model, ReductionOptions
from gossiprec.models.base.kernel_interface import CompiledGradient, ModelKernels
from gossiprec.models.base.parameter_blocks import BlockRole, ParameterBlock, normal, uniform
from gossiprec.models.feeds import PointwiseFeed

if TYPE_CHECKING:
    from torch import Tensor


class GMFOptions(ReductionOptions):
    """Options of GMF."""

    dim: int = Field(default=8, ge=1, le=1024)
    """embedding size d"""
    init_std: float = Field(default=0.01, gt=0)
    """standard deviation of the initial embeddings"""


@MODELS.register("gmf")
class GMF(Model):
    """Score of item j for user u: ``sigmoid(h . (u * v_j) + b)``.

    Shared weights are the output unit: h (dim,) and its bias b.

    Notes
    -----
    Embeddings start from N(0, init_std^2) and h from the LeCun-uniform distribution, as in the published code; the
    paper writes N(0, 0.01), which its code interprets as a standard deviation.
    """

    Options = GMFOptions
    options: GMFOptions
    feed = PointwiseFeed

    @classmethod
    def kernels(cls) -> type[ModelKernels]:
        """Return the compiled form."""
        from gossiprec.models.base.kernel_template import template_kernels

        return template_kernels(score, add_gradient, affine=True)

    def gradient(self) -> CompiledGradient:
        """Return the gradient of a batch."""
        from gossiprec.models.base.item_gradients import affine_gradient

        return affine_gradient(score, add_gradient, self)

    def blocks(self) -> tuple[ParameterBlock, ...]:
        """Return ``users | items | weight | bias``, h being the weight."""
        dim, embedding = self.options.dim, normal(self.options.init_std)
        return (
            ParameterBlock("users", BlockRole.USER, (dim,), embedding),
            ParameterBlock("items", BlockRole.ITEM, (dim,), embedding),
            ParameterBlock("weight", BlockRole.SHARED, (dim,), uniform(np.sqrt(3.0 / dim))),
            ParameterBlock("bias", BlockRole.SHARED, (1,)),
        )

    def score(self, p: Mapping[str, Tensor], query: Mapping[str, Tensor]) -> Tensor:
        """Return the logits."""
        mixed = p["weight"] * p["users"][query["user"]]
        return (p["items"][query["items"]] * mixed).sum(-1) + p["bias"]

    def loss(self, p: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> Tensor:
        """Return the binary cross-entropy (CDA paper, eq. 3)."""
        return self.options.cross_entropy(self.score(p, batch), batch["labels"], batch["weights"])


def score(p, room, shape):  # type: ignore[no-untyped-def]
    """Return the logit, for :func:`gossiprec.models.base.kernel_template.template_kernels`."""
    dim = len(p.user)
    total = p.shared[dim]
    for k in range(dim):
        total += p.user[k] * p.shared[k] * p.item[k]
    return total


def add_gradient(p, error, slopes, room, shape):  # type: ignore[no-untyped-def]
    """Add the derivatives of the logit, times `error`."""
    dim = len(p.user)
    for k in range(dim):
        slopes.item[k] += error * (p.user[k] * p.shared[k])
    for k in range(dim):
        slopes.user[k] += error * p.item[k] * p.shared[k]
    for k in range(dim):
        slopes.shared[k] += error * p.item[k] * p.user[k]
    slopes.shared[dim] += error
