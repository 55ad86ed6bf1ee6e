"""Gradient-based attribute inference as a community proxy: which updates look trained on the adversary's items.

The coordinator trains shadow models on samples of the adversary's items and on samples of other items, and a
classifier that separates their updates. It then ranks the clients by the classifier's score of their updates.

References
----------
arXiv 2306.08929, Algorithm 6.

Notes
-----
The paper gives none of the numbers. Here: 100 models of each kind, on samples of 50-100 % of the size of the target
set; the clients' own recipe, from the coordinator's model of the first observed round; the feature is the item part of
``(theta - theta_global) / learning rate`` at Euclidean norm 1 (so the rate cancels, and the amount of training does
not count); a network 256-64-1 with ReLU, trained for 50 epochs by Adam at 1e-3 in batches of 32. There is no
momentum: a gradient belongs to one round.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from gossiprec.adversaries.attacks import (
    ATTACKS,
    Attack,
    AttackContext,
    AttackMemoryInputs,
    ModelScorer,
    Ranking,
)
from gossiprec.adversaries.attacks.findings import TableKey, as_unique_list
from gossiprec.adversaries.attacks.observations import Observations
from gossiprec.adversaries.attacks.scoring_attack import Ids, Size, Sizes, large_communities
from gossiprec.base.arrays import F32, I32, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import LARGEST, Options, Problem
from gossiprec.base.rng import generator
from gossiprec.models import Layout
from gossiprec.models.feeds.base import Feed
from gossiprec.numerics.torch_setup import single_torch_thread

if TYPE_CHECKING:
    import torch


WIDTHS = (256, 64)
BATCH = 32
RATE = 1e-3


def shadow_features(
    scorer: ModelScorer,
    feed: Feed,
    common: F32,
    own: I32,
    others: I32,
    *,
    models: int,
    draw: np.random.Generator,
) -> tuple[F32, F32]:
    """Train models on samples of the own items and on samples of the others, and return their updates.

    Parameters
    ----------
    scorer : ModelScorer
    feed : Feed
        A feed of the kind that the model learns from.
    common : ndarray of float32
        Item tables and shared weights to start from; each model has a new user row, as a client has.
    own, others : ndarray of int32
    models : int
        Number of models of each kind.

    Returns
    -------
    features : ndarray of float32, shape (2 * models, n_items * item_width)
        Item gradients at norm 1.
    labels : ndarray of float32, shape (2 * models,)
        1 for samples of the own items.
    """
    layout = replace(scorer.layout, n_users=1)
    features = np.zeros((2 * models, layout.n_items * layout.item_width), np.float32)
    for place in range(2 * models):
        size = max(1, round(draw.uniform(0.5, 1.0) * len(own)))
        source = own if place < models else others
        sample = draw.choice(source, min(size, len(source)), replace=False)
        start = np.concatenate([layout.initial_user(draw), common])
        trained = scorer.train_like_node(
            feed.for_items(sample), start, updates=1, seed=int(draw.integers(2**62))
        )
        features[place] = trained[layout.items] - start[layout.items]
    labels = np.repeat(np.array([1.0, 0.0], np.float32), models)
    return normalise_rows(features), labels


def normalise_rows(rows: F32) -> F32:
    """Return the rows scaled to Euclidean norm 1; a row of zeros stays zero."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0))


def train_update_classifier(
    features: F32, labels: F32, *, epochs: int, draw: np.random.Generator
) -> torch.nn.Module:
    """Train a classifier of updates on one torch thread; `draw` gives its first weights and its batches."""
    import torch

    from gossiprec.numerics.torch_setup import make_adam

    weights: list[F32] = []
    for inputs, outputs in itertools.pairwise((features.shape[1], *WIDTHS, 1)):
        # torch's own distribution, from our draws: torch's generator belongs to the process
        bound = 1.0 / np.sqrt(inputs)
        for shape in ((outputs, inputs), (outputs,)):
            weights.append(draw.uniform(-bound, bound, shape).astype(np.float32))
    network = build_network(weights)
    inputs_, wanted = torch.from_numpy(features), torch.from_numpy(labels)
    with single_torch_thread():
        adam = make_adam(network.parameters(), lr=RATE, foreach=False)
        for _ in range(epochs):
            for batch in torch.split(torch.from_numpy(draw.permutation(len(labels))), BATCH):
                adam.zero_grad()
                loss = torch.nn.functional.binary_cross_entropy_with_logits(
                    network(inputs_[batch])[:, 0], wanted[batch]
                )
                torch.autograd.backward(loss)
                adam.step()
    return network


