"""Matrix factorisation by distances, with item biases."""

from __future__ import annotations

from pydantic import Field

from gossiprec.base.options import Options
from gossiprec.models import MODELS, BlockRole, Model, ParameterBlock
from gossiprec.models.base.parameter_blocks import normal
from gossiprec.models.feeds import PointwiseFeed


class DistanceMFOptions(Options):
    """Options of the model; a scenario says `model: {name: distance-mf, dim: 16}`."""

    dim: int = Field(default=8, ge=1, le=1024, description="embedding size d")


@MODELS.register("distance-mf")
class DistanceMF(Model):
    """Score of item j for user u: ``sigmoid(b_j - |u - v_j|^2)``."""

    Options = DistanceMFOptions
    feed = PointwiseFeed

    @classmethod
    def kernels(cls):
        """Return the compiled form, made from the two functions below."""
        from gossiprec.models.base.kernel_template import template_kernels

        return template_kernels(score, add_gradient)

    def blocks(self):
        """Return the parameter blocks: a row per user, two tables of items, no shared weights."""
        dim, embedding = self.options.dim, normal(0.1)
        return (
            ParameterBlock("users", BlockRole.USER, (dim,), embedding),
            ParameterBlock("factors", BlockRole.ITEM, (dim,), embedding),
            ParameterBlock("biases", BlockRole.ITEM, (1,)),  # begin at zero
        )

    def score(self, p, query):
        """Return the logits of ``query["items"]`` for one user."""
        items = query["items"]
        return p["biases"][items, 0] - (p["factors"][items] - p["users"][query["user"]]).square().sum(-1)

    def loss(self, p, batch):
        """Return the binary cross-entropy; samples of weight 0 are padding."""
        from torch.nn.functional import binary_cross_entropy_with_logits

        logits, weights = self.score(p, batch), batch["weights"]
        total = binary_cross_entropy_with_logits(logits, batch["labels"], weights, reduction="sum")
        return total / weights.sum()


def score(p, room, shape):
    """Return the logit of an item; its row is [factors | bias]."""
    logit = p.item[len(p.user)]
    for k in range(len(p.user)):
        logit -= (p.item[k] - p.user[k]) ** 2
    return logit


def add_gradient(p, error, slopes, room, shape):
    """Add the derivatives of the logit, times `error`."""
    for k in range(len(p.user)):
        slope = 2 * error * (p.item[k] - p.user[k])
        slopes.item[k] -= slope
        slopes.user[k] += slope
    slopes.item[len(p.user)] += error
