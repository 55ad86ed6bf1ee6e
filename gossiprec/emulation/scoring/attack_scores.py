"""The scores of attacks: rankings, guesses and other findings, joined with the truth, which no attack sees."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from gossiprec.adversaries.attacks import ItemScores, ItemSets, MembershipGuesses, Ranking
from gossiprec.adversaries.attacks.attributes import AttributeScores
from gossiprec.adversaries.attacks.findings import RATES, Finding
from gossiprec.base.arrays import F32, F64, I32, I64, Bools
from gossiprec.base.errors import ScenarioError
from gossiprec.base.machine import ThreadPool
from gossiprec.base.ragged import Ragged
from gossiprec.base.rounding import difference
from gossiprec.data.split import Split
from gossiprec.emulation.assembly.user_groups import UserGroup
from gossiprec.emulation.scoring.attribute_scores import AttributeRecord
from gossiprec.emulation.scoring.item_scores import (
    candidate_findings,
    item_findings,
    item_set_findings,
    move_set_findings,
    note_on_few_items,
)
from gossiprec.emulation.scoring.result_checks import check_ids, check_offsets, check_once, check_shape
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
from gossiprec.measures.selectors import FILTERS
from gossiprec.models.feeds.base import positives_bitset
from gossiprec.numerics.relevance import MIA
from gossiprec.runs.checkpoint_state import Stateful
from gossiprec.runs.run_tables import attack_key

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


class AttackRecord:
    """The accuracy of every attack over a run.

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
    more_findings : list of (Finding, bool)
        Findings of the last report by group and on virtual nodes, and whether the summary keeps each.
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
        self.more_findings: list[tuple[Finding, bool]] = []
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
        found, met = (
            np.mean([getattr(judged, name) for _, judged in views], axis=0) for name in ("accuracies", "met")
        )
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
            self.more_findings += self._grouped(row, ranking.adversaries, found)
        if ranking.views and len(ranking.adversaries) > MIN_LINKERS and ranking.observer != "single":
            linked = linked_share([ranking.scores, *ranking.views])
            is_best = self._best[key].row is row
            labels: dict[str, Any] = {name: row[name] for name in FILTERS}
            self.more_findings.append((Finding("linked_share", labels, linked), is_best))
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
            exposure = _mean_known(best.found[group.users])
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

    def exposures(self) -> dict[str, F64]:
        """Return the exposure of every user to each attack at its best round (:func:`exposures`)."""
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
                "tied_share": self._tied_share(best),
            }
            for best in self._best.values()
        ]

    def _tied_share(self, best: _Best) -> float:
        """Return the share of the communities that ties decide, on average over the adversaries of an attack."""
        return float(self._community(best.nodes, best.row["community_size"]).tied_fractions.mean())