def build_network(weights: Sequence[F32]) -> torch.nn.Module:
    """Return the network with these weights, per layer the matrix and the offsets. It shares their memory."""
    import torch

    layers: list[torch.nn.Module] = []
    for matrix, offsets in zip(weights[::2], weights[1::2], strict=True):
        linear = torch.nn.Linear(matrix.shape[1], matrix.shape[0])
        linear.weight.data, linear.bias.data = torch.from_numpy(matrix), torch.from_numpy(offsets)
        layers += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def classifier_logits(network: torch.nn.Module, features: F32) -> F32:
    """Return the classifier's logits; an update with a NaN comes last."""
    import torch

    with torch.no_grad(), single_torch_thread():
        logits: F32 = network(torch.from_numpy(features))[:, 0].numpy()
    return np.where(np.isnan(logits), -np.inf, logits).astype(np.float32)


BLOCK = 64
"""Number of clients that are scored together. It is constant, because the order of summation may depend on it."""

_STATE = ("seen", "changed", "features", "latest")
"""Arrays that change during a run."""


class AIAOptions(Options):
    """Options of the attack."""

    adversaries: Annotated[int, Field(ge=1, le=LARGEST)] | Ids = 1
    """number of users to attack, drawn at random; or a list of their ids"""
    community_size: Size | Sizes = 50
    """K"""
    models: Annotated[int, Field(ge=2, le=LARGEST)] = 100
    """number of models trained on samples of the target items, and of models trained on other items"""
    epochs: Annotated[int, Field(ge=1, le=LARGEST)] = 50
    """epochs of the classifier"""

    def check_sizes(self, n_users: int, n_items: int) -> Iterator[Problem]:
        """Yield communities that are too large."""
        return large_communities(self.community_size, n_users)


def _bytes(layout: Layout, n_users: int, n_adversaries: int) -> int:
    """Return the bytes of all clients' item gradients, of the scores, and of the classifiers with their moments."""
    width = layout.n_items * layout.item_width
    return 4 * n_users * width + 4 * n_adversaries * n_users + 4 * 4 * WIDTHS[0] * width * n_adversaries


