"""The inputs of metrics: lists and ranks seen by one or several processes, candidates, and baseline orders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gossiprec.base.arrays import F32, I32, I64, Bools
from gossiprec.base.errors import DataError
from gossiprec.base.ragged import Ragged, row_entries
from gossiprec.base.rng import generator
from gossiprec.data.split import Split, display_name
from gossiprec.measures import NOWHERE, RelevantRanks, TargetRanks, TopItems, ValidationRanks
from gossiprec.measures.ranking import PADDING, relevant_ranks, target_ranks, top_items
from gossiprec.measures.selectors import SAMPLED, MetricSpec


class FullRanker:
    """The ranker of all items of a user, except those in the masked parts.

    Parameters
    ----------
    split : Split
    metrics : sequence of MetricSpec
        The metrics that rank all items.
    targets : ndarray of int64, shape (n_targets,)
        Target items; a target in a list counts for users who have it in no part of the split.
    masked : sequence of str
        Parts of the split of which no item is recommended to a user who has it. If validation items are relevant, only
        the training part is masked.
    keep : int
        Length of the recommendation lists of all users that are wanted in addition; 0 for none.
    among : ndarray of int64, optional
        The users who are measured, ascending; all without it.

    Attributes
    ----------
    users : ndarray of int64, shape (n,)
        The users who need lists: those with relevant items, or all.
    kinds : set of type
        The kinds of inputs that the metrics take.
    """

    def __init__(
        self,
        split: Split,
        metrics: Sequence[MetricSpec],
        targets: I64,
        masked: Sequence[str] = ("train",),
        keep: int = 0,
        among: I64 | None = None,
    ) -> None:
        self._split = split
        self._masked: list[Ragged] = [getattr(split, part) for part in masked]
        self.kinds = {metric.input_type for metric in metrics}
        self._length = {seen: max(m.k for m in metrics if m.input_type is seen) for seen in self.kinds}
        if keep:
            self.kinds.add(TopItems)
            self._length[TopItems] = max(keep, self._length.get(TopItems, 0))
        self._targets = targets
        relevant = {RelevantRanks: split.test, ValidationRanks: split.validation}
        counts = [part.sizes for seen, part in relevant.items() if seen in self.kinds]
        with_relevant = np.flatnonzero(sum(counts, np.zeros(split.n_users, np.int64)))
        everyone = np.arange(split.n_users) if among is None else among
        self.users = everyone if self.kinds - relevant.keys() else with_relevant

    def rank(self, users: I64, scores: F32) -> list[RankedLists]:
        """Return the inputs of each kind of metric from the lists of some users.

        Parameters
        ----------
        users : ndarray of int64, shape (n,)
            Some of :attr:`users`.
        scores : ndarray of float32, shape (n, n_items)
            Their scores of all items; overwritten.
        """
        split, kinds, lists = self._split, self.kinds, []
        unseen, tests = self._without(users, *self._masked), ~self._without(users, split.test)
        if TargetRanks in kinds:
            untouched = self._without(users, split.test, split.validation, of=unseen)
            lists.append(RankedLists(TargetRanks, users, target_ranks(scores, untouched, self._targets)))
        if TopItems in kinds:
            lists.append(RankedLists(TopItems, users, top_items(scores, unseen, self._length[TopItems])))
        if ValidationRanks in kinds:
            untrained, validation = self._without(users, split.train), ~self._without(users, split.validation)
            lists.append(self._relevant(ValidationRanks, users, scores.copy(), untrained, validation))
        if RelevantRanks in kinds:  # the last, for it overwrites the scores
            lists.append(self._relevant(RelevantRanks, users, scores, unseen, tests))
        return lists

    def _relevant(
        self, kind: type[RelevantRanks], users: I64, scores: F32, candidates: Bools, relevant: Bools
    ) -> RankedLists:
        """Return the ranks of relevant items, for the users who have one among the candidates."""
        found = relevant_ranks(scores, candidates, relevant, self._length[kind])
        return RankedLists(kind, users[found.users], found.ranks)

    def _without(self, users: I64, *parts: Ragged, of: Bools | None = None) -> Bools:
        """Return which items, or which `of` some, are not in the users' sets, shape (n_users, n_items)."""
        n_items = self._split.n_items
        mask = np.ones((len(users), n_items), np.bool_) if of is None else of.copy()
        for sets in parts:
            entries, rows = row_entries(sets.offsets, users)
            mask.reshape(-1)[rows * n_items + sets.values[entries]] = False
        return mask


