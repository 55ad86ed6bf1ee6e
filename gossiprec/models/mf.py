"""Matrix factorisation: the dot product of a user's and an item's row.

References
----------
Koren et al., "Matrix factorization techniques for recommender systems", IEEE Computer 2009; pairwise: Rendle et al.,
"BPR: Bayesian personalized ranking from implicit feedback", UAI 2009.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from numpy import float32
from pydantic import Field

from gossiprec.models import MODELS
from gossiprec.models.base import DotProductScores, Model, ReductionOptions
from gossiprec.models.base.kernel_interface import CompiledGradient, ModelKernels
from gossiprec.models.base.parameter_blocks import ParameterBlock, TensorMap, embedding_blocks, normal
from gossiprec.models.feeds import PairwiseFeed, PointwiseFeed

if TYPE_CHECKING:
    from torch import Tensor


class MFOptions(ReductionOptions):
    """Options of matrix factorisation."""

    dim: int = Field(default=16, ge=1, le=1024)
    """embedding size d"""
    init_std: float = Field(default=0.01, gt=0)
    """standard deviation of the initial embeddings"""
    loss: Literal["bce", "bpr"] = "bce"
    """bce: binary cross-entropy of labelled items; bpr: rank each positive above each of its negatives"""


@MODELS.register("mf")
class MF(DotProductScores, Model):
    """Score of item j for user u: ``u . v_j``, a logit under ``loss: bce``."""

    Options = MFOptions
    options: MFOptions

    def __init__(self, options: MFOptions) -> None:
        super().__init__(options)
        pairwise = options.loss == "bpr"
        self.feed = PairwiseFeed if pairwise else PointwiseFeed
        self.predicts_probabilities = not pairwise  # of pairs, only differences of scores have a meaning

    @classmethod
    def kernels(cls) -> type[ModelKernels]:
        """Return the compiled form, for ``loss: bce``."""
        from gossiprec.models.base.kernel_template import template_kernels

        return template_kernels(score, add_gradient, affine=True)

    def blocks(self) -> tuple[ParameterBlock, ...]:
        """Return ``users | items``."""
        initial = normal(self.options.init_std)
        return embedding_blocks(self.options.dim, initial, initial)

    def gradient(self) -> CompiledGradient:
        """Return the gradient of the cross-entropy, or of BPR."""
        from gossiprec.models.base.dot_product_gradients import mf_pair_gradient
        from gossiprec.models.base.item_gradients import affine_gradient

        if self.options.loss == "bpr":
            return mf_pair_gradient(summed=self.options.summed)
        return affine_gradient(score, add_gradient, self)

    def loss(self, p: TensorMap, batch: TensorMap) -> Tensor:
        """Return the cross-entropy of the labels, or ``-log sigmoid`` of the leads of positives over negatives."""
        import torch

        logits = self.score(p, batch)
        if self.options.loss == "bpr":
            logits = logits - self.score(p, {"user": batch["user"], "items": batch["negatives"]})
        labels = batch["labels"] if self.options.loss == "bce" else torch.ones_like(logits)
        return self.options.cross_entropy(logits, labels, batch["weights"])


def score(p, room, shape):  # type: ignore[no-untyped-def]
    """Return the logit, for :func:`gossiprec.models.base.kernel_template.template_kernels`."""
    total = float32(0.0)
    for k in range(len(p.user)):
        total += p.user[k] * p.item[k]
    return total


def add_gradient(p, error, slopes, room, shape):  # type: ignore[no-untyped-def]
    """Add the derivatives of the logit, times `error`."""
    for k in range(len(p.user)):
        slopes.item[k] += error * p.user[k]
    for k in range(len(p.user)):
        slopes.user[k] += error * p.item[k]