@ATTACKS.register("aia")
class AIA(Attack):
    """Attribute inference by the coordinator of a federated run, from the items that an update was trained on.

    Notes
    -----
    A round begins when the coordinator merges its first answer: this answer replaces the model that the coordinator had
    sent. A whole model that arrives after the next model was sent is compared with the next one; an update is compared
    with the version that it was computed from.
    """

    Options = AIAOptions
    uses_torch = True
    options: AIAOptions

    def __init__(self, options: AIAOptions, context: AttackContext) -> None:
        super().__init__(options, context)
        context.check_plain_samples("aia")
        if context.coordinator is None:
            raise ScenarioError("observers: aia requires a protocol with a coordinator, such as fedavg")
        self._adversaries = self._chosen()
        self._feed = context.feed_of_nodes(self._adversaries)
        self._check_targets()
        self._sent: F32 | None = None
        self._networks: list[torch.nn.Module] = []
        layout = context.scorer.layout
        self._seen = np.zeros(context.n_users, np.bool_)
        self._changed = np.zeros(context.n_users, np.bool_)
        self._features = np.zeros((context.n_users, layout.n_items * layout.item_width), np.float32)
        self._latest = np.full((len(self._adversaries), context.n_users), np.nan, np.float32)

    @classmethod
    def table_keys(cls, options: AIAOptions) -> frozenset[TableKey]:
        """Return the keys of its table rows, one for each community size."""
        return frozenset(("coordinator", "aia", 0.0, size) for size in as_unique_list(options.community_size))

    def _chosen(self) -> I64:
        """Return the adversaries' ids; a larger number of adversaries includes each smaller choice."""
        chosen, n_users = self.options.adversaries, self.context.n_users
        if not isinstance(chosen, int):
            ids = np.unique(chosen)
            if ids[-1] >= n_users:
                raise ScenarioError(
                    f"observers: aia: adversaries names user {ids[-1]}, but the last is {n_users - 1}"
                )
            return ids.astype(np.int64)
        order = generator(self.context.seed, "aia-adversaries").permutation(n_users)
        order = order[~np.isin(order, self.context.without_data)]
        if chosen > len(order):
            raise ScenarioError(
                f"observers: aia: adversaries is {chosen}, but there are only {len(order)} users"
            )
        return np.sort(order[:chosen])

    def _check_targets(self) -> None:
        n_items = self.context.scorer.layout.n_items
        for user in self._adversaries.tolist():
            n = len(self._feed.positives[user])
            if not 1 < n < n_items - 1:
                raise ScenarioError(
                    f"observers: aia: user {user} has {n} of {n_items} items; training needs at least two "
                    "items of the user and two others; choose other adversaries"
                )

    @property
    def label(self) -> str:
        """The attack and its observer."""
        return "aia-coordinator"

    @property
    def nodes(self) -> I64:
        """The coordinator, which sees the models that it merges."""
        return np.array([self.context.coordinator])

    def state(self, now: float) -> dict[str, Any]:
        """Return the latest gradients and scores, the model sent, and the classifiers' weights."""
        networks = [[p.detach().numpy() for p in network.parameters()] for network in self._networks]
        arrays = {name: getattr(self, f"_{name}") for name in _STATE}
        return {"sent": self._sent, "networks": networks, **arrays}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the gradients, scores, sent model and classifiers that :meth:`state` returned."""
        for name in _STATE:
            setattr(self, f"_{name}", state[name])
        self._sent = state["sent"]
        self._networks = [build_network(weights) for weights in state["networks"]]

    @property
    def state_bytes(self) -> int:
        """Memory of the clients' latest gradients and of the classifiers with their optimizers' state."""
        return _bytes(self.context.scorer.layout, self.context.n_users, len(self._adversaries))

    @classmethod
    def expected_bytes(cls, options: AIAOptions, prospect: AttackMemoryInputs) -> float:
        """Return the memory that :attr:`state_bytes` will report, computed from sizes."""
        chosen = options.adversaries
        n_adversaries = chosen if isinstance(chosen, int) else prospect.count_nodes(chosen)
        return float(_bytes(prospect.layout, prospect.n_users, n_adversaries))

    def observe(self, seen: Observations) -> None:
        """Read the clients' answers, and before the first one of a round the model that was sent."""
        items, senders, begins = self.context.scorer.layout.items, seen.senders, seen.begins_round
        for k in range(len(seen)):
            if begins[k]:
                self._begin_round(seen.own_model(k))
            if senders[k] >= self.context.n_users:
                continue  # the version sent last, of which the new one keeps a share; or a poisoner's
            if self._sent is None:
                continue  # a client without data arrived first: its weight is 0, and it begins no round
            answer, base = seen.models(slice(k, k + 1))[0], seen.base(k)
            self._features[senders[k]] = answer[items] - (self._sent if base is None else base[items])
            self._seen[senders[k]] = self._changed[senders[k]] = True

    def _begin_round(self, sent: F32) -> None:
        scorer, first = self.context.scorer, self._sent is None
        layout = scorer.layout
        self._sent = sent[layout.items].copy()
        if not first:
            return
        common = sent[layout.items.start : layout.shared.stop]
        for node in self._adversaries.tolist():
            own = self._feed.positives[node]
            others = np.setdiff1d(np.arange(layout.n_items, dtype=np.int32), own, assume_unique=True)
            draw = generator(self.context.seed, "aia", node)
            features, labels = shadow_features(
                scorer, self._feed, common, own, others, models=self.options.models, draw=draw
            )
            self._networks.append(
                train_update_classifier(features, labels, epochs=self.options.epochs, draw=draw)
            )

    def rankings(self) -> list[Ranking]:
        """Rank the clients by the classifier's score of each one's latest gradient."""
        blocks = np.unique(np.flatnonzero(self._changed) // BLOCK)
        for a, network in enumerate(self._networks):
            for low in (blocks * BLOCK).tolist():
                some = slice(low, low + BLOCK)
                sure = classifier_logits(network, normalise_rows(self._features[some]))
                self._latest[a, some] = np.where(self._seen[some], sure, np.nan)
        self._changed[:] = False
        self._latest[np.arange(len(self._adversaries)), self._adversaries] = np.nan
        sizes: tuple[Any, ...] = tuple(as_unique_list(self.options.community_size))
        return [Ranking("coordinator", "aia", 0.0, sizes, self._adversaries, self._latest)]
