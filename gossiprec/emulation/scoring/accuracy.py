"""How right the attacks are: rankings joined with the truth, which no attack sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gossiprec.arrays import F32, F64, I32, I64, Bools
from gossiprec.attacks.base import Ranking
from gossiprec.compute.thread_pool import ThreadPool
from gossiprec.data.split import Split
from gossiprec.errors import ScenarioError
from gossiprec.eventlog.adversaries import attack_key
from gossiprec.measures.attack import (
    aac,
    accuracy_of_hits,
    best_decile,
    found_by,
    hits_of_scores,
    random_bound,
    upper_bound,
)
from gossiprec.measures.communities import jaccard_communities
from gossiprec.measures.names import FILTERS


@dataclass
class _Best:
    """The best round of one attack so far."""

    row: dict[str, Any]
    nodes: I64
    accuracies: F64
    found: F64
    hits: I32
    last: dict[str, Any] = field(default_factory=dict)


class AttackRecord:
    """Accuracy of every attack over a run.

    Parameters
    ----------
    split : Split
        The truth: u's community is the K other users nearest to it by Jaccard similarity of training items. It is
        found when u is first asked about (:meth:`find`), for all pairs of users are too many in a large world.
    largest : int
        Largest community size asked for; 0: no attacks.
    defended : ndarray of bool, shape (n_users,), optional
        Users whose nodes use any policy; nobody if it is left out.
    threads : ThreadPool, optional
        Adversaries are scored side by side.
    """

    def __init__(
        self, split: Split, largest: int, defended: Bools | None = None, threads: ThreadPool | None = None
    ) -> None:
        self._split, self._largest = split, largest
        self._threads = threads or ThreadPool(1)
        self._defended = np.zeros(split.n_users, np.bool_) if defended is None else defended
        self._best: dict[str, _Best] = {}
        self._place = np.full(split.n_users, -1, np.int64)  # of each user among the communities found so far
        self._communities = np.zeros((0, largest), np.int64)

    def find(self, users: I64) -> None:
        """Find the communities of some users that are not known yet.

        Raises
        ------
        ScenarioError
            If there are fewer users than a community has members.
        """
        unknown = np.unique(users[self._place[users] < 0])
        found = jaccard_communities(self._split.train, unknown, n_items=self._split.n_items, k=self._largest)
        self._place[unknown] = len(self._communities) + np.arange(len(unknown))
        self._communities = np.concatenate([self._communities, found])

    def score(self, rankings: Sequence[Ranking], *, time: float, round: int) -> list[dict[str, Any]]:
        """Return one row of ``attacks.csv`` per ranking and community size.

        Raises
        ------
        ScenarioError
            If two observers could not be told apart in the table.
        """
        rows: dict[str, dict[str, Any]] = {}
        for ranking in rankings:
            for size in ranking.community_sizes:
                row = self._score(ranking, size, time=time, round=round)
                if rows.setdefault(_key(row), row) is not row:
                    raise ScenarioError(
                        f"observers: two of them are called {_key(row)}; give one another fraction, number of "
                        "members, momentum, relevance or community_size"
                    )
        return list(rows.values())

    def best_round(self, labels: Mapping[str, Any]) -> int | None:
        """Return the best round of the first attack with these labels; None where there is none."""
        rounds = (best.row["round"] for best in self._best.values() if labels.items() <= best.row.items())
        return next(rounds, None)

    def state(self) -> dict[str, Any]:
        """Return the best rounds so far, for a checkpoint."""
        return {"best": {key: vars(best) for key, best in self._best.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` gave."""
        self._best = {key: _Best(**best) for key, best in state["best"].items()}

    def _score(self, ranking: Ranking, size: int, *, time: float, round: int) -> dict[str, Any]:
        community = self._community(ranking.adversaries)[:, :size]
        hits = self._hits(ranking.scores, community)
        accuracies = accuracy_of_hits(hits)
        low, mean = best_decile(accuracies)
        row = {
            "observer": ranking.observer,
            "relevance": ranking.relevance,
            "momentum": ranking.momentum,
            "community_size": size,
            "time": time,
            "round": round,
            "aac": aac(accuracies),
            "best10_min": low,
            "best10_mean": mean,
            "upper_bound": upper_bound(~np.isnan(ranking.scores), community),
            "random_bound": random_bound(size, self._split.n_users),
        }
        key = _key(row)
        if key not in self._best or row["aac"] > self._best[key].row["aac"]:
            found = found_by(hits, community, self._split.n_users)
            place, member = np.nonzero(hits)
            pairs = np.stack([ranking.adversaries[place], community[place, member]], axis=1)
            self._best[key] = _Best(row, ranking.adversaries, accuracies, found, pairs.astype(np.int32))
        self._best[key].last = row
        return row

    def _hits(self, scores: F32, community: I64) -> Bools:
        """Return :func:`hits_of_scores`."""
        hits = np.empty(community.shape, np.bool_)

        def find(part: int) -> None:
            share = self._threads.share(len(scores), part)
            some = slice(share.start, share.stop)
            hits[some] = hits_of_scores(scores[some], community[some])

        self._threads.run(find)
        return hits

    def _community(self, adversaries: I64) -> I64:
        """Return the largest community of each adversary, shape (n, largest)."""
        if (self._place[adversaries] < 0).any():
            self.find(adversaries)
        return np.asarray(self._communities[self._place[adversaries]])

    def adversaries(self) -> dict[str, tuple[I64, F64]]:
        """Return each attack's adversaries and their accuracies at its best round."""
        return {key: (best.nodes, best.accuracies) for key, best in self._best.items()}

    def hits(self) -> dict[str, I32]:
        """Return for each attack who found whom at its best round: adversary and user, shape (n_hits, 2)."""
        return {key: best.hits for key, best in self._best.items()}

    def exposures(self) -> dict[str, F64]:
        """Return for each attack, at its best round, how exposed every user is (:func:`found_by`)."""
        return {key: best.found for key, best in self._best.items()}

    def summary(self) -> list[dict[str, Any]]:
        """Return the attacks' part of the summary: the best round, and the bounds at the end."""
        return [
            {
                **{name: best.row[name] for name in FILTERS},
                "max_aac": best.row["aac"],
                "at_round": best.row["round"],
                "last_aac": best.last["aac"],
                "best10_min": best.row["best10_min"],
                "best10_mean": best.row["best10_mean"],
                "upper_bound": best.last["upper_bound"],
                "random_bound": best.row["random_bound"],
                "exposure_defended": _mean_known(best.found[self._defended]),
                "exposure_undefended": _mean_known(best.found[~self._defended]),
            }
            for best in self._best.values()
        ]


def _mean_known(values: F64) -> float | None:
    """Return the mean of the values that are known; None where none is."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _key(row: dict[str, Any]) -> str:
    return attack_key(**{name: row[name] for name in FILTERS})
