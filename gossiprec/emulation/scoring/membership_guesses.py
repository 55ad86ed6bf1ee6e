"""Guesses at single training items, joined with the truth, which no attack sees."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from gossiprec.adversaries.attacks import MembershipGuesses
from gossiprec.adversaries.attacks.findings import RATES, Finding
from gossiprec.base.arrays import F32, F64, I64
from gossiprec.emulation.scoring.judges import JUDGES, Judge, Judged, Truth, finding_of_group
from gossiprec.emulation.scoring.ranking_scores import RankingScores
from gossiprec.emulation.scoring.result_checks import check_ids, check_offsets, check_once, check_shape
from gossiprec.numerics.relevance import MIA

Row = dict[str, Any]


@JUDGES.register("membership-guesses")
class MembershipJudge(Judge):
    """Accuracy, precision and recall of guesses over a run.

    A pair is a victim met and an item of an adversary other than the victim; the truth is whether the item is among the
    victim's training items. The summary keeps the guesses of the report at which the ranking made of them is best, or
    the last if no ranking is made of them.
    """

    checkpointed = ("membership",)

    def __init__(self, truth: Truth, rankings: RankingScores) -> None:
        super().__init__(truth, rankings)
        self._membership: dict[str, Row] = {}

    def summary(self) -> dict[str, list[Row]]:
        """Return the rates that are kept."""
        return {"membership": list(self._membership.values())}

    def judge(self, guesses: MembershipGuesses, round: int) -> Judged:
        """Yield the rates of guesses, about the victims of each group and about all."""
        for group in self._truth.groups:
            shared = np.flatnonzero(np.isin(guesses.victims, group.users))
            hidden = np.flatnonzero(np.isin(guesses.hidden, group.users))
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
                        yield finding_of_group(group, rate), is_best
        for row, rates, is_best in self._rates_of(guesses, round):
            if is_best:
                kept = {name: value for name, value in row.items() if name != "relevance"}
                self._membership[str(rates[0].labels)] = {"round": round, **kept}
            yield from ((rate, is_best) for rate in rates)

    def _rates_of(self, guesses: MembershipGuesses, round: int) -> Iterator[tuple[Row, list[Finding], bool]]:
        """Yield the row of each threshold, its rates as findings, and whether the summary keeps them for now."""
        for row in self.rows(guesses):
            about = {name: row[name] for name in ("observer", "relevance", "momentum")}
            is_best = self._rankings.best_round(about) in (round, None)
            rates = {measure: row[measure.removeprefix("mia_")] for measure in RATES}
            found = [Finding(name, about, math.nan if rate is None else rate) for name, rate in rates.items()]
            yield row, found, is_best

    def rows(self, guesses: MembershipGuesses) -> list[Row]:
        """Return the rates of each threshold; a rate without cases is None.

        Raises
        ------
        PluginError
            If the guesses name victims or items that do not exist or are repeated, or do not say which adversary
            queries which item.
        """
        self._check(guesses)
        counts = self._of_sharing(guesses) + self._of_hidden(guesses)
        about = {"observer": guesses.observer, "momentum": guesses.momentum}
        return [
            {**about, "threshold": threshold, "relevance": f"{MIA}{threshold:g}", **_rates(*count)}
            for threshold, count in zip(guesses.thresholds, counts.tolist(), strict=True)
        ]

    def _check(self, guesses: MembershipGuesses) -> None:
        (n_users, n_items), ends = self._truth.is_member.shape, guesses.offsets
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
        guessed = np.bincount(guesses.items, minlength=self._truth.is_member.shape[1])
        truth = self._truth.is_member[guesses.victims]
        times = np.broadcast_to(guessed, truth.shape).copy()
        # An adversary queries its items at all victims but itself.
        asker = np.repeat(guesses.adversaries, np.diff(guesses.offsets))
        row_of = np.full(len(self._truth.is_member), -1, np.int64)
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
            truth = self._truth.is_member[np.ix_(guesses.hidden[others], items)]
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


def _some_rows(table_of: Callable[[int], F32], rows: I64, adversary: int) -> F32:
    """Return some rows of the table of an adversary."""
    return table_of(adversary)[rows]
