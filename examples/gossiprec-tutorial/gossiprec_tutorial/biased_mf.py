"""Matrix factorisation with item biases."""

from __future__ import annotations

from pydantic import Field

from gossiprec.base.options import Options
from gossiprec.models import MODELS, BlockRole, Model, ParameterBlock
from gossiprec.models.base.parameter_blocks import normal
from gossiprec.models.feeds import PointwiseFeed


class BiasedMFOptions(Options):
    """Options of the model; a scenario says `model: {name: biased-mf, dim: 16}`."""

    dim: int = Field(default=8, ge=1, le=1024, description="embedding size d")


@MODELS.register("biased-mf")
class BiasedMF(Model):
    """Score of item j for user u: ``sigmoid(u . v_j + b_j)``."""

    Options = BiasedMFOptions
    feed = PointwiseFeed

    def blocks(self):
        """Return the parameter blocks: a row per user, two tables of items, no shared weights."""
        dim, embedding = self.options.dim, normal(0.01)
        return (
            ParameterBlock("users", BlockRole.USER, (dim,), embedding),
            ParameterBlock("factors", BlockRole.ITEM, (dim,), embedding),
            ParameterBlock("biases", BlockRole.ITEM, (1,)),  # begin at zero
        )

    def score(self, p, query):
        """Return the logits of ``query["items"]`` for one user."""
        items = query["items"]
        return (p["factors"][items] * p["users"][query["user"]]).sum(-1) + p["biases"][items, 0]

    def loss(self, p, batch):
        """Return the binary cross-entropy; samples of weight 0 are padding."""
        from torch.nn.functional import binary_cross_entropy_with_logits

        logits, weights = self.score(p, batch), batch["weights"]
        total = binary_cross_entropy_with_logits(logits, batch["labels"], weights, reduction="sum")
        return total / weights.sum()
