"""Matrix factorisation: the dot product of a user's and an item's row.

References
----------
Koren et al., "Matrix factorization techniques for recommender systems", IEEE Computer 2009; pairwise: Rendle et al.,
"BPR: Bayesian personalized ranking from implicit feedback", UAI 2009.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from gossiprec.models import MODELS
from gossiprec.models.base import Model
from gossiprec.models.base.analytic_gradients import AnalyticGradient, PairGradient
from gossiprec.models.base.model import ReductionOptions
from gossiprec.models.base.parameter_blocks import BlockRole, ParameterBlock, normal
from gossiprec.models.feeds import PairwiseFeed, PointwiseFeed

if TYPE_CHECKING:
    from torch import Tensor


class MFOptions(ReductionOptions):
    """Options of matrix factorisation."""

    dim: int = Field(default=16, ge=1, le=1024, description="embedding size d")
    init_std: float = Field(default=0.01, gt=0, description="standard deviation of the initial embeddings")
    loss: Literal["bce", "bpr"] = Field(
        default="bce",
        description="bce: binary cross-entropy of labelled items; bpr: rank each positive above each of its negatives",
    )


@MODELS.register("mf")
class MF(Model):
    """Score of item j for user u: ``u . v_j``, a logit under ``loss: bce``."""

    Options = MFOptions
    options: MFOptions

    def __init__(self, options: MFOptions) -> None:
        super().__init__(options)
        pairwise = options.loss == "bpr"
        self.feed = PairwiseFeed if pairwise else PointwiseFeed
        self.predicts_probabilities = (
            not pairwise
        )  # differences of scores have a meaning, single scores have none

    def blocks(self) -> tuple[ParameterBlock, ...]:
        """Return ``users | items``."""
        dim, embedding = self.options.dim, normal(self.options.init_std)
        return (
            ParameterBlock("users", BlockRole.USER, (dim,), embedding),
            ParameterBlock("items", BlockRole.ITEM, (dim,), embedding),
        )

    def score(self, p: Mapping[str, Tensor], query: Mapping[str, Tensor]) -> Tensor:
        """Return the dot products."""
        return (p["items"][query["items"]] * p["users"][query["user"]]).sum(-1)

    def analytic_gradient(self) -> AnalyticGradient | None:
        """Return the gradient of the cross-entropy, or None for another loss."""
        from gossiprec.models.mf.kernels import gradient

        options = self.options
        return gradient(options.dim, summed=options.summed) if options.loss == "bce" else None

    def pair_gradient(self) -> PairGradient | None:
        """Return the gradient of BPR, or None for another loss."""
        from gossiprec.models.mf.kernels import pair_gradient

        return pair_gradient(summed=self.options.summed) if self.options.loss == "bpr" else None

    def score_all_items(self, p: Mapping[str, Tensor]) -> Callable[[Tensor], Tensor]:
        """Return the function that multiplies the item table by a user's row."""
        return lambda user: p["items"] @ p["users"][user][0]

    def loss(self, p: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> Tensor:
        """Return the cross-entropy of the labels, or ``-log sigmoid`` of the leads of positives over negatives."""
        import torch
        from torch.nn.functional import binary_cross_entropy_with_logits

        weights, logits = batch["weights"], self.score(p, batch)
        if self.options.loss == "bpr":
            logits = logits - self.score(p, {"user": batch["user"], "items": batch["negatives"]})
        labels = batch["labels"] if self.options.loss == "bce" else torch.ones_like(logits)
        total = binary_cross_entropy_with_logits(logits, labels, weights, reduction="sum")
        return self.options.reduced(total, weights)
