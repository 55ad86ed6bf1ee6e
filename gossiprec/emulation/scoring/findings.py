"""The findings of attacks in tidy form: rows of ``findings.csv``, and their section of the summary.

Guesses at training items are joined with the truth, which no attack sees.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from gossiprec.adversaries.attacks.base import MembershipGuesses
from gossiprec.adversaries.attacks.findings import RATES, Finding
from gossiprec.base.arrays import F64, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.ragged import Ragged
from gossiprec.data.split import Split
from gossiprec.emulation.scoring.accuracy import AttackRecord
from gossiprec.models.feeds.base import positives_bitset
from gossiprec.numerics.relevance import MIA
from gossiprec.runs.checkpoint_state import Stateful
from gossiprec.runs.run_tables import attack_key

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
    """

    def __init__(self, train: Ragged, n_items: int) -> None:
        bits = positives_bitset(train, n_items)
        self._is_member = np.unpackbits(bits, axis=1, bitorder="little")[:, :n_items].astype(np.bool_)
        self._train = train

    def score(self, guesses: MembershipGuesses) -> list[dict[str, Any]]:
        """Return one row per threshold; a rate without cases is None.

        Raises
        ------
        ScenarioError
            If the guesses name items that do not exist, or do not say which adversary queries which item.
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
        n_items, ends = self._is_member.shape[1], guesses.offsets
        where = f"observers: {guesses.observer} guesses"
        if len(guesses.items) and not 0 <= guesses.items.min() <= guesses.items.max() < n_items:
            found = guesses.items.min() if guesses.items.min() < 0 else guesses.items.max()
            raise ScenarioError(f"{where} item {found}; expected 0 to {n_items - 1}; fix the attack")
        if len(ends) != len(guesses.adversaries) + 1 or ends[0] != 0 or ends[-1] != len(guesses.items):
            raise ScenarioError(
                f"{where} {len(guesses.items)} items with offsets {ends[:1]} to {ends[-1:]} of {len(ends)}; expected "
                f"{len(guesses.adversaries) + 1} offsets, from 0 to the number of items; fix the attack"
            )

    def _of_sharing(self, guesses: MembershipGuesses) -> F64:
        """Return counts (n_thresholds, 4) of hits, guesses, members and pairs.

        All adversaries make the same guesses here: a guess counts once for each adversary that queries the item.
        """
        asked = np.bincount(guesses.items, minlength=self._is_member.shape[1])
        truth = self._is_member[guesses.victims]
        times = np.broadcast_to(asked, truth.shape).copy()
        # An adversary queries its items at all victims but itself.
        asker = np.repeat(guesses.adversaries, np.diff(guesses.offsets))
        row_of = np.full(len(self._is_member), -1, np.int64)
        row_of[guesses.victims] = np.arange(len(guesses.victims))
        own = row_of[asker] >= 0
        np.subtract.at(times, (row_of[asker[own]], guesses.items[own]), 1)
        members, pairs = times[truth].sum(), times.sum()
        counts = np.zeros((len(guesses.thresholds), 4))
        for t, rho in enumerate(guesses.thresholds):
            guess = guesses.surprise < np.float32(rho)
            counts[t] = times[guess & truth].sum(), times[guess].sum(), members, pairs
        return counts

    def _of_hidden(self, guesses: MembershipGuesses) -> F64:
        """Return the same counts if each adversary makes its own guesses."""
        total = np.zeros((len(guesses.thresholds), 4))
        for a, adversary in enumerate(guesses.adversaries.tolist() if len(guesses.hidden) else []):
            items = guesses.items[guesses.offsets[a] : guesses.offsets[a + 1]]
            others = guesses.hidden != adversary
            truth, surprise = (
                self._is_member[np.ix_(guesses.hidden[others], items)],
                guesses.surprise_apart(a),
            )
            for t, rho in enumerate(guesses.thresholds):
                guess = surprise[others] < np.float32(rho)
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


class FindingRecord(Stateful):
    """The findings of a run: those that attacks report, and their guesses joined with the truth.

    Parameters
    ----------
    split : Split
        The truth.
    rankings : AttackRecord
        The ranking made of guesses decides which are summarised: those of the report at which it was best. If no
        ranking is made of them, the last are kept, as for other findings.
    """

    checkpointed = ("membership", "kept", "per_node")

    def __init__(self, split: Split, rankings: AttackRecord) -> None:
        self._split = split
        self._rankings = rankings
        self._membership: dict[str, Row] = {}
        self._kept: dict[str, Row] = {}
        self._per_node: dict[str, tuple[I64, F64]] = {}

    def note(
        self, reported: Iterable[tuple[str, MembershipGuesses | Finding]], *, time: float, round: int
    ) -> list[Row]:
        """Return one row of ``findings.csv`` per finding; call it after the report's rankings have been scored.

        Parameters
        ----------
        reported : iterable of (attack, guesses or finding)
        time : float
        round : int

        Raises
        ------
        ScenarioError
            If two findings have the same labels.
        """
        rows: dict[str, Row] = {}
        for attack, found in reported:
            for finding, is_kept in self._findings(found, round):
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
                    self._per_node[name] = finding.per_node
        return list(rows.values())

    def _findings(self, found: MembershipGuesses | Finding, round: int) -> Iterator[tuple[Finding, bool]]:
        """Yield findings, and whether the summary keeps each of them for now."""
        if isinstance(found, Finding):
            yield found, True
            return
        for row in self._truth.score(found):
            about = {name: row[name] for name in ("observer", "relevance", "momentum")}
            is_best = self._rankings.best_round(about) in (round, None)
            if is_best:
                told = {name: value for name, value in row.items() if name != "relevance"}
                self._membership[str(about)] = {"round": round, **told}
            for measure in RATES:
                rate = row[measure.removeprefix("mia_")]
                yield Finding(measure, about, math.nan if rate is None else rate), is_best

    @functools.cached_property
    def _truth(self) -> MembershipRecord:
        return MembershipRecord(self._split.train, self._split.n_items)

    def summary(self) -> dict[str, list[Row]]:
        """Return the sections of the summary; empty if nothing was found."""
        about = ("attack", "measure", "labels", "round", "value")
        findings = [{name: row[name] for name in about} for row in self._kept.values()]
        sections = {"membership": list(self._membership.values()), "findings": findings}
        return {name: rows for name, rows in sections.items() if rows}

    def per_node(self) -> list[tuple[str, I64, F64]]:
        """Return measure, node ids and values of the findings that have per-node values, as last reported."""
        return [(name, *values) for name, values in self._per_node.items()]


def _name(attack: str, finding: Finding) -> str:
    told = "/".join(filter(None, (attack, attack_key(**finding.labels))))
    return f"{finding.measure}[{told}]"
