"""Public users: a coordinator computes local updates, losses, gradients and scores on their data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gossiprec.base.arrays import F32, I32, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.isolation import CallOnly
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import generator
from gossiprec.compute.scorer import Scorer
from gossiprec.models.base.kernel_interface import ScoreQuery
from gossiprec.models.feeds.base import Feed
from gossiprec.rules import ROOT_SOURCES, RootData, RootDataOptions, mean_of


def _has_public_item(options: RootDataOptions, items: I32) -> bool:
    return bool(len(items) if options.items is None else np.isin(items, options.items).any())


@ROOT_SOURCES.register("public-users")
class PublicUsers:
    """The public interactions of some users, each as the feed of a node 0.

    Parameters
    ----------
    scorer : Scorer
    feed : Feed
        The run's feed, of which only public interactions are kept.
    users : ndarray of int64
        The numbers of the public users.
    options : RootDataOptions
    seed : int
    """

    def __init__(self, scorer: Scorer, feed: Feed, users: I64, options: RootDataOptions, seed: int) -> None:
        self._scorer, self._seed = scorer, seed
        self._layout = replace(scorer.layout, n_users=1)
        self._users = users.tolist()
        self._feeds = [_public_feed(feed, user, options) for user in self._users]
        self._private = [
            self._layout.initial_private(generator(seed, "root-private", user)) for user in self._users
        ]

    @staticmethod
    def choose(options: RootDataOptions, training_items: Ragged, seed: int, key: str) -> I64:
        """Return the numbers of the public users, ascending.

        Parameters
        ----------
        options : RootDataOptions
        training_items : Ragged of int32
            The training items of each user.
        seed : int
        key : str
            Where the scenario names the rule, for messages.

        Raises
        ------
        ScenarioError
            If a user or an item does not exist, or a public user has no public interaction.
        """
        n_users = len(training_items)
        if isinstance(options.users, int):
            known = np.array([_has_public_item(options, training_items[user]) for user in range(n_users)])
            if known.sum() < options.users:
                raise ScenarioError(
                    f"{key}: found root.users {options.users}, but only {known.sum()} of {n_users} users have a "
                    "public training item; expected no more public users than that; lower root.users, or make more "
                    "items public"
                )
            order = generator(seed, "root-users").permutation(np.flatnonzero(known))
            return np.sort(order[: options.users])
        users = np.unique(np.array(options.users, np.int64))
        if users[-1] >= n_users:
            raise ScenarioError(
                f"{key}: found the public user {users[-1]} in root.users; expected numbers from 0 to {n_users - 1}; "
                "remove it"
            )
        without = [user for user in users.tolist() if not _has_public_item(options, training_items[user])]
        if without:
            raise ScenarioError(
                f"{key}: the public user {without[0]} has no public training item; remove it from root.users, or "
                "add an item of this user to root.items"
            )
        return users

    def root_data(self, *, copies: bool) -> RootData:
        """Return the functions on the data; with `copies` no data of the run can be reached through them."""
        functions: tuple[Any, ...] = (self.train, self.loss, self.gradient, self.scores)
        first = [self._layout.initial_user(generator(self._seed, "root-user", user)) for user in self._users]
        return RootData(
            np.array(self._users),
            np.stack(first),
            *(CallOnly(each) if copies else each for each in functions),
        )

    def train(self, model: F32, rows: F32, number: int) -> tuple[F32, F32]:
        """Return the mean of the models after a local update of each user, and their rows."""
        models, users = [], []
        for place, user in enumerate(self._users):
            seed = int(generator(self._seed, "root-update", user, number).integers(2**63))
            start = self._row(model, rows, place)
            found = self._scorer.train_like_node(
                self._feeds[place], start, updates=1, seed=seed, as_uploaded=True
            )
            models.append(found[self._layout.merged])
            users.append(found[self._layout.users])
        return mean_of(models), np.stack(users)

    def loss(self, model: F32, rows: F32, number: int) -> float:
        """Return the mean of the users' losses."""
        return float(
            np.mean([self._loss(model, rows, number, place)[0] for place in range(len(self._users))])
        )

    def gradient(self, model: F32, rows: F32, number: int) -> F32:
        """Return the derivative of the mean loss with respect to the model."""
        return mean_of([self._loss(model, rows, number, place)[1] for place in range(len(self._users))])

    def scores(self, model: F32, rows: F32) -> F32:
        """Return the scores of all items; contexts are unknown.

        Raises
        ------
        ScenarioError
            If the model needs the histories of users to score.
        """
        n_users, n_items = len(self._users), self._layout.n_items
        if not self._layout.user_width:
            raise ScenarioError(
                "root data: the model scores by histories; use loss or gradient of the root data"
            )
        query = ScoreQuery(
            self._layout, np.stack([self._row(model, rows, place) for place in range(n_users)]), np.arange(n_users),
            np.zeros(n_users, np.int64), np.arange(n_users + 1) * n_items,
            np.tile(np.arange(n_items, dtype=np.int32), n_users),
        )  # fmt: skip
        return self._scorer.score(query).reshape(n_users, n_items)

    def _row(self, model: F32, rows: F32, place: int) -> F32:
        """Return the model of a public user, shape (row_size,)."""
        row = np.zeros(self._layout.row_size, np.float32)
        row[self._layout.merged], row[self._layout.users] = model, rows[place]
        row[self._layout.private] = self._private[place]
        return row

    def _loss(self, model: F32, rows: F32, number: int, place: int) -> tuple[float, F32]:
        """Return a user's loss, and its derivative with respect to the model."""
        import torch

        from gossiprec.compute.executors.tensors import loss_of_samples, table_views
        from gossiprec.numerics.torch_setup import single_torch_thread

        seed = int(generator(self._seed, "root-samples", self._users[place], number).integers(2**63))
        negatives = self._scorer.training.negatives
        samples = self._feeds[place].samples(0, update=0, negatives=negatives, seed=seed)
        row = torch.from_numpy(self._row(model, rows, place)).requires_grad_()
        with single_torch_thread():
            loss = loss_of_samples(self._scorer.model, self._layout, table_views(self._layout, row), samples)
            (found,) = torch.autograd.grad(loss, row)
        return float(loss.detach()), found.numpy()[self._layout.merged]


def _public_feed(feed: Feed, user: int, options: RootDataOptions) -> Feed:
    if options.items is None:
        return feed.for_user(user)
    history = feed.history(user)
    return feed.for_items(history[np.isin(history, options.items)])