@dataclass(frozen=True)
class RankedLists:
    """The inputs of one kind of metric from the lists of some users.

    Attributes
    ----------
    kind : type
        :class:`RelevantRanks` or another.
    users : ndarray of int64, shape (n_lists,)
    seen : ndarray of int32, shape (n_lists, width)
        Ranks or items.
    """

    kind: type[Any]
    users: I64
    seen: I32

    def iter_blocks(self, blocks: Sequence[I64]) -> Iterator[RankedLists]:
        """Yield the lists of each block of users, as wide as its longest list."""
        for users in blocks:
            chosen = np.isin(self.users, users)
            seen = self.seen[chosen]
            width = int((seen != NOWHERE).sum(axis=1).max(initial=0))
            yield RankedLists(self.kind, self.users[chosen], seen[:, :width])


@dataclass(frozen=True)
class MetricInputs:
    """The inputs of metrics from the models of some users.

    Attributes
    ----------
    lists : list of RankedLists
        One per kind.
    tests : ndarray of int64, shape (n,)
        Positions of their test items among all.
    ranks : ndarray of int32, shape (n,)
        Ranks of these test items, each among its candidates.
    tied : ndarray of int64
        Users for whom all scores are equal.
    """

    lists: list[RankedLists]
    tests: I64
    ranks: I32
    tied: I64


def to_measure_inputs(lists: Iterable[RankedLists], n_items: int) -> dict[type[Any], list[Any]]:
    """Return the inputs of each kind of metric as measures take them: of relevant items in parts, others in one."""
    by_kind: dict[type[Any], list[RankedLists]] = {}
    for part in lists:
        by_kind.setdefault(part.kind, []).append(part)
    measured: dict[type[Any], list[Any]] = {}
    for kind, parts in by_kind.items():
        if kind in (TargetRanks, TopItems):
            seen = np.concatenate([part.seen for part in parts])
            users = np.concatenate([part.users for part in parts])
            one = TargetRanks(seen, users) if kind is TargetRanks else TopItems(seen, n_items, users)
            measured[kind] = [one]
        else:
            measured[kind] = [RelevantRanks(part.seen, part.users) for part in parts]
    return measured


def concat_lists(parts: Sequence[RankedLists]) -> list[RankedLists]:
    """Return the lists of each kind joined, users ascending; short rows are padded."""
    joined = []
    for kind in {part.kind: None for part in parts}:
        of_kind = [part for part in parts if part.kind is kind]
        users = np.concatenate([part.users for part in of_kind])
        seen = np.full((len(users), max(part.seen.shape[1] for part in of_kind)), NOWHERE, np.int32)
        low = 0
        for part in of_kind:
            seen[low : low + len(part.users), : part.seen.shape[1]] = part.seen
            low += len(part.users)
        order = np.argsort(users, kind="stable")
        joined.append(RankedLists(kind, users[order], seen[order]))
    return joined


MAX_KEYED = 10_000
"""Number of items above which candidates are drawn one by one: with 38,333, a test item takes 9 us, not 1.8 ms."""


def draw_candidates(split: Split, users: I64, seed: int) -> I32:
    """Return fixed candidates for every test item, the test item first.

    Parameters
    ----------
    split : Split
    users : ndarray of int64, shape (n,)
        Users with test items, at least one.
    seed : int

    Returns
    -------
    ndarray of int32, shape (n_test, 1 + n_negatives)
        Negatives are :data:`SAMPLED` items with which the user has not interacted, or all of them if fewer.
        A row of fewer candidates ends in :data:`PADDING`.

    Raises
    ------
    DataError
        If a user leaves no negative.

    Notes
    -----
    One thread draws: calls are so short that two threads wait for the interpreter, and mostly take twice as long.
    """
    n_negatives = sampled_negatives(split, users)
    if n_negatives.min() < 1:
        user = display_name(split.user_names, int(users[np.argmin(n_negatives)]))
        raise DataError(
            f"{split.name}: user {user} has all {split.n_items} items, so no item is left to rank the test "
            "items against; remove such users, or evaluate recall@K and full_ndcg@K"
        )
    first = np.concatenate([[0], np.cumsum(split.test.sizes[users])])
    candidates = np.full((int(first[-1]), 1 + int(n_negatives.max())), PADDING, np.int32)
    every = np.arange(split.n_items, dtype=np.int32)
    for place, (user, count) in enumerate(zip(users.tolist(), n_negatives.tolist(), strict=True)):
        tests = split.test[user]
        others = np.delete(every, np.concatenate([split.train[user], split.validation[user], tests]))
        drawn = _distinct(generator(seed, "candidates", user), len(others), len(tests), count)
        rows = candidates[first[place] : first[place + 1]]
        rows[:, 0], rows[:, 1 : 1 + count] = tests, others[drawn]
    return candidates


