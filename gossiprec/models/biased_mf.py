"""Matrix factorisation with biases of users and items.

References
----------
Koren et al., "Matrix factorization techniques for recommender systems", IEEE Computer 2009, eq. 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from gossiprec.models import MODELS
from gossiprec.models.base import Model, ReductionOptions
from gossiprec.models.base.kernel_interface import CompiledGradient, ModelKernels
from gossiprec.models.base.parameter_blocks import BlockRole, ParameterBlock, TensorMap, normal
from gossiprec.models.feeds import PointwiseFeed

if TYPE_CHECKING:
    from torch import Tensor


class BiasedMFOptions(ReductionOptions):
    """Options of matrix factorisation with biases."""

    dim: int = Field(default=8, ge=1, le=1024)
    """embedding size d"""
    init_std: float = Field(default=0.01, gt=0)
    """standard deviation of the initial embeddings"""


@MODELS.register("biased-mf")
class BiasedMF(Model):
    """Score of item j for user u: ``sigmoid(u . v_j + b_u + b_j + c)``; biases start at zero.

    Notes
    -----
    The paper predicts ratings, with their mean as c. Here labels are predicted, and c is learnt.
    """

    Options = BiasedMFOptions
    options: BiasedMFOptions
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
        """Return ``[factors | bias]`` of users and of items, and the common offset."""
        dim, embedding = self.options.dim, normal(self.options.init_std)
        return (
            ParameterBlock("user_factors", BlockRole.USER, (dim,), embedding),
            ParameterBlock("user_bias", BlockRole.USER, (1,)),
            ParameterBlock("item_factors", BlockRole.ITEM, (dim,), embedding),
            ParameterBlock("item_bias", BlockRole.ITEM, (1,)),
            ParameterBlock("offset", BlockRole.SHARED, (1,)),
        )

    def score(self, p: TensorMap, query: TensorMap) -> Tensor:
        """Return the logits."""
        user, items = query["user"], query["items"]
        factors = (p["item_factors"][items] * p["user_factors"][user]).sum(-1)
        return factors + p["user_bias"][user, 0] + p["item_bias"][items, 0] + p["offset"]

    def loss(self, p: TensorMap, batch: TensorMap) -> Tensor:
        """Return the binary cross-entropy."""
        return self.options.cross_entropy(self.score(p, batch), batch["labels"], batch["weights"])


def score(p, room, shape):  # type: ignore[no-untyped-def]
    """Return the logit, for :func:`gossiprec.models.base.kernel_template.template_kernels`."""
    dim = len(p.user) - 1
    total = p.user[dim] + p.item[dim] + p.shared[0]
    for k in range(dim):
        total += p.user[k] * p.item[k]
    return total


def add_gradient(p, error, slopes, room, shape):  # type: ignore[no-untyped-def]
    """Add the derivatives of the logit, times `error`."""
    dim = len(p.user) - 1
    for k in range(dim):
        slopes.item[k] += error * p.user[k]
    for k in range(dim):
        slopes.user[k] += error * p.item[k]
    slopes.item[dim] += error
    slopes.user[dim] += error
    slopes.shared[0] += error
