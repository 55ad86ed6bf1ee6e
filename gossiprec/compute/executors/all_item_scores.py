"""Scores of all items for many users, computed in torch in shapes that do not depend on the set of users."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gossiprec.base.arrays import F32, I32
from gossiprec.base.machine import ThreadPool
from gossiprec.compute.executors.tensors import Tensors, table_views
from gossiprec.compute.store.base import ScoringView
from gossiprec.models.base.model import Model
from gossiprec.models.base.sequence_model import SequenceModel
from gossiprec.numerics.torch_setup import single_torch_thread

AT_ONCE = 64
"""Number of histories scored together; a short last block repeats its last user."""


@dataclass(frozen=True)
class AllItemScorer:
    """A scorer of all items for many users, by the formula of a model.

    Attributes
    ----------
    model : Model
    constants : dict of str to Tensor
    put : callable
        Function that moves an array to the device of torch.
    """

    model: Model
    constants: Tensors
    put: Callable[[Any], Tensor]

    def user_by_user(self, models: ScoringView, threads: ThreadPool) -> F32 | None:
        """Return scores of shape (n_models, n_items), or None if the model cannot score all items of a user."""
        rows = np.zeros(len(models.row), np.int64) if models.together else models.row
        with torch.no_grad(), single_torch_thread():
            first = self.model.score_all_items(self._p(models, rows[0])) if len(rows) else None
        if first is None:
            return None
        found = np.empty((len(rows), models.layout.n_items), np.float32)

        def score_some(part: int) -> None:
            some = sorted(threads.part_range(len(found), part), key=rows.__getitem__)
            with torch.no_grad(), single_torch_thread():
                for row, places in itertools.groupby(some, rows.__getitem__):
                    score = first if row == rows[0] else self.model.score_all_items(self._p(models, row))
                    assert score is not None  # the model could for the first row
                    for place in places:
                        found[place] = score(self.put(models.user[place : place + 1])).cpu().numpy()

        threads.run(score_some)
        return found

    def after(self, models: ScoringView, history: I32, threads: ThreadPool) -> F32:
        """Return the scores by one version for users with histories, shape (n_models, n_items)."""
        model, found = self.model, np.empty((len(models.row), models.layout.n_items), np.float32)
        assert isinstance(model, SequenceModel)  # no other feed has histories
        p = self._p(models, 0)

        def score_some(part: int) -> None:
            with torch.no_grad(), single_torch_thread():
                for block in threads.part_range(-(-len(found) // AT_ONCE), part):
                    places = block * AT_ONCE + np.arange(AT_ONCE)
                    known = np.minimum(places, len(found) - 1)
                    scores = model.scores_after(p, self.put(history[known]), self.put(models.user[known]))
                    some = places[places < len(found)]
                    found[some] = scores.cpu().numpy()[: len(some)]

        threads.run(score_some)
        return found

    def _p(self, models: ScoringView, row: int) -> Tensors:
        """Return the blocks of one version, and the constants."""
        version = models.rows[row, : models.layout.size].astype(np.float32, copy=False)
        tables = table_views(models.layout, self.put(version))
        return models.layout.named(tables) | self.constants
