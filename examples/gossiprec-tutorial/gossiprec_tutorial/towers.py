"""Two towers of attributes: a user is a row and labels such as the gender, an item is a row and genres."""

from __future__ import annotations

import copy

import numpy as np
from pydantic import Field

from gossiprec.base.options import Options
from gossiprec.models import MODELS, BlockRole, Model, ParameterBlock
from gossiprec.models.base.parameter_blocks import normal
from gossiprec.models.feeds import AttributedFeed, features_of


class TowerOptions(Options):
    """Options of the model; a scenario says `model: {name: attribute-towers, users: [gender]}`."""

    dim: int = Field(default=8, ge=1, le=1024, description="embedding size d")
    users: tuple[str, ...] = Field(("gender",), min_length=1, description="columns of labels of users")
    items: str = Field("genres", description="column of labels of items")
    dropout: float = Field(0.1, ge=0, lt=1, description="share of a user's numbers that a step leaves out")


@MODELS.register("attribute-towers")
class AttributeTowers(Model):
    """Score of item j for user u: ``(u + a_u A) . (v_j + g_j G)``, with attributes a and genres g as shares."""

    Options = TowerOptions
    feed = AttributedFeed
    needs_features = True

    def bind_to_data(self, split):
        """Return the model with the genres of all items, which are public, and the widths of its towers."""
        users, bound = self.options.users, copy.copy(self)
        labels = features_of(split.user_features, "users", split.name, users, "model.users")
        genres = features_of(split.item_features, "items", split.name, [self.options.items], "model.items")
        bound.constants = {"genres": genres.labels(self.options.items).shares()}
        bound.width = sum(len(labels.labels(name).labels) for name in users)
        return bound

    def make_feed(self, split):
        """Return the items and the attributes of the nodes; users without a label have zeros."""
        return AttributedFeed.of_columns(split, self.options.users, option="model.users", allow_unknown=True)

    def blocks(self):
        """Return a row per user and item, and the shared weights of both towers."""
        dim, initial, n_genres = self.options.dim, normal(0.1), self.constants["genres"].shape[1]
        return (
            ParameterBlock("users", BlockRole.USER, (dim,), initial),
            ParameterBlock("items", BlockRole.ITEM, (dim,), initial),
            ParameterBlock("user_tower", BlockRole.SHARED, (self.width, dim), initial),
            ParameterBlock("item_tower", BlockRole.SHARED, (n_genres, dim), initial),
        )

    def draws(self, samples, draw):
        """Return factors of the users' numbers, 0 for those that a step leaves out; their mean is 1."""
        kept = draw.random((len(samples["items"]), self.options.dim)) >= self.options.dropout
        return {"keep": (kept / (1 - self.options.dropout)).astype(np.float32)}

    def score(self, p, query):
        """Return the logits; attributes are absent where others score the model, draws wherever nothing is trained."""
        user, items = p["users"][query["user"]], query["items"]
        if "attributes" in query:
            user = user + query["attributes"] @ p["user_tower"]
        if "keep" in query:
            user = user * query["keep"]
        return (user * (p["items"][items] + p["genres"][items] @ p["item_tower"])).sum(-1)

    def loss(self, p, batch):
        """Return the binary cross-entropy; samples of weight 0 are padding."""
        from torch.nn.functional import binary_cross_entropy_with_logits

        logits, weights = self.score(p, batch), batch["weights"]
        total = binary_cross_entropy_with_logits(logits, batch["labels"], weights, reduction="sum")
        return total / weights.sum()
