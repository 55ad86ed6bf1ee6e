"""What metrics that rank all items look at, out of the scores of all items."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gossiprec.arrays import F32, I32, I64, Bools
from gossiprec.data.split import Split
from gossiprec.measures.base import RelevantRanks, TargetRanks, TopItems, ValidationRanks
from gossiprec.measures.full_ranking import relevant_ranks, target_ranks, top_items
from gossiprec.measures.metric import Metric
from gossiprec.ragged import Ragged


class WholeLists:
    """Ranks items for users, each item that the user has not in the masked parts.

    Parameters
    ----------
    split : Split
    metrics : sequence of Metric
        Those that rank all items.
    targets : ndarray of int64, shape (n_targets,)
        Target items; to have one in a list counts for those who have it in no part of the split.
    masked : sequence of str
        Parts of the split whose items are recommended to nobody who has them. Where validation items are relevant,
        that is the training part alone.

    Attributes
    ----------
    users : ndarray of int64, shape (n,)
        Whose lists are wanted: those of users with relevant items, or all.
    kinds : set of type
        What is seen of them.
    """

    def __init__(
        self, split: Split, metrics: Sequence[Metric], targets: I64, masked: Sequence[str] = ("train",)
    ) -> None:
        self._split = split
        self._masked: list[Ragged] = [getattr(split, part) for part in masked]
        self.kinds = {metric.looks_at for metric in metrics}
        self._length = {seen: max(m.k for m in metrics if m.looks_at is seen) for seen in self.kinds}
        self._targets = targets
        relevant = {RelevantRanks: split.test, ValidationRanks: split.validation}
        counts = [part.sizes for seen, part in relevant.items() if seen in self.kinds]
        some = np.flatnonzero(sum(counts, np.zeros(split.n_users, np.int64)))
        self.users = np.arange(split.n_users) if self.kinds - relevant.keys() else some

    def seen(self, blocks: Iterable[tuple[I64, F32]]) -> dict[type[Any], list[Any]]:
        """Return what each kind of metric wants to see; of relevant items in parts, users in order.

        Parameters
        ----------
        blocks : iterable of (users, scores)
            Some of :attr:`users` and their scores of all items, shape (n_some, n_items); overwritten.
        """
        relevant: list[RelevantRanks] = []
        validation: list[RelevantRanks] = []
        targets: list[I32] = []
        top: list[I32] = []
        for users, scores in blocks:
            unseen, tests = ~self._mask(users, *self._masked), self._mask(users, self._split.test)
            if TargetRanks in self.kinds:
                untouched = unseen & ~tests & ~self._mask(users, self._split.validation)
                targets.append(target_ranks(scores, untouched, self._targets))
            if TopItems in self.kinds:
                top.append(top_items(scores, unseen, self._length[TopItems]))
            if ValidationRanks in self.kinds:
                untrained = ~self._mask(users, self._split.train)
                due = self._mask(users, self._split.validation)
                length = self._length[ValidationRanks]
                validation.append(relevant_ranks(scores.copy(), untrained, due, length))
            if RelevantRanks in self.kinds:  # the last, for it overwrites the scores
                relevant.append(relevant_ranks(scores, unseen, tests, self._length[RelevantRanks]))
        return {
            RelevantRanks: relevant,
            ValidationRanks: validation,
            TargetRanks: [TargetRanks(np.concatenate(targets))] if targets else [],
            TopItems: [TopItems(np.concatenate(top), self._split.n_items)] if top else [],
        }

    def has_relevant(self, users: I64, kind: type[Any]) -> Bools:
        """Return which users have an item that a kind of metric finds relevant, and that may be recommended."""
        parts, due = (
            ((self._split.train,), self._split.validation)
            if kind is ValidationRanks
            else (self._masked, self._split.test)
        )
        return np.asarray((~self._mask(users, *parts) & self._mask(users, due)).any(axis=1))

    def _mask(self, users: I64, *parts: Ragged) -> Bools:
        """Return which items are in the users' sets, shape (n_users, n_items)."""
        found = np.zeros((len(users), self._split.n_items), np.bool_)
        for sets in parts:
            for row, user in zip(found, users.tolist(), strict=True):
                row[sets[user]] = True
        return found