def _mean_known(values: F64) -> float | None:
    """Return the mean of the known values, or None if none is known."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _key(row: dict[str, Any]) -> str:
    return attack_key(**{name: row[name] for name in FILTERS})


GROUP = "group_"
"""Prefix of the measures of attacks for one group of users."""
LABELS = {"observer", "relevance", "momentum"}
"""Labels of the rates of guesses."""


class MembershipRecord:
    """Accuracy, precision and recall of guesses over a run.

    A pair is a victim met and an item of an adversary other than the victim; the truth is whether the item
    is among the victim's training items.

    Parameters
    ----------
    train : Ragged
    n_items : int

    Attributes
    ----------
    is_member : ndarray of bool, shape (n_users, n_items)
    """

    def __init__(self, train: Ragged, n_items: int) -> None:
        bits = positives_bitset(train, n_items)
        self.is_member = np.unpackbits(bits, axis=1, bitorder="little")[:, :n_items].astype(np.bool_)

    def score(self, guesses: MembershipGuesses) -> list[dict[str, Any]]:
        """Return one row per threshold; a rate without cases is None.

        Raises
        ------
        ScenarioError
            If the guesses name victims or items that do not exist or are repeated, or do not say which adversary
            queries which item.
        """
        self._check(guesses)
        counts = self._of_sharing(guesses) + self._of_hidden(guesses)
        return [
            {
                "observer": guesses.observer,
                "momentum": guesses.momentum,
                "threshold": threshold,
                "relevance": f"{MIA}{threshold:g}",
                **_rates(*count),
            }
            for threshold, count in zip(guesses.thresholds, counts.tolist(), strict=True)
        ]

    def _check(self, guesses: MembershipGuesses) -> None:
        (n_users, n_items), ends = self.is_member.shape, guesses.offsets
        subject = f"observers: {guesses.observer} guesses"
        victims = np.concatenate([guesses.victims, guesses.hidden])
        check_ids(subject, "item", guesses.items, n_items)
        check_ids(subject, "about victim", victims, n_users)
        check_once(subject, "about a victim", victims)
        check_shape(subject, "with entropies", guesses.entropies, (len(guesses.victims), n_items))
        check_offsets(subject, ends, len(guesses.adversaries), len(guesses.items))
        asked = np.repeat(np.arange(len(guesses.adversaries)), np.diff(ends)) * n_items + guesses.items
        check_once(subject, "with an adversary", guesses.adversaries)
        check_once(subject, "with an item of an adversary", asked)

    def _of_sharing(self, guesses: MembershipGuesses) -> F64:
        """Return counts (n_thresholds, 4) of hits, guesses, members and pairs.

        All adversaries make the same guesses here: a guess counts once for each adversary that queries the item.
        """
        guessed = np.bincount(guesses.items, minlength=self.is_member.shape[1])
        truth = self.is_member[guesses.victims]
        times = np.broadcast_to(guessed, truth.shape).copy()
        # An adversary queries its items at all victims but itself.
        asker = np.repeat(guesses.adversaries, np.diff(guesses.offsets))
        row_of = np.full(len(self.is_member), -1, np.int64)
        row_of[guesses.victims] = np.arange(len(guesses.victims))
        own = asker < len(row_of)  # a coordinator is no victim
        own[own] = row_of[asker[own]] >= 0
        np.subtract.at(times, (row_of[asker[own]], guesses.items[own]), 1)
        members, pairs = times[truth].sum(), times.sum()
        counts = np.zeros((len(guesses.thresholds), 4))
        for t, rho in enumerate(guesses.thresholds):
            guess = guesses.entropies < np.float32(rho)
            counts[t] = times[guess & truth].sum(), times[guess].sum(), members, pairs
        return counts

    def _of_hidden(self, guesses: MembershipGuesses) -> F64:
        """Return the same counts if each adversary makes its own guesses."""
        total = np.zeros((len(guesses.thresholds), 4))
        for a, adversary in enumerate(guesses.adversaries.tolist() if len(guesses.hidden) else []):
            items = guesses.items[guesses.offsets[a] : guesses.offsets[a + 1]]
            others = guesses.hidden != adversary
            truth = self.is_member[np.ix_(guesses.hidden[others], items)]
            entropies = guesses.hidden_entropies(a)
            subject = f"observers: {guesses.observer} guesses"
            check_shape(subject, "with hidden entropies", entropies, (len(guesses.hidden), len(items)))
            for t, rho in enumerate(guesses.thresholds):
                guess = entropies[others] < np.float32(rho)
                found = [guess & truth, guess, truth]
                total[t] += [*map(np.count_nonzero, found), truth.size]
        return total


def _rates(hits: float, guessed: float, members: float, pairs: float) -> dict[str, float | None]:
    right = pairs - guessed - members + 2 * hits
    return {
        "accuracy": right / pairs if pairs else None,
        "precision": hits / guessed if guessed else None,
        "recall": hits / members if members else None,
    }


def membership_metric_rows(findings: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, float]]:
    """Yield the rates among findings as metrics, such as ``mia_precision[coordinator,b0.99,0.2]``.

    Findings that an attack calls by these names itself, with other labels, stay findings.
    """
    for row in findings:
        of_guesses = row["measure"] in RATES and row["labels"].keys() == LABELS
        if of_guesses and not math.isnan(row["value"]):
            about, rule = row["labels"], row["labels"]["relevance"].removeprefix(MIA)
            yield f"{row['measure']}[{about['observer']},b{about['momentum']:g},{rule}]", row["value"]


Row = dict[str, Any]
Found = MembershipGuesses | ItemScores | ItemSets | AttributeScores | Finding
Reported = Found | list[tuple[Finding, bool]]


class FindingRecord(Stateful):
    """The findings of a run: those that attacks report, and their guesses joined with the truth.

    Parameters
    ----------
    split : Split
        The truth.
    rankings : AttackRecord
        The ranking made of guesses decides which are summarised: the guesses of its best report. If no
        ranking is made of them, the last are kept, as for other findings.
    groups : sequence of UserGroup
        Groups of users for which guesses and values per node are averaged, too.
    seed : int
        Of the resamples of victims for intervals.

    Attributes
    ----------
    reported_per_node : dict of str to (nodes, values)
        The values per node of the findings of the last report.
    """

    checkpointed = ("membership", "kept", "per_node")

    def __init__(
        self, split: Split, rankings: AttackRecord, groups: Sequence[UserGroup] = (), seed: int = 0
    ) -> None:
        self._seed = seed
        self._split = split
        self._rankings = rankings
        self._groups = groups
        self._membership: dict[str, Row] = {}
        self._kept: dict[str, Row] = {}
        self._per_node: dict[str, tuple[I64, F64]] = {}
        self.reported_per_node: dict[str, tuple[I64, F64]] = {}
        self._attributes = AttributeRecord(split)

    def note(self, reported: Iterable[tuple[str, Reported]], *, time: float, round: int) -> list[Row]:
        """Return one row of ``findings.csv`` per finding; call it after the report's rankings have been scored.

        Parameters
        ----------
        reported : iterable of (attack, guesses or finding)
            Or findings of groups, each with whether the summary keeps it.
        time : float
        round : int

        Raises
        ------
        ScenarioError
            If two findings have the same labels.
        """
        rows: dict[str, Row] = {}
        self.reported_per_node = {}
        for attack, found in reported:
            for finding, is_kept in found if isinstance(found, list) else self._findings(found, round):
                about = {"attack": attack, "measure": finding.measure, "labels": dict(finding.labels)}
                row = {"time": time, "round": round, **about, "value": float(finding.value)}
                name = _name(attack, finding)
                if rows.setdefault(name, row) is not row:
                    raise ScenarioError(
                        f"observers: two findings have the same name {name}; change an option of one of the "
                        "observers, or add a label that distinguishes the findings"
                    )
                if is_kept:
                    self._kept[name] = row
                if finding.per_node is not None:
                    self.reported_per_node[name] = finding.per_node
        self._per_node |= self.reported_per_node
        return list(rows.values())

    def _findings(self, found: Found, round: int) -> Iterator[tuple[Finding, bool]]:
        """Yield findings, and whether the summary keeps each of them for now."""
        if isinstance(found, MembershipGuesses):
            yield from self._of_guesses(found, round)
            return
        if isinstance(found, ItemScores):
            findings = self._of_items(found)
        elif isinstance(found, ItemSets):
            findings = self._of_sets(found)
        elif isinstance(found, AttributeScores):
            findings = self._of_attributes(found)
        else:
            findings = itertools.chain([found], self._parts(found))
        yield from ((finding, True) for finding in findings)

    def _of_sets(self, found: ItemSets) -> Iterator[Finding]:
        if found.previous is None:
            return item_set_findings(found, self._truth.is_member)
        assert self._split.check_ins is not None, "only models of moves have moves"
        return move_set_findings(found, self._split.check_ins.train, self._split.n_items)

    def _of_attributes(self, found: AttributeScores) -> Iterator[Finding]:
        """Yield the results of inferred attributes, of all victims and of those in each group."""
        yield from self._attributes.findings(found)
        for group in self._groups:
            for finding in self._attributes.findings(found, group.users):
                if not math.isnan(finding.value):
                    yield _of_group(group, finding)

    def _of_items(self, found: ItemScores) -> Iterator[Finding]:
        """Yield the results of scores of items, of all victims and of those in each group."""
        yield from item_findings(found, self._truth.is_member)
        if found.are_candidates:
            yield from candidate_findings(found, self._truth.is_member, self._seed)
        for group in self._groups:
            of_group = found.of_victims(group.users)
            for finding in item_findings(of_group, self._truth.is_member) if len(of_group.victims) else ():
                yield _of_group(group, finding)

    def _parts(self, found: Finding) -> Iterator[Finding]:
        """Yield the mean over each group of a finding with values per node."""
        nodes, values = (np.zeros(0, np.int64), np.zeros(0)) if found.per_node is None else found.per_node
        for group in self._groups:
            mean = _mean_known(np.asarray(values, np.float64)[np.isin(nodes, group.users)])
            if mean is not None:
                yield _of_group(group, replace(found, value=mean))

    def _of_guesses(self, guesses: MembershipGuesses, round: int) -> Iterator[tuple[Finding, bool]]:
        """Yield the rates of guesses, about the victims of each group and about all."""
        for group in self._groups:
            shared, hidden = (
                np.flatnonzero(np.isin(victims, group.users)) for victims in (guesses.victims, guesses.hidden)
            )
            own = replace(
                guesses,
                victims=guesses.victims[shared],
                entropies=guesses.entropies[shared],
                hidden=guesses.hidden[hidden],
                hidden_entropies=functools.partial(_some_rows, guesses.hidden_entropies, hidden),
            )
            for _, rates, is_best in self._rates_of(own, round):
                for rate in rates:
                    if not math.isnan(rate.value):
                        yield _of_group(group, rate), is_best
        for row, rates, is_best in self._rates_of(guesses, round):
            if is_best:
                kept = {name: value for name, value in row.items() if name != "relevance"}
                self._membership[str(rates[0].labels)] = {"round": round, **kept}
            yield from ((rate, is_best) for rate in rates)

    def _rates_of(self, guesses: MembershipGuesses, round: int) -> Iterator[tuple[Row, list[Finding], bool]]:
        """Yield the row of each threshold, its rates as findings, and whether the summary keeps them for now."""
        for row in self._truth.score(guesses):
            about = {name: row[name] for name in ("observer", "relevance", "momentum")}
            is_best = self._rankings.best_round(about) in (round, None)
            rates = {measure: row[measure.removeprefix("mia_")] for measure in RATES}
            found = [Finding(name, about, math.nan if rate is None else rate) for name, rate in rates.items()]
            yield row, found, is_best

    @functools.cached_property
    def _truth(self) -> MembershipRecord:
        return MembershipRecord(self._split.train, self._split.n_items)

    def summary(self) -> dict[str, list[Row]]:
        """Return the sections of the summary; empty if nothing was found."""
        about = ("attack", "measure", "labels", "round", "value")
        findings = [{name: row[name] for name in about} for row in self._kept.values()]
        sections = {"membership": list(self._membership.values()), "findings": findings}
        return {name: rows for name, rows in sections.items() if rows}

    def notes(self) -> list[str]:
        """Return the notes on results that mean less than they seem to."""
        lists = (part for part in self._per_node.items() if part[0].startswith("item_precision["))
        notes = (note_on_few_items(name, values) for name, (_, values) in lists)
        return [note for note in notes if note]

    def values_per_node(self) -> list[tuple[str, I64, F64]]:
        """Return measure, node ids and values of the findings that have per-node values, as last reported."""
        return [(name, *values) for name, values in self._per_node.items()]


def _of_group(group: UserGroup, finding: Finding) -> Finding:
    """Return the finding about a group of users, of which the values per node are left out."""
    return Finding(GROUP + finding.measure, {**finding.labels, group.by: group.name}, finding.value)


def _some_rows(table_of: Callable[[int], F32], rows: I64, adversary: int) -> F32:
    """Return some rows of the table of an adversary."""
    return table_of(adversary)[rows]


def _name(attack: str, finding: Finding) -> str:
    labels = "/".join(filter(None, (attack, attack_key(**finding.labels))))
    return f"{finding.measure}[{labels}]"
