"""Recommendation quality of the nodes' own models.

References
----------
CDA paper (arXiv 2306.08929), section 5: HR@20; candidates as in its published code: each test item against 99 fixed
items the user has not interacted with.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gossiprec.compute.executors.base import Executor
from gossiprec.compute.training import Moves
from gossiprec.data.split import Split
from gossiprec.errors import DataError
from gossiprec.metrics.full_ranking import full_ranking
from gossiprec.metrics.ranking import hit_ratio, mean_over_users, ndcg, ranks_against, user_means
from gossiprec.rng import generator

N_NEGATIVES = 99
BLOCK = 512
"""Users whose scores of all items are held at a time; fewer where there are more than 2,000 items."""

MANY = 10_000
"""Items above which candidates are drawn one by one: with 38,333, a test item takes 9 us instead of 1.8 ms."""

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


class Utility:
    """Measures HR@K, NDCG@K and F1@K, per node, averaged over the nodes that have test items.

    Parameters
    ----------
    split : Split
    metrics : sequence of str
        ``hr@K``, ``ndcg@K``: each test item against 99 fixed negatives (fewer if a user leaves fewer);
        ``full_hr@K``, ``full_ndcg@K``, ``f1@K``: against all items the user has not trained on.
    executor : Executor
    seed : int

    Notes
    -----
    A model of moves is asked for each test item after the visit that came before it, if that was within the model's
    window. A whole list has no visit of its own before it: it is the answer to "where to next?" at the place of the
    user's last training visit, as in Feng et al. (IJCAI 2015), where a list is recommended for a current place.

    Raises
    ------
    DataError
        If a user leaves no item to be a negative.
    """

    def __init__(self, split: Split, metrics: Sequence[str], executor: Executor, seed: int) -> None:
        self._split = split
        self._metrics = [re.fullmatch(r"(full_)?(hr|ndcg|f1)@(\d+)", metric) for metric in metrics]
        self._executor = executor
        self._users = np.flatnonzero(split.test.sizes > 0)
        self._before_tests, self._last_places = self._visits_before()
        if any(metric and not _ranks_all(metric) for metric in self._metrics) and len(self._users):
            self._draw_candidates(seed)

    def _visits_before(self) -> tuple[I32 | None, I32 | None]:
        """Return the place before each test item, and each user's last, for models that look at them."""
        model, check_ins = self._executor.work.model, self._split.check_ins
        if not model.trains_on_moves or check_ins is None:
            return None, None
        tests = Moves.within(check_ins.test, 60.0 * model.options.window_hours)
        items, ends = check_ins.train.items.values, check_ins.train.items.offsets[1:]
        moved = check_ins.train.items.sizes > 0
        return tests.previous, np.where(moved, items[np.maximum(ends - 1, 0)], -1).astype(np.int32)

    def _draw_candidates(self, seed: int) -> None:
        """Fix the candidates of every test item, the test item first."""
        split = self._split
        seen = [
            np.concatenate([split.train[u], split.validation[u], split.test[u]]) for u in self._users.tolist()
        ]
        most = max(range(len(seen)), key=lambda place: len(seen[place]))
        n_negatives = min(N_NEGATIVES, split.n_items - len(seen[most]))
        if n_negatives < 1:
            raise DataError(
                f"{split.name}: user {self._users[most]} has all {split.n_items} items, so no item is left to "
                "rank its test items against; leave such users out, or evaluate full_hr@K and full_ndcg@K"
            )
        parts = []
        for user, items in zip(self._users.tolist(), seen, strict=True):
            others = np.delete(np.arange(split.n_items, dtype=np.int32), items)
            tests = split.test[user]
            drawn = others[
                _distinct(generator(seed, "candidates", user), len(others), len(tests), n_negatives)
            ]
            parts.append(np.concatenate([tests[:, None], drawn], axis=1))
        self._candidates = np.concatenate(parts).astype(np.int32)

    def measure(self, current: I64) -> dict[str, float]:
        """Return each metric for the models at arena rows `current`, shape (n_nodes,)."""
        if not len(self._users):
            return {}
        found: dict[str, float] = {}
        ranks = None
        whole = self._full(current)
        for metric in self._metrics:
            assert metric is not None
            k = int(metric[3])
            if _ranks_all(metric):
                found[metric[0]] = whole[metric[0]]
                continue
            if ranks is None:
                ranks = self._sampled_ranks(current)
            values = hit_ratio(ranks, k) if metric[2] == "hr" else ndcg(ranks, k)
            offsets = np.concatenate([[0], np.cumsum(self._split.test.sizes[self._users])])
            found[metric[0]] = mean_over_users(user_means(values, offsets))
        return found

    def _scores(
        self, current: I64, users: I64, offsets: I64, items: I32, contexts: I32 | None
    ) -> npt.NDArray[np.float32]:
        work = self._executor.work
        rows = work.arena.rows
        return self._executor.scores(
            work.layout, rows, current[users], work.layout.user_index(users), offsets, items, contexts
        )

    def _sampled_ranks(self, current: I64) -> I64:
        width = self._candidates.shape[1]
        offsets = np.concatenate([[0], np.cumsum(self._split.test.sizes[self._users])]) * width
        before = self._before_tests
        contexts = None if before is None else before.repeat(width)
        scores = self._scores(
            current, self._users, offsets.astype(np.int64), self._candidates.ravel(), contexts
        )
        scores = scores.reshape(-1, width)
        return ranks_against(scores[:, 0], scores[:, 1:])

    def _full(self, current: I64) -> dict[str, float]:
        """Return every metric that ranks all items."""
        n_items, places = self._split.n_items, self._last_places
        wanted = [metric for metric in self._metrics if metric and _ranks_all(metric)]
        values: dict[str, list[npt.NDArray[np.float64]]] = {metric[0]: [] for metric in wanted}
        block = min(BLOCK, max(1, 2**20 // n_items))
        for low in range(0, len(self._users) if wanted else 0, block):
            users = self._users[low : low + block]
            scores = self._scores(
                current, users, np.arange(len(users) + 1, dtype=np.int64) * n_items,
                np.tile(np.arange(n_items, dtype=np.int32), len(users)),
                None if places is None else places[users].repeat(n_items),
            ).reshape(len(users), n_items)  # fmt: skip
            candidates = np.ones(scores.shape, bool)
            relevant = np.zeros(scores.shape, bool)
            for place, user in enumerate(users.tolist()):
                candidates[place, self._split.train[user]] = False
                relevant[place, self._split.test[user]] = True
            for metric in wanted:
                ranking = full_ranking(scores, candidates, relevant, k=int(metric[3]))
                kinds = {"hr": ranking.recall, "ndcg": ranking.ndcg, "f1": ranking.f1}
                values[metric[0]].append(kinds[metric[2]])
        return {name: float(mean_over_users(np.concatenate(parts))) for name, parts in values.items()}


def _distinct(rng: np.random.Generator, bound: int, n_rows: int, count: int) -> I64:
    """Draw `count` distinct numbers below `bound` for each row; for many items without a key for each item."""
    if bound > MANY:
        return np.stack([rng.choice(bound, count, replace=False) for _ in range(n_rows)])
    keys = rng.random((n_rows, bound))
    return np.asarray(np.argpartition(keys, count - 1, axis=1)[:, :count], np.int64)


def _ranks_all(metric: re.Match[str]) -> bool:
    return bool(metric[1]) or metric[2] == "f1"
