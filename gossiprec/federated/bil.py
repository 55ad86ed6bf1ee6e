"""Batch-insensitive losses: a hinge loss on each positive, and a term that spreads items out.

References
----------
L. Ning, K. Singhal, E. X. Zhou, S. Prakash, "Learning federated representations and recommendations with limited
negatives", 2021, and its public code (google-research, federated dual encoder): the hinge loss of positives and the
spread-out term, as baselines of the FedCL paper (specification, section 6). The code's weight of this term is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F32, I64
from gossiprec.base.options import LARGEST, Options
from gossiprec.base.registry import registry_name
from gossiprec.federated import RECOMMENDERS, ClientContext, PersonalModels, Recommender
from gossiprec.federated.fed_softmax import NONE, check_vector_model
from gossiprec.federated.user_vectors import complement_by_rank, item_table
from gossiprec.models.base import Layout
from gossiprec.models.base.contrastive import TINY, normalise_embeddings
from gossiprec.models.base.parameter_blocks import TensorMap
from gossiprec.models.base.sequence_model import SequenceModel
from gossiprec.models.feeds.base import Columns
from gossiprec.rules.servers import Extras

if TYPE_CHECKING:
    from torch import Tensor


class BILOptions(Options):
    """Options of BIL."""

    margin: float = Field(default=0.9, gt=0, le=1)
    """cosine above which a positive is near enough"""
    spread_weight: float = Field(default=0.1, ge=0)
    """lambda, weight of the term that spreads items out; 0: off"""
    random_items: int = Field(default=256, ge=0, le=LARGEST)
    """number of items that a client spreads out in addition to its own, redrawn each time"""


@RECOMMENDERS.register("bil")
class BIL(Recommender):
    """Cosines of a user's vector and items' rows: near for positives; items far from each other.

    The model always uses rows of items at norm 1: for reading, learning and recommending.
    """

    Options = BILOptions
    options: BILOptions
    loss_weights = ("spread_weight",)
    model: SequenceModel

    def check(self, layout: Layout, *, full_batches: bool) -> None:
        """Refuse models that do not score by vectors of users."""
        check_vector_model(registry_name(self), self.model)

    def transform_samples(self, drawn: Columns, client: ClientContext, draw: np.random.Generator) -> Columns:
        """Return the client's list with random items that it has not taken as negatives."""
        number = self.options.random_items if self.options.spread_weight else 0
        n_others = client.layout.n_items - len(client.positives)
        others = np.full(number, NONE, np.int32)
        ranks = draw.choice(n_others, min(number, n_others), replace=False)
        others[: len(ranks)] = complement_by_rank(client.positives, ranks)
        return {**drawn, "negatives": np.tile(others, (len(drawn["items"]), 1))}

    def loss(self, p: TensorMap, batch: TensorMap, extras: TensorMap) -> Tensor:
        """Return the mean over positives of ``max(0, margin - cos)^2``, and the spread-out term."""
        rows = normalise_embeddings(p["items"])
        states, wanted = normalise_embeddings(self.model.states({**p, "items": rows}, batch)), batch["items"]
        near = (states * rows[wanted.clamp(min=0)]).sum(-1)
        weights = (wanted >= 0) * batch["weights"][:, None]
        short = (self.options.margin - near).clamp(min=0.0).square()
        total = (short * weights).sum() / weights.sum().clamp(min=1.0)
        if not self.options.spread_weight:
            return total
        return total + self.options.spread_weight * pairwise_dot_norm(rows, item_mask(batch, len(rows)))

    def personal_models(self, clients: I64, version: F32, extras: Extras) -> PersonalModels:
        """Return the version with rows of norm 1, by which all clients recommend."""
        layout, one = self.model.layout(1), version.copy()
        n_items = (len(version) - layout.n_shared) // layout.item_width
        rows = item_table(self.model.layout(n_items), one)
        norms = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
        rows /= np.maximum(norms, np.float32(TINY))
        return PersonalModels(one[None], np.zeros(len(clients), np.int64), 0.0)


def item_mask(batch: TensorMap, n_rows: int) -> Tensor:
    """Return a mask of the items in a step, 1 or 0, shape (n_rows,)."""
    import torch

    counts = batch["weights"][:, None] > 0
    named = [batch[name] for name in ("previous", "items", "negatives") if name in batch]
    places = torch.cat([torch.where((part >= 0) & counts, part, n_rows).flatten() for part in named])
    return torch.zeros(n_rows + 1, device=places.device).scatter(0, places, 1.0)[:n_rows]


def pairwise_dot_norm(rows: Tensor, present: Tensor) -> Tensor:
    """Return the root of the sum of squared scalar products of different rows, each pair twice.

    Parameters
    ----------
    rows : Tensor, shape (n, d)
    present : Tensor, shape (n,)
        1, or 0 for rows that are left out.
    """
    there = rows * present[:, None]
    together = (there.T @ there).square().sum()  # d x d numbers, while products of rows are n x n
    own = there.square().sum(-1).square().sum()
    return (together - own).clamp(min=TINY).sqrt()
