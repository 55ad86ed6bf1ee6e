"""Matrix factorisation: the dot product of a user's and an item's row.

References
----------
Koren et al., "Matrix factorization techniques for recommender systems", IEEE Computer 2009; pairwise: Rendle et al.,
"BPR: Bayesian personalized ranking from implicit feedback", UAI 2009.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from gossiprec.models import MODELS
from gossiprec.models.base import DotProductScores, Model, ReductionOptions
from gossiprec.models.base.kernel_interface import CompiledGradient
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

    def blocks(self) -> tuple[ParameterBlock, ...]:
        """Return ``users | items``."""
        initial = normal(self.options.init_std)
        return embedding_blocks(self.options.dim, initial, initial)

    def gradient(self) -> CompiledGradient:
        """Return the gradient of the cross-entropy, or of BPR."""
        from gossiprec.models.base.dot_product_gradients import mf_gradient, mf_pair_gradient

        options = self.options
        if options.loss == "bpr":
            return mf_pair_gradient(summed=options.summed)
        return mf_gradient(options.dim, summed=options.summed)

    def loss(self, p: TensorMap, batch: TensorMap) -> Tensor:
        """Return the cross-entropy of the labels, or ``-log sigmoid`` of the leads of positives over negatives."""
        import torch

        logits = self.score(p, batch)
        if self.options.loss == "bpr":
            logits = logits - self.score(p, {"user": batch["user"], "items": batch["negatives"]})
        labels = batch["labels"] if self.options.loss == "bce" else torch.ones_like(logits)
        return self.options.cross_entropy(logits, labels, batch["weights"])
