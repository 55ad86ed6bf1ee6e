"""The accuracy of rankings over a run: joined with the truth, which no attack sees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gossiprec.adversaries.attacks import Ranking
from gossiprec.adversaries.attacks.findings import Finding
from gossiprec.base.arrays import F32, F64, I32, I64, Bools
from gossiprec.base.errors import ScenarioError
from gossiprec.base.machine import ThreadPool
from gossiprec.base.rounding import difference
from gossiprec.data.split import Split
from gossiprec.emulation.scoring.result_checks import check_ids, check_once, check_shape
from gossiprec.measures.attack_accuracy import (
    Guess,
    accuracies,
    average_attack_accuracy,
    best_decile,
    certain_hits,
    community_fractions_met,
    exposures,
    guess_top_victims,
    linked_share,
    random_bound,
)
from gossiprec.measures.communities import Communities, jaccard_communities_by_size
from gossiprec.measures.selectors import FILTERS, attack_key

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.user_groups import UserGroup

GROUP = "group_"
"""Prefix of the measures of attacks for one group of users."""
MIN_LINKERS = 2
"""A profile of a virtual node is made of the relevance for more adversaries than these."""


@dataclass
class _Best:
    """The best round of one attack so far."""

    row: dict[str, Any]
    nodes: I64
    accuracies: F64
    found: F64
    hits: I32
    last: dict[str, Any] = field(default_factory=dict)


class _Judged(NamedTuple):
    """The guesses of the adversaries of a ranking, their accuracies, and the share of each community that was met."""

    guesses: Guess
    accuracies: F64
    met: F64


class RankingScores:
    """The accuracy of every ranking over a run.

    Parameters
    ----------
    split : Split
        The truth: u's community is the K other users nearest to it by Jaccard similarity of training items. It is
        computed when u first ranks other users (:meth:`find_communities`), because all pairs of users are too many in a
        large run.
    sizes : int or sequence of int
        Community sizes that the attacks of the run use; others are computed when they first occur.
    defended : ndarray of bool, shape (n_users,), optional
        Users of whom the nodes use any policy; no user by default.
    threads : ThreadPool, optional
        Scores adversaries in parallel.
    groups : sequence of UserGroup
        Groups of users for which accuracies and exposures are found, too.

    Attributes
    ----------
    more_findings : list of lists of (Finding, bool)
        Of each ranking of the last report: findings by group and on virtual nodes, and whether the summary keeps each.
    now_per_node : dict of str to (nodes, values)
        The accuracies of adversaries and the exposures of users at the last report, by measure.
    """

    def __init__(
        self,
        split: Split,
        sizes: int | Sequence[int] = (),
        defended: Bools | None = None,
        threads: ThreadPool | None = None,
        groups: Sequence[UserGroup] = (),
    ) -> None:
        self._split = split
        self._groups = groups
        self.more_findings: list[list[tuple[Finding, bool]]] = []
        self._sizes = tuple(dict.fromkeys((sizes,) if isinstance(sizes, int) else sizes))
        self._threads = threads or ThreadPool(1)
        self._defended = np.zeros(split.n_users, np.bool_) if defended is None else defended
        self._best: dict[str, _Best] = {}
        self.now_per_node: dict[str, tuple[I64, F64]] = {}
        self._place = np.full(split.n_users, -1, np.int64)  # of each user among the communities found so far
        self._centres = np.zeros(0, np.int64)
        self._communities: dict[int, Communities] = {}

    def find_communities(self, users: I64) -> None:
        """Compute the communities of some users that are not known yet.

        Raises
        ------
        ScenarioError
            If there are fewer users than a community has members.
        """
        unknown = np.unique(users[self._place[users] < 0])
        self._place[unknown] = len(self._centres) + np.arange(len(unknown))
        self._centres = np.concatenate([self._centres, unknown])
        for size, found in self._found(unknown, self._sizes).items():
            known = self._communities.get(size)
            self._communities[size] = found if known is None else Communities.joined([known, found])

    def _found(self, users: I64, sizes: Sequence[int]) -> dict[int, Communities]:
        train, n_items = self._split.train, self._split.n_items
        return jaccard_communities_by_size(train, users, n_items=n_items, sizes=sizes)

    def score(self, rankings: Sequence[Ranking], *, time: float, round: int) -> list[dict[str, Any]]:
        """Return one row of ``attacks.csv`` per ranking and community size.

        Raises
        ------
        PluginError
            If a ranking is broken (:meth:`check_rankings`).
        ScenarioError
            If two observers have the same labels in the table.
        """
        rows: dict[str, dict[str, Any]] = {}
        self.more_findings, self.now_per_node = [], {}
        self.check_rankings(rankings)
        for ranking in rankings:
            self.more_findings.append([])
            for size in ranking.community_sizes:
                row = self._score(ranking, size, time=time, round=round)
                if rows.setdefault(_key(row), row) is not row:
                    raise ScenarioError(
                        f"observers: two entries have the same key {_key(row)}; change the fraction, number "
                        "of members, momentum, relevance or community_size of one of them"
                    )
        return list(rows.values())

    def check_rankings(self, rankings: Sequence[Ranking]) -> None:
        """Refuse rankings by users that do not exist or are repeated, and scores that are not one for each user.

        Raises
        ------
        PluginError
        """
        n = self._split.n_users
        for ranking in rankings:
            nodes, subject = ranking.adversaries, f"observers: {ranking.observer} ranks"
            check_ids(subject, "for adversary", nodes, n)
            check_once(subject, "for an adversary", nodes)
            for scores in (ranking.scores, *ranking.views):
                check_shape(subject, "with scores", scores, (len(nodes), n))

    def best_round(self, labels: Mapping[str, Any]) -> int | None:
        """Return the best round of the first attack with these labels, or None if there is none."""
        rounds = (best.row["round"] for best in self._best.values() if labels.items() <= best.row.items())
        return next(rounds, None)

    def state(self) -> dict[str, Any]:
        """Return the best rounds so far, for a checkpoint."""
        return {"best": {key: vars(best) for key, best in self._best.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state that :meth:`state` returned."""
        self._best = {key: _Best(**best) for key, best in state["best"].items()}

    def _score(self, ranking: Ranking, size: int, *, time: float, round: int) -> dict[str, Any]:
        communities = self._community(ranking.adversaries, size)
        views = [(scores, self._judge(scores, communities)) for scores in (ranking.scores, *ranking.views)]
        found = np.mean([judged.accuracies for _, judged in views], axis=0)
        met = np.mean([judged.met for _, judged in views], axis=0)
        low, mean = best_decile(found)
        row: dict[str, Any] = {
            "observer": ranking.observer,
            "relevance": ranking.relevance,
            "momentum": ranking.momentum,
            "community_size": size,
            "time": time,
            "round": round,
            "aac": average_attack_accuracy(found),
            "best10_min": low,
            "best10_mean": mean,
            "upper_bound": average_attack_accuracy(met),
            "random_bound": random_bound(size, self._split.n_users),
        }
        key, about = _key(row), [(scores, judged.guesses, communities) for scores, judged in views]
        exposed = np.mean([exposures(*view) for view in about], axis=0)
        self.now_per_node[f"accuracy[{key}]"] = (ranking.adversaries, found)
        self.now_per_node[f"found[{key}]"] = (np.arange(len(exposed)), exposed)
        if key not in self._best or difference(row["aac"], self._best[key].row["aac"]) > 0:
            hits = [np.stack(certain_hits(*view), axis=1) for view in about]
            place, member = (np.unique(np.concatenate(hits), axis=0) if ranking.views else hits[0]).T
            pairs = np.stack([ranking.adversaries[place], member], axis=1).astype(np.int32)
            self._best[key] = _Best(row, ranking.adversaries, found, exposed, pairs)
        self._best[key].last = row
        if self._groups:
            self.more_findings[-1] += self._grouped(row, ranking.adversaries, found)
        if ranking.views and len(ranking.adversaries) > MIN_LINKERS and ranking.observer != "single":
            linked = linked_share([ranking.scores, *ranking.views])
            is_best = self._best[key].row is row
            labels: dict[str, Any] = {name: row[name] for name in FILTERS}
            self.more_findings[-1].append((Finding("linked_share", labels, linked), is_best))
        return row

    def _grouped(
        self, row: Mapping[str, Any], adversaries: I64, found: F64
    ) -> Iterator[tuple[Finding, bool]]:
        """Yield the accuracy of the adversaries in each group, and the exposure of its victims at the best round."""
        labels, best = {name: row[name] for name in FILTERS}, self._best[_key(dict(row))]
        is_best = best.row["round"] == row["round"]
        for group in self._groups:
            about = {**labels, group.by: group.name}
            own = np.isin(adversaries, group.users)
            if own.any():
                yield Finding(GROUP + "aac", about, float(found[own].mean())), is_best
            exposure = mean_known(best.found[group.users])
            if is_best and exposure is not None:
                yield Finding(GROUP + "exposure", about, exposure), True

    def _judge(self, scores: F32, communities: Communities) -> _Judged:
        """Return the guesses of the adversaries, their accuracies, and the share of each community that was met."""
        n = len(scores)
        guesses = Guess(np.empty(n, scores.dtype), np.empty(n), np.empty(n, np.int64))
        found, met = np.empty(n), np.empty(n)

        def judge(part: int) -> None:
            share = self._threads.part_range(n, part)
            rows, truth = slice(share.start, share.stop), communities.select_range(share.start, share.stop)
            own = guess_top_victims(scores[rows], communities.k)
            for all_of, some in zip(guesses, own, strict=True):
                all_of[rows] = some
            found[rows] = accuracies(scores[rows], own, truth)
            met[rows] = community_fractions_met(scores[rows], truth)

        self._threads.run(judge)
        return _Judged(guesses, found, met)

    def _community(self, adversaries: I64, size: int) -> Communities:
        """Return the true communities of some adversaries."""
        if size not in self._sizes:
            self._sizes += (size,)
            if len(self._centres):
                self._communities |= self._found(self._centres, (size,))
        if (self._place[adversaries] < 0).any():
            self.find_communities(adversaries)
        known, places = self._communities[size], self._place[adversaries]
        is_all = len(places) == len(self._centres) and (np.diff(places) == 1).all()
        return known if is_all else known.select(places)

    def adversaries(self) -> dict[str, tuple[I64, F64]]:
        """Return each attack's adversaries and their accuracies at its best round."""
        return {key: (best.nodes, best.accuracies) for key, best in self._best.items()}

    def hits(self) -> dict[str, I32]:
        """Return the pairs (adversary, user) found at the best round of each attack without ties, shape (n, 2)."""
        return {key: best.hits for key, best in self._best.items()}

    def values_per_node(self) -> list[tuple[str, I64, F64]]:
        """Return measure, nodes and values of accuracies and exposures at the best rounds."""
        found: list[tuple[str, I64, F64]] = []
        for key, best in self._best.items():
            found.append((f"accuracy[{key}]", best.nodes, best.accuracies))
            found.append((f"found[{key}]", np.arange(len(best.found)), best.found))
        return found

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
                "exposure_defended": mean_known(best.found[self._defended]),
                "exposure_undefended": mean_known(best.found[~self._defended]),
                "tied_share": self._tied_share(best),
            }
            for best in self._best.values()
        ]

    def _tied_share(self, best: _Best) -> float:
        """Return the share of the communities that ties decide, on average over the adversaries of an attack."""
        return float(self._community(best.nodes, best.row["community_size"]).tied_fractions.mean())


def mean_known(values: F64) -> float | None:
    """Return the mean of the known values, or None if none is known."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _key(row: dict[str, Any]) -> str:
    return attack_key(**{name: row[name] for name in FILTERS})