def sampled_negatives(split: Split, users: I64) -> I64:
    """Return the number of negatives that each user's test items are ranked against, shape (n,)."""
    known = (split.train.sizes + split.validation.sizes + split.test.sizes)[users]
    return np.asarray(np.minimum(SAMPLED, split.n_items - known))


def _distinct(rng: np.random.Generator, bound: int, n_rows: int, count: int) -> I64:
    """Return `count` distinct random numbers below `bound` per row; for many items without a key per item."""
    if bound > MAX_KEYED:
        return np.stack([rng.choice(bound, count, replace=False) for _ in range(n_rows)])
    keys = rng.random((n_rows, bound))
    return np.asarray(np.argpartition(keys, count - 1, axis=1)[:, :count], np.int64)


MAX_PAIRS = 2**26
"""Users times items above which users share permutations: 30,000 users of 40,000 items take 23 s otherwise."""
SHARED_BY = 64
"""Users with consecutive ids that share a permutation."""


class BaselineRanking(ABC):
    """A baseline order of the items: each item's score is the number of items that come after it.

    Parameters
    ----------
    split : Split
    seed : int
    """

    def __init__(self, split: Split, seed: int) -> None:
        self._n_items = split.n_items
        self._seed = seed

    @abstractmethod
    def scores_of_user(self, user: int) -> F32:
        """Return the scores of all items, shape (n_items,)."""

    def scores_of_users(self, users: I64) -> F32:
        """Return the scores of all items for some users, shape (n_users, n_items)."""
        return np.stack([self.scores_of_user(user) for user in users.tolist()])

    def scores_before(self, users: I64, part: str) -> F32:
        """Return the scores of all items before any part of the split: baselines do not depend on it."""
        return self.scores_of_users(users)

    def candidate_scores(self, users: I64, candidates: Ragged) -> F32:
        """Return the scores of each user's candidates, in their order.

        Parameters
        ----------
        users : ndarray of int64, shape (n,)
        candidates : Ragged of int32, a row for each of `users`
        """
        parts = [self.scores_of_user(user)[candidates[place]] for place, user in enumerate(users.tolist())]
        return np.concatenate(parts)


class PopularityRanking(BaselineRanking):
    """The order by number of users who have trained on an item, lower ids first on ties; the same for all users."""

    def __init__(self, split: Split, seed: int) -> None:
        super().__init__(split, seed)
        trained = np.bincount(split.train.values, minlength=split.n_items)
        self._scores = _descending(np.argsort(-trained, kind="stable"))

    def scores_of_user(self, user: int) -> F32:
        """Return the same scores for every user."""
        return self._scores


class RandomRanking(BaselineRanking):
    """An order drawn for each user from the seed of the run; the same at all reports.

    Notes
    -----
    In large data (:data:`MAX_PAIRS`) some users share a permutation, and each begins at its own place. Every single
    order is still uniform, so that expected values are the same, but the orders of users are not independent.
    """

    def __init__(self, split: Split, seed: int) -> None:
        super().__init__(split, seed)
        self._shares = split.n_users * split.n_items > MAX_PAIRS
        self._permutation = lru_cache(maxsize=2)(self._drawn)
        if self._shares:
            self._twice = np.tile(np.arange(split.n_items, dtype=np.float32), 2)
            self._starts = generator(seed, "random-start").integers(split.n_items, size=split.n_users)

    def scores_of_user(self, user: int) -> F32:
        """Return scores that depend on the seed, the user and the number of items."""
        return self._of_items(user, slice(None)) if self._shares else _descending(self._drawn(user))

    def candidate_scores(self, users: I64, candidates: Ragged) -> F32:
        """Return the scores of each user's candidates, in their order."""
        if not self._shares:
            return super().candidate_scores(users, candidates)
        pairs = enumerate(users.tolist())
        return np.concatenate([self._of_items(user, candidates[place]) for place, user in pairs])

    def _of_items(self, user: int, items: I32 | slice) -> F32:
        start = self._starts[user]
        turned: F32 = self._twice[start : start + self._n_items]
        return turned[self._permutation(user // SHARED_BY)[items]]

    def _drawn(self, number: int) -> I64:
        return generator(self._seed, "random-order", number).permutation(self._n_items)


ORDERS: dict[str, type[BaselineRanking]] = {"popularity": PopularityRanking, "random": RandomRanking}
"""The baseline orders by the names that a scenario gives them."""


def _descending(items: I64 | I32) -> F32:
    """Return scores by which these items, all that exist, come in this order; exact below 2^24 items."""
    scores = np.empty(len(items), np.float32)
    scores[items] = np.arange(len(items) - 1, -1, -1)
    return scores
