"""The coordinator's part of CL4FedRec: synthetic users, and the popularity regulariser.

References
----------
The CL4FedRec paper (specification, section 3.2). Synthetic users: eq. 5; left open are the initial distribution (the
model's own), the optimizer (Adam, warm-started from the epoch before) and the negatives (four per item, drawn in each
epoch). Regulariser: eq. 14; left open are the number of other items (256, drawn again for each step among those that
are not hot) and the optimizer (Adam, reset in each epoch).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from gossiprec.base.arrays import F32, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.rng import generator
from gossiprec.federated.coordinator_hook import CoordinatorContext
from gossiprec.models.base.contrastive import normalise_embeddings

NEGATIVES = 4


class SyntheticUsers:
    """Rows of users that do not exist.

    Parameters
    ----------
    known : CoordinatorContext
    number, items : int
        Number of synthetic users, and number of items of each; the items stay for the run.
    by : {'popularity', 'uniform'}
        Distribution of the items, drawn without repetition.
    steps : int
        Adam steps per refresh; with 0 the rows keep their initial values.
    rate : float

    Attributes
    ----------
    users : ndarray of float32, shape (number, user_width)
    items : ndarray of int64, shape (number, items)

    Raises
    ------
    ScenarioError
        If there are fewer than `items` items.
    """

    def __init__(
        self,
        known: CoordinatorContext,
        *,
        number: int,
        items: int,
        by: Literal["popularity", "uniform"],
        steps: int,
        rate: float,
    ) -> None:
        self._known, self._steps, self._rate = known, steps, rate
        layout = known.layout
        weights = known.popularity.astype(np.float64) if by == "popularity" else np.ones(layout.n_items)
        there = int(np.count_nonzero(weights))
        if items > there or items + 1 > layout.n_items:
            raise ScenarioError(
                f"recommender: synthetic_items is {items}, but there are {there} items to draw from among "
                f"{layout.n_items}; lower it"
            )
        draws = [generator(known.seed, "synthetic-user", user) for user in range(number)]
        self.users: F32 = np.stack([layout.initial_user(draw) for draw in draws])
        share = weights / weights.sum()
        self.items: I64 = np.stack(
            [draw.choice(layout.n_items, items, replace=False, p=share) for draw in draws]
        )

    def refresh(self, version: F32, epoch: int) -> None:
        """Fit the rows to their items, with the version's items and weights frozen."""
        if not self._steps:
            return
        import torch
        from torch.func import vmap

        from gossiprec.numerics.torch_setup import make_adam

        known, n = self._known, len(self.users)
        frozen = known.layout.version_tables(torch.from_numpy(version.copy()))
        asked = np.stack([self._samples(user, epoch) for user in range(n)])
        labels = np.zeros(asked.shape, np.float32)
        labels[:, :: NEGATIVES + 1] = 1.0
        batch = {"items": torch.from_numpy(asked), "labels": torch.from_numpy(labels)}
        batch["weights"] = torch.ones_like(batch["labels"])
        batch["user"] = torch.zeros((n, 1), dtype=torch.int64)
        rows = torch.from_numpy(self.users.copy()).requires_grad_()

        def loss(row: torch.Tensor, own: dict[str, torch.Tensor]) -> torch.Tensor:
            return known.model.loss({**frozen, "users": row[None]}, own)

        adam = make_adam([rows], lr=self._rate, foreach=False)
        for _ in range(self._steps):
            adam.zero_grad()
            torch.autograd.backward(vmap(loss)(rows, batch).sum())
            adam.step()
        self.users[:] = rows.detach().numpy()

    def _samples(self, user: int, epoch: int) -> I64:
        """Return each item of a synthetic user followed by its negatives."""
        own, draw = self.items[user], generator(self._known.seed, "synthetic-negatives", user, epoch)
        others = np.setdiff1d(np.arange(self._known.layout.n_items), own)
        negatives = others[draw.integers(len(others), size=(len(own), NEGATIVES))]
        return np.concatenate([own[:, None], negatives], axis=1).ravel()


class PopularityRegulariser:
    """Adam's steps on the sum, over hot items, of the log of their nearness to others.

    Parameters
    ----------
    known : CoordinatorContext
    hot : int
        Number of hot items: those with the most training interactions, on ties the lower id.
    sub : int
        Number of other items that are drawn for each step.
    steps : int
    rate, temperature : float

    Raises
    ------
    ScenarioError
        If there are too few items, or all are equally popular.
    """

    def __init__(
        self, known: CoordinatorContext, *, hot: int, sub: int, steps: int, rate: float, temperature: float
    ) -> None:
        n_items, popularity = known.layout.n_items, known.popularity
        if hot + sub > n_items:
            raise ScenarioError(
                f"recommender: hot_items {hot} and sub_items {sub} are more than the {n_items} items; lower them"
            )
        if popularity.min() == popularity.max():
            raise ScenarioError(
                f"recommender: the regulariser spreads out popular items, but all {n_items} items have "
                f"{popularity.min()} interactions; use cl4fedrec"
            )
        self._known, self._steps, self._rate, self._temperature = known, steps, rate, temperature
        order = np.argsort(-popularity, kind="stable")
        self.hot: I64 = np.sort(order[:hot])
        self._others, self._sub = np.sort(order[hot:]), sub

    def applied(self, version: F32, epoch: int) -> F32:
        """Return a version ``[items | shared]`` after the steps at the end of an epoch."""
        import torch

        from gossiprec.numerics.torch_setup import make_adam

        layout, draw = self._known.layout, generator(self._known.seed, "regulariser", 0, epoch)
        width = layout.n_items * layout.item_width
        found = version.copy()
        items = torch.from_numpy(found[:width].reshape(layout.n_items, -1)).requires_grad_()
        adam = make_adam([items], lr=self._rate, foreach=False)
        for _ in range(self._steps):
            sub = draw.choice(self._others, self._sub, replace=False)
            adam.zero_grad()
            near = (
                normalise_embeddings(items[torch.from_numpy(self.hot)])
                @ normalise_embeddings(items[torch.from_numpy(sub)]).T
            )
            torch.autograd.backward(torch.logsumexp(near / self._temperature, dim=1).sum())
            adam.step()
        found[:width] = items.detach().numpy().ravel()
        return found
