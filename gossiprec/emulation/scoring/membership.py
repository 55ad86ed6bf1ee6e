"""The accuracy of guesses at training items: guesses joined with the truth, which no attack sees."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from gossiprec.adversaries.attacks.base import MembershipGuesses
from gossiprec.adversaries.attacks.findings import RATES
from gossiprec.base.arrays import F64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.ragged import Ragged
from gossiprec.models.feeds.base import positives_bitset
from gossiprec.numerics.relevance import MIA

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
