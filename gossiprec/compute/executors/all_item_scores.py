"""Scores of all items for many users by formulas in torch: no shape depends on who is asked for beside whom."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gossiprec.arrays import F32, I32
from gossiprec.compute.executors.tensors import Tensors, table_views
from gossiprec.compute.store.base import ScoringView
from gossiprec.compute.thread_pool import ThreadPool
from gossiprec.models.base.model import Model
from gossiprec.models.base.sequence_model import SequenceModel
from gossiprec.numerics.torch_threads import single_torch_thread

AT_ONCE = 64
"""Users whose histories are looked at together: always so many, the last ones more than once."""


@dataclass(frozen=True)
class AllItemScorer:
    """What scores all items.

    Attributes
    ----------
    model : Model
    constants : dict of str to Tensor
    put : callable
        Moves an array to where torch computes.
    """

    model: Model
    constants: Tensors
    put: Callable[[Any], Tensor]

    def user_by_user(self, models: ScoringView, threads: ThreadPool) -> F32 | None:
        """Return scores of shape (n_models, n_items), if the model says how to find a user's; or None."""
        rows = np.zeros(len(models.row), np.int64) if models.together else models.row
        with torch.no_grad(), single_torch_thread():
            first = self.model.all_items(self._p(models, rows[0])) if len(rows) else None
        if first is None:
            return None
        found = np.empty((len(rows), models.layout.n_items), np.float32)

        def score_some(part: int) -> None:
            some = sorted(threads.share(len(found), part), key=rows.__getitem__)
            with torch.no_grad(), single_torch_thread():
                for row, places in itertools.groupby(some, rows.__getitem__):
                    score = first if row == rows[0] else self.model.all_items(self._p(models, row))
                    assert score is not None  # the model has said how
                    for place in places:
                        found[place] = score(self.put(models.user[place : place + 1])).cpu().numpy()

        threads.run(score_some)
        return found

    def after(self, models: ScoringView, history: I32, threads: ThreadPool) -> F32:
        """Return the same by one version, of users with a history each, shape (n_models, length)."""
        model, found = self.model, np.empty((len(models.row), models.layout.n_items), np.float32)
        assert isinstance(model, SequenceModel)  # no other feed has histories
        p = self._p(models, 0)

        def score_some(part: int) -> None:
            with torch.no_grad(), single_torch_thread():
                for block in threads.share(-(-len(found) // AT_ONCE), part):
                    places = block * AT_ONCE + np.arange(AT_ONCE)
                    known = np.minimum(places, len(found) - 1)
                    scores = model.scores_after(p, self.put(history[known]), self.put(models.user[known]))
                    some = places[places < len(found)]
                    found[some] = scores.cpu().numpy()[: len(some)]

        threads.run(score_some)
        return found

    def _p(self, models: ScoringView, row: int) -> Tensors:
        """Return the blocks of one of the versions, and the constants."""
        version = models.rows[row, : models.layout.size].astype(np.float32, copy=False)
        tables = table_views(models.layout, self.put(version))
        return models.layout.named(tables) | self.constants
