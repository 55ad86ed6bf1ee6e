"""A perceptron with one hidden layer on the rows of a user and an item, with kernels."""

from __future__ import annotations

from pydantic import Field

from gossiprec.base.options import Options
from gossiprec.models import MODELS, BlockRole, Model, ParameterBlock
from gossiprec.models.base.parameter_blocks import normal
from gossiprec.models.feeds import PointwiseFeed


class PerceptronOptions(Options):
    """Options of the model."""

    dim: int = Field(default=8, ge=1, le=1024, description="embedding size d")
    hidden: int = Field(default=16, ge=1, le=1024, description="width of the hidden layer")


@MODELS.register("perceptron")
class Perceptron(Model):
    """Score of item j for user u: ``sigmoid(out . relu(W [u; v_j] + b))``."""

    Options = PerceptronOptions
    feed = PointwiseFeed

    @classmethod
    def kernels(cls):
        """Return the compiled form."""
        from gossiprec.models.base.kernel_template import template_kernels

        return template_kernels(score, add_gradient, sizes)

    def blocks(self):
        """Return ``users | items``, the weights W, the offsets b and the output's weights."""
        dim, hidden = self.options.dim, self.options.hidden
        return (
            ParameterBlock("users", BlockRole.USER, (dim,), normal(0.1)),
            ParameterBlock("items", BlockRole.ITEM, (dim,), normal(0.1)),
            ParameterBlock("weights", BlockRole.SHARED, (2 * dim, hidden), normal(0.3)),
            ParameterBlock("offsets", BlockRole.SHARED, (hidden,)),
            ParameterBlock("out", BlockRole.SHARED, (hidden,), normal(0.3)),
        )

    def score(self, p, query):
        """Return the logits; the user's half of the layer is computed once."""
        of_user, of_item = p["weights"].split(self.options.dim)
        hidden = p["users"][query["user"]] @ of_user + p["items"][query["items"]] @ of_item + p["offsets"]
        return hidden.relu() @ p["out"]

    def loss(self, p, batch):
        """Return the binary cross-entropy; samples of weight 0 are padding."""
        from torch.nn.functional import binary_cross_entropy_with_logits

        logits, weights = self.score(p, batch), batch["weights"]
        total = binary_cross_entropy_with_logits(logits, batch["labels"], weights, reduction="sum")
        return total / weights.sum()


def sizes(options):
    """Return the width of the hidden layer, and that of the working memory: a value per hidden unit."""
    return (options.hidden,), options.hidden


def score(p, room, shape):
    """Return the logit; leave the values of the hidden units in `room`. Inner loops run over neighbours in memory."""
    dim, hidden = len(p.user), shape[0]
    offsets, out = 2 * dim * hidden, (2 * dim + 1) * hidden
    for h in range(hidden):
        room[h] = p.shared[offsets + h]
    for k in range(dim):
        for h in range(hidden):
            room[h] += p.shared[k * hidden + h] * p.user[k] + p.shared[(dim + k) * hidden + h] * p.item[k]
    logit = 0 * p.user[0]
    for h in range(hidden):
        room[h] = max(room[h], 0 * room[h])
        logit += p.shared[out + h] * room[h]
    return logit


def add_gradient(p, error, slopes, room, shape):
    """Add the derivatives of the logit, times `error`, by back-propagation."""
    dim, hidden = len(p.user), shape[0]
    offsets, out = 2 * dim * hidden, (2 * dim + 1) * hidden
    score(p, room, shape)
    for h in range(hidden):
        slopes.shared[out + h] += error * room[h]
        room[h] = error * p.shared[out + h] * (room[h] > 0)
        slopes.shared[offsets + h] += room[h]
    for k in range(dim):
        of_user, of_item = 0 * error, 0 * error
        for h in range(hidden):
            slopes.shared[k * hidden + h] += room[h] * p.user[k]
            of_user += room[h] * p.shared[k * hidden + h]
            slopes.shared[(dim + k) * hidden + h] += room[h] * p.item[k]
            of_item += room[h] * p.shared[(dim + k) * hidden + h]
        slopes.user[k] += of_user
        slopes.item[k] += of_item
