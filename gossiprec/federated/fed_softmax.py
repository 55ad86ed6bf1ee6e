"""Local negatives: drawing and masking random items that a client keeps, and the "+Fed" rows of FedCL's tables.

References
----------
The FedCL paper (specification, section 6): the loop and the loss of FedCL without its coordinator's part, so that
clients upload nothing about their users.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from gossiprec.base.arrays import I32, Bools
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import LARGEST, Options
from gossiprec.base.registry import registry_name
from gossiprec.base.rng import generator
from gossiprec.federated import RECOMMENDERS, ClientContext, Recommender
from gossiprec.federated.user_vectors import complement_by_rank
from gossiprec.models.base import Layout
from gossiprec.models.base.sequence_model import SequenceModel
from gossiprec.models.feeds.base import Columns

NONE = -1
"""Placeholder for a missing negative."""


def draw_local_items(seed: int, node: int, positives: I32, *, n_items: int, number: int) -> I32:
    """Return the random items that a client keeps for the run, none of them its own, up to `number`.

    Parameters
    ----------
    seed, node : int
        The draw depends only on these and on the client's items.
    positives : ndarray of int32, shape (n_positives,)
        Ascending.
    n_items, number : int
    """
    others = n_items - len(positives)
    ranks = generator(seed, "local-items", node).choice(others, min(number, others), replace=False)
    return complement_by_rank(positives, ranks).astype(np.int32)


def sample_items(items: I32, number: int, draw: np.random.Generator) -> I32:
    """Return a uniform sample of different items, shape (number,), filled up with :data:`NONE`."""
    there = min(number, len(items))
    found = items[draw.choice(len(items), there, replace=False)]
    return found if there == number else np.append(found, np.full(number - there, NONE, np.int32))


def sample_items_for_each(items: I32, shape: tuple[int, ...], number: int, draw: np.random.Generator) -> I32:
    """Return a uniform sample of different items for each position, shape (*shape, number).

    The draws of the positions are independent; missing items are :data:`NONE`.
    """
    there = min(number, len(items))
    order = draw.random((*shape, len(items)), np.float32).argsort(axis=-1)[..., :there]
    found = np.full((*shape, number), NONE, np.int32)
    found[..., :there] = items[order]
    return found


def mask_known(negatives: I32, known: I32) -> I32:
    """Return negatives with :data:`NONE` in place of known items, which are ascending."""
    return np.where(is_member(negatives, known), np.int32(NONE), negatives)


def is_member(items: I32, known: I32) -> Bools:
    """Return whether each item is among the known ones, which are ascending."""
    if not len(known):
        return np.zeros(items.shape, np.bool_)
    return np.asarray(known[np.minimum(np.searchsorted(known, items), len(known) - 1)] == items)


class FedSoftmaxOptions(Options):
    """Options of local negatives."""

    local_items: int = Field(default=100, ge=0, le=LARGEST)
    """number of random items that a client keeps for the run, excluding its own"""
    local_negatives: int = Field(default=10, ge=0, le=LARGEST)
    """K, number of negatives drawn from them; 0: ablation"""
    local_drawn: Literal["positive", "update"] = "positive"
    """positive: draw K for each positive, as in the paper; update: draw K for all positives of a local update
    together"""

    @model_validator(mode="after")
    def _enough(self) -> FedSoftmaxOptions:
        if self.local_negatives > self.local_items:
            raise ValueError(
                f"found local_negatives {self.local_negatives}, but only {self.local_items} local_items to "
                "draw them from; lower local_negatives, or raise local_items"
            )
        return self


@RECOMMENDERS.register("fed-softmax")
class FedSoftmax(Recommender):
    """Learning from local negatives only: the "+Fed" rows of FedCL's tables."""

    Options = FedSoftmaxOptions
    options: FedSoftmaxOptions
    model: SequenceModel
    adds_to_loss = False

    def __init__(self, options: Any, model: Any, *, negatives: int, learning_rate: float) -> None:
        super().__init__(options, model, negatives=negatives, learning_rate=learning_rate)
        self._local: dict[int, I32] = {}

    def check(self, layout: Layout, *, full_batches: bool) -> None:
        """Refuse models that do not score by vectors of users, and a softmax without negatives."""
        check_vector_model(registry_name(self), self.model)
        if not (self._n_negatives or self.model.options.in_batch):
            raise ScenarioError(
                "recommender: found no negatives (local_negatives 0), so nothing can be learned; raise "
                "local_negatives, or set model.in_batch"
            )

    @property
    def _n_negatives(self) -> int:
        return self.options.local_negatives

    def transform_samples(self, drawn: Columns, client: ClientContext, draw: np.random.Generator) -> Columns:
        """Return the client's list with local negatives in place of the feed's."""
        items, local, number = drawn["items"], self._local_of(client), self.options.local_negatives
        if self.options.local_drawn == "update":
            own = sample_items(local, number, draw)
            semi_hard = mask_known(self._semi_hard(client, draw), np.sort(own))
            return {**drawn, "negatives": np.tile(np.concatenate([own, semi_hard]), (len(items), 1))}
        own = sample_items_for_each(local, items.shape, number, draw)
        semi_hard = self._semi_hard(client, draw)
        shared = np.broadcast_to(semi_hard, (*items.shape, len(semi_hard)))
        negatives = np.concatenate([own, shared], axis=2)
        return {**drawn, "negatives": np.where(items[..., None] >= 0, negatives, np.int32(NONE))}

    def _local_of(self, client: ClientContext) -> I32:
        """Return the random items that a client keeps for the run."""
        if client.node not in self._local:
            self._local[client.node] = draw_local_items(
                client.seed, client.node, client.positives, n_items=client.layout.n_items,
                number=self.options.local_items,
            )  # fmt: skip
        return self._local[client.node]

    def _semi_hard(self, client: ClientContext, draw: np.random.Generator) -> I32:
        """Return further negatives, shared by all positives of a local update."""
        return np.zeros(0, np.int32)


def check_vector_model(name: str, model: object) -> None:
    """Refuse a model that does not score by the scalar product of a user's vector with items' rows.

    Raises
    ------
    ScenarioError
    """
    if not isinstance(model, SequenceModel):
        raise ScenarioError(
            f"recommender: {name} requires a model that scores items by a user vector, which {registry_name(model)} "
            "does not; choose two-tower, gru4rec or bert4rec"
        )
