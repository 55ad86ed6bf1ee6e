"""The model that the coordinator trains itself on users' contributions: all users' rows, items and weights.

References
----------
The PDC-FRS paper (specification, section 4). Silent in the paper: batches, and passes before each round.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from gossiprec.base.arrays import F32, F64, I32
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import generator
from gossiprec.models.base import Model
from gossiprec.models.feeds import PointwiseFeed
from gossiprec.numerics.torch_setup import single_torch_thread
from gossiprec.runs.checkpoint_state import Stateful


class AuxiliaryModel(Stateful):
    """A model of the run's own kind on contributed sets, trained in batches by Adam with lasting moments.

    Parameters
    ----------
    model : Model
        A model that gives probabilities.
    sets : Ragged of int32, one row a user
    n_items, negatives : int
        Negatives of each item are drawn again in each pass, among the items that are not in the user's set.
    batch : int
        Samples per step.
    rate : float
    seed : int
    """

    checkpointed = ("values", "first", "second", "steps")

    def __init__(
        self, model: Model, sets: Ragged, *, n_items: int, negatives: int, batch: int, rate: float, seed: int
    ) -> None:
        self._model, self._sets, self._seed = model, sets, seed
        self._negatives, self._batch, self._rate = negatives, batch, rate
        self._layout = model.layout(n_items, len(sets))
        self._feed = PointwiseFeed(sets, n_items)
        draw = generator(seed, "auxiliary-model")
        rows = [self._layout.initial_user(draw) for _ in range(len(sets))]
        self._values: F32 = np.concatenate([*rows, self._layout.initial_common(draw)])
        self._first, self._second = (np.zeros_like(self._values) for _ in range(2))
        self._steps = 0

    def train(self, epoch: int) -> None:
        """Train for one pass over all sets, with the order and the negatives drawn for this pass."""
        import torch

        from gossiprec.numerics.torch_setup import make_adam

        drawn = self._feed.samples_of_all(update=epoch, negatives=self._negatives, seed=self._seed)
        samples = {name: torch.from_numpy(column) for name, column in drawn.items()}
        order = generator(self._seed, "auxiliary-order", 0, epoch).permutation(len(drawn["user"]))
        with single_torch_thread():
            values, first, second = map(self._tables, (self._values, self._first, self._second))
            tables = {name: torch.nn.Parameter(table) for name, table in values.items()}
            adam = make_adam(tables.values(), lr=self._rate, fused=True)
            for name, table in tables.items():
                step = torch.tensor(float(self._steps))
                adam.state[table] = {"step": step, "exp_avg": first[name], "exp_avg_sq": second[name]}
            for begin in range(0, len(order), self._batch):
                some = torch.from_numpy(order[begin : begin + self._batch])
                batch = {name: column[some] for name, column in samples.items()}
                batch = {**batch, "user": batch["user"].long(), "items": batch["items"].long()}
                batch["weights"] = torch.ones(len(some))
                adam.zero_grad()
                torch.autograd.backward(self._model.loss(self._layout.named(tables), batch))
                adam.step()
                self._steps += 1

    def _tables(self, row: F32) -> dict[str, Any]:
        """Return the tensors that a row consists of, as views."""
        import torch

        shapes = self._layout.tables
        parts = torch.split(torch.from_numpy(row), [int(np.prod(shape)) for shape in shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore copies of the state that :meth:`state` returned: training writes into them."""
        super().restore({name: copy.copy(value) for name, value in state.items()})

    @property
    def users(self) -> F32:
        """Users' rows, shape (n_users, user_width); a view."""
        return self._values[self._layout.users].reshape(len(self._sets), -1)

    @property
    def items(self) -> F32:
        """Items' rows, shape (n_items, item_width); a view."""
        return self._values[self._layout.items].reshape(self._layout.n_items, -1)

    def best(self, number: int) -> tuple[I32, F32]:
        """Return each user's items of highest probability, ascending by item, and the probabilities, (n_users, number).

        On ties the lower id wins.
        """
        found = np.empty((len(self._sets), number), np.int32)
        likely = np.empty((len(self._sets), number), np.float32)
        for user, scores in enumerate(self.scores()):
            chosen = np.sort(np.argsort(-scores, kind="stable")[:number])
            found[user] = chosen
            likely[user] = 1.0 / (1.0 + np.exp(-scores[chosen].astype(np.float64)))
        return found, likely

    def scores(self) -> Any:
        """Yield the scores of all items, float32, user after user."""
        import torch

        everything = torch.arange(self._layout.n_items)
        with torch.no_grad(), single_torch_thread():
            p = self._layout.named(self._tables(self._values))
            of_user = self._model.score_all_items(p)
            for user in range(len(self._sets)):
                one = torch.tensor([user])
                yield (
                    self._model.score(p, {"user": one, "items": everything})
                    if of_user is None
                    else of_user(one)
                ).numpy()


def normalise_rows(rows: F32) -> F64:
    """Return the rows scaled to Euclidean norm 1; rows of zeros stay zero."""
    from gossiprec.models.base.contrastive import TINY

    wide = rows.astype(np.float64)
    return np.asarray(wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), TINY))
