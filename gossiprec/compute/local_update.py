"""Settings, batches, sample orders and DP noise of local updates; settings of nodes; merges by performance.

References
----------
PEPPER (the Pers-Gossip of the CDA paper, arXiv 2306.08929, section 2.3; its published code): performance is
HR@20 x NDCG@20 of each validation item among itself and 99 fixed items, with the receiver's own user row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Literal

import numpy as np

from gossiprec.base.arrays import F32, I8, I32, I64, Bools
from gossiprec.base.errors import DataError
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import SHUFFLE, generator, philox_words
from gossiprec.data.split import Split, display_name
from gossiprec.measures.ranking import CUTOFF, PADDING, candidate_ranks, discounted_gains
from gossiprec.models.base import Model
from gossiprec.models.base.parameter_blocks import Layout
from gossiprec.models.base.terms import ItemTerm
from gossiprec.models.feeds.base import Columns, Feed
from gossiprec.numerics.noise import gaussian_noise


@dataclass(frozen=True)
class TrainingSettings:
    """The settings of a local update: `local_epochs` passes over the positives and their negatives.

    Parameters
    ----------
    batch_size : int or None
        Samples per batch, or None for all local data in one batch.
    negatives : int
        Negatives per positive.
    negatives_drawn : str
        ``each_update`` redraws negatives for each local update; ``once`` uses the negatives of update 0 for all.
    positives_drawn : str
        ``all``: each positive once per pass. ``by_user``, for one model of all users: as many as there are positives,
        each of a user that is drawn uniformly.
    uploads_gradients : bool
        For clients that answer with updates: items and shared weights take one step of plain gradient descent.
    """

    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 0.01
    batch_size: int | None = 64
    local_epochs: int = 1
    negatives: int = 4
    negatives_drawn: Literal["each_update", "once"] = "each_update"
    positives_drawn: Literal["all", "by_user"] = "all"
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    uploads_gradients: bool = False

    def negatives_update(self, update: int) -> int:
        """Return the number of the local update that determines the negatives of update `update`."""
        return 0 if self.negatives_drawn == "once" else update


def local_batches(
    feed: Feed, training: TrainingSettings, node: int, update: int, seed: int
) -> Iterator[Columns]:
    """Yield the columns of each optimizer step of one local update.

    Negatives are drawn once per update, or once in all, and the order once per epoch; a full batch is not shuffled. A
    node without positives takes no step.
    """
    drawn = training.negatives_update(update)
    samples = feed.samples(node, update=drawn, negatives=training.negatives, seed=seed)
    n_samples = len(next(iter(samples.values())))
    size = training.batch_size or max(n_samples, 1)
    for epoch in range(update * training.local_epochs, (update + 1) * training.local_epochs):
        order = np.arange(n_samples)
        if training.batch_size is not None:
            order = draw_order(n_samples, node, epoch=epoch, seed=seed)
        for start in range(0, n_samples, size):
            yield {name: column[order[start : start + size]] for name, column in samples.items()}


def draw_order(n_samples: int, node: int, *, epoch: int, seed: int) -> I64:
    """Return a uniform permutation (Fisher-Yates) of the samples for the node's epoch number `epoch`."""
    words = philox_words(seed, np.arange(-(-n_samples // 4)), epoch, node, SHUFFLE).ravel()[:n_samples]
    bounds = np.arange(1, n_samples + 1).astype(np.uint64)
    others = ((words.astype(np.uint64) * bounds) >> np.uint64(32)).tolist()
    order = list(range(n_samples))
    for last in range(n_samples - 1, 0, -1):
        other = others[last]
        order[last], order[other] = order[other], order[last]
    return np.array(order, np.int64)


def central_epochs(
    feed: Feed, training: TrainingSettings, node: int, update: int, seed: int
) -> Iterator[tuple[int, Iterator[Columns]]]:
    """Yield the number and the batches of each epoch of one update of a node that holds all users' data.

    Samples are the users' own samples for their local update of this number, including negatives, with a
    column ``user``; their order is drawn once per epoch, and a full batch is not shuffled.
    """
    if training.positives_drawn == "by_user":
        feed = feed.with_positives(draw_by_user(feed.positives, generator(seed, "positives-by-user", update)))
    samples = feed.samples_of_all(
        update=training.negatives_update(update), negatives=training.negatives, seed=seed
    )
    n_samples = len(samples["user"])
    for epoch in range(update * training.local_epochs, (update + 1) * training.local_epochs):
        order = np.arange(n_samples)
        if training.batch_size is not None:
            order = generator(seed, "order-of-all", node, epoch).permutation(n_samples)
        yield epoch, _batches(samples, order, training.batch_size or max(n_samples, 1))


def draw_by_user(positives: Ragged, draw: np.random.Generator) -> Ragged:
    """Return as many positives as there are: of users drawn uniformly, each a uniform one, with repetition.

    Each user with positives then counts equally, as in the published code of LightGCN.
    """
    sizes, users = positives.sizes, np.flatnonzero(positives.sizes)
    drawn = np.sort(users[draw.integers(len(users), size=len(positives.values))])
    places = positives.offsets[drawn] + draw.integers(sizes[drawn])
    return Ragged.from_sizes(np.bincount(drawn, minlength=len(positives)), positives.values[places])


def _batches(samples: Columns, order: np.ndarray, size: int) -> Iterator[Columns]:
    for start in range(0, len(order), size):
        yield {name: column[order[start : start + size]] for name, column in samples.items()}


def dp_noise_row(layout: Layout, seed: int, node: int, step: int) -> F32:
    """Return N(0, 1) noise for a node's own user row, the items and the shared weights; zero elsewhere.

    The rows of other users, if nodes hold them, never have a gradient, so noise would hide nothing.

    Returns
    -------
    ndarray of float32, shape (layout.size,)
    """
    own = int(layout.user_index(np.array([node]))[0]) * layout.user_width
    noise = gaussian_noise(seed, node, step, layout.user_width + layout.size - layout.items.start)
    row = np.zeros(layout.size, np.float32)
    row[own : own + layout.user_width] = noise[: layout.user_width]
    row[layout.items.start :] = noise[layout.user_width :]
    return row


NO_LIMIT = 2**31 - 1
"""A number of local updates that no run reaches."""


class TrainingMode(IntEnum):
    """Modes of training, from the cheapest to the most expensive."""

    PLAIN = 0
    WITH_TERMS = 1
    """With terms in the loss."""
    PRIVATE = 2
    """With clipped samples and noise, and possibly terms."""

    @property
    def kernel_name(self) -> str:
        """The name of the mode in kernels."""
        return self.name.lower()


@dataclass(frozen=True)
class NodeSettings:
    """One number per node for each setting that a policy can change; policies write the arrays before a run.

    Compiled loops read them with the models, so a defence costs nothing if it is not used, and a node without one
    takes exactly the steps of a run without policies.

    Attributes
    ----------
    clip_norm : ndarray of float32, shape (n_nodes,)
        C: each sample's gradient is scaled down to Euclidean norm C; 0 disables clipping.
    noise_multiplier : ndarray of float32, shape (n_nodes,)
        sigma: N(0, (sigma C)^2) is added to each number of the summed gradient of a batch; 0 disables it.
    update_clip, update_noise : ndarray of float32, shape (n_nodes,)
        C and sigma of whole local updates: each is scaled down to Euclidean norm C, and N(0, (sigma C)^2) is added to
        each number; 0 disables it.
    most_updates : ndarray of int64, shape (n_nodes,)
        Number of local updates after which the node stops training.
    terms : dict of ItemTerm to ndarray of float32, shape (n_nodes,)
        Factor of each term in each node's loss; 0 without it (:meth:`add_term`). Under DP-SGD terms follow the noise.
    """

    clip_norm: F32
    noise_multiplier: F32
    update_clip: F32
    update_noise: F32
    most_updates: I64
    terms: dict[ItemTerm, F32]

    @classmethod
    def without_policies(cls, n_nodes: int) -> NodeSettings:
        """Return the settings of nodes without policies."""
        return cls(
            clip_norm=np.zeros(n_nodes, np.float32),
            noise_multiplier=np.zeros(n_nodes, np.float32),
            update_clip=np.zeros(n_nodes, np.float32),
            update_noise=np.zeros(n_nodes, np.float32),
            most_updates=np.full(n_nodes, NO_LIMIT, np.int64),
            terms={},
        )

    @classmethod
    def of_model(cls, model: Model, n_nodes: int) -> NodeSettings:
        """Return the settings of nodes without policies, with the terms that the model's loss has at every node."""
        settings = cls.without_policies(n_nodes)
        for term, strength in model.item_terms().items():
            settings.add_term(term, slice(None), strength)
        return settings

    def add_term(self, term: ItemTerm, nodes: I64 | slice, strength: float | F32) -> None:
        """Add a term to the loss of some nodes, times `strength`; the same term twice adds up."""
        factors = self.terms.setdefault(term, np.zeros(len(self.clip_norm), np.float32))
        factors[nodes] += np.float32(strength)

    def terms_of(self, node: int) -> dict[ItemTerm, float]:
        """Return the terms of a node, with their factors."""
        found = {term: float(factors[node]) for term, factors in self.terms.items()}
        return {term: factor for term, factor in found.items() if factor}

    def differs_from(self, other: NodeSettings) -> Bools:
        """Return the nodes that the other settings make train in another way, shape (n_nodes,)."""
        terms = {*self.terms, *other.terms}
        nothing = np.zeros(len(self.clip_norm), np.float32)
        pairs = [(self.terms.get(term, nothing), other.terms.get(term, nothing)) for term in terms]
        pairs += [(getattr(self, each.name), getattr(other, each.name)) for each in fields(self)[:-1]]
        return np.any([one != two for one, two in pairs], axis=0)

    @property
    def strengths(self) -> F32:
        """The factors of all terms, shape (n_nodes, n_terms)."""
        found = np.zeros((len(self.clip_norm), len(self.terms)), np.float32)
        for k, factors in enumerate(self.terms.values()):
            found[:, k] = factors
        return found

    @property
    def training_modes(self) -> I8:
        """The training mode of each node (:class:`TrainingMode`), shape (n_nodes,)."""
        treated = (self.strengths != 0).any(axis=1)
        others = np.where(treated, TrainingMode.WITH_TERMS, TrainingMode.PLAIN)
        return np.where(self.clip_norm > 0, TrainingMode.PRIVATE, others).astype(np.int8)

    @property
    def kernel_names(self) -> frozenset[str]:
        """The kernel names of all modes in use."""
        return frozenset(TrainingMode(kind).kernel_name for kind in np.unique(self.training_modes).tolist())


N_NEGATIVES = 99
FEWEST = 2
"""Number of validation items below which a node does not score models, and merges with equal weights."""


def draw_validation_candidates(split: Split, n_nodes: int, seed: int) -> Ragged:
    """Draw each node's lists for scoring models: a validation item, then the items it is ranked among.

    Returns
    -------
    Ragged of int32, values of shape (n_lists, 1 + n_negatives)
        A node's lists: a validation item, then 99 items outside its training and validation items, or all of
        them and :data:`PADDING` if there are fewer. A node with too few validation items has no list.

    Raises
    ------
    DataError
        If no node has two validation items, or a user leaves no other item.
    """
    counts = np.where(split.validation.sizes >= FEWEST, split.validation.sizes, 0)
    if not counts.any():
        raise DataError(
            f"{split.name}: no user has {FEWEST} validation items, so no node can score received models; use "
            "a split with validation (validation: 2 or more), or use the protocol rand-gossip"
        )
    known = split.train.sizes + split.validation.sizes
    n_negatives = np.minimum(N_NEGATIVES, split.n_items - known)
    judges = np.flatnonzero(counts > 0)
    if n_negatives[judges].min() < 1:
        user = display_name(split.user_names, int(judges[np.argmin(n_negatives[judges])]))
        raise DataError(
            f"{split.name}: user {user} has all {split.n_items} items, so no item is left to rank the "
            "validation items against; remove such users"
        )
    width = int(n_negatives[judges].max())
    lists = [_candidates(split, user, int(n_negatives[user]), width, seed) for user in judges.tolist()]
    sizes = np.zeros(n_nodes, np.int64)
    sizes[: len(counts)] = counts
    return Ragged.from_sizes(sizes, np.concatenate(lists))


def _candidates(split: Split, user: int, n_negatives: int, width: int, seed: int) -> I32:
    """Return a user's validation items with their negatives; unknown to the node, test items may be among them."""
    own, draw = split.validation[user], generator(seed, "validation-candidates", user)
    others = np.setdiff1d(np.arange(split.n_items), np.concatenate([split.train[user], own]))
    keys = draw.random((len(own), len(others)))
    drawn = others[np.argpartition(keys, n_negatives - 1, axis=1)[:, :n_negatives]]
    padding = np.full((len(own), width - n_negatives), PADDING)
    return np.concatenate([own[:, None], drawn, padding], axis=1).astype(np.int32)


def performance_score(scores: F32) -> np.float32:
    """Return HR@20 x NDCG@20 of validation items; `scores` is (n_items, 1 + n_negatives), the item first."""
    ranks = candidate_ranks(scores[:, 0], scores[:, 1:])
    hits = ranks < CUTOFF
    return np.float32(hits.mean() * np.where(hits, discounted_gains(ranks), 0.0).mean())


def own_weight(own: np.float32, received: np.float32) -> np.float32:
    """Return the weight of the own version in a merge by performance; 1 if both versions score 0."""
    total = own + received
    return np.float32(own / total) if total > 0 else np.float32(1.0)
