"""Claims of a paper beyond the printed orders, most of them declared in the plan, with verdicts and evidence."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from analysis.papers.comparison import BEST, LAST, Comparison, experiment_name
from analysis.papers.curves import baseline_score, has_converged, reported_score, seed_differences
from analysis.papers.printed_orders import DIGITS
from analysis.papers.sections import SummaryColumns
from analysis.papers.verdict import (
    NOT_MEASURED,
    ClaimVerdict,
    PerSeed,
    Runs,
    combine_verdicts,
    describe_margin,
    judge_margins,
    mean,
)

Evidence = Iterator[tuple[str, PerSeed]]
"""Evidence as text, and the margin of the claim by seed."""


def judge_claim(
    paper: Comparison, claim: str, evidence: Callable[[Runs, str], Evidence], runs: Runs
) -> ClaimVerdict:
    """Return the verdict on a claim, given a function that yields the evidence of a setting."""
    found = [(setting, *one) for setting in paper.settings for one in evidence(runs, setting)]
    lines = [
        f"{setting}: {words}; {describe_margin(margins, DIGITS)}"
        for setting, words, margins in found
        if margins
    ]
    verdict = combine_verdicts([judge_margins(margins) for *_, margins in found])
    return ClaimVerdict(claim, verdict, tuple(lines) or (NOT_MEASURED,))


def beats_popularity(paper: Comparison, runs: Runs) -> ClaimVerdict:
    """Return whether the methods of the main table recommend better than the most popular items."""

    def evidence(runs: Runs, setting: str) -> Evidence:
        popular = baseline_score(paper, runs, setting, paper.leading, "popularity")
        for row, method in paper.rows[paper.main_table(setting)].items():
            ours = reported_score(paper, runs, experiment_name(setting, method), paper.leading, LAST)
            if ours:
                words = f"{row}, {paper.leading} {mean(ours):.{DIGITS}f} at the last epoch"
                yield f"{words}, popularity {mean(popular):.{DIGITS}f}", seed_differences(ours, popular)

    return judge_claim(paper, "Methods recommend better than the most popular items", evidence, runs)


def judge_declared(paper: Comparison, runs: Runs) -> list[ClaimVerdict]:
    """Return the verdicts on popularity and on the claims that the plan declares, in its order."""
    return [
        beats_popularity(paper, runs),
        *(
            judge_claim(paper, one["claim"], RankingEvidence.declare(paper, one), runs)
            for one in paper.claims
        ),
    ]


@dataclass(frozen=True)
class RankingEvidence:
    """The evidence for a claim that methods recommend better than others.

    A plan declares ``rankings``, each a list of methods, the best first: of the measured ones each is compared with the
    next. A method is a method of the setting, or the name of an experiment of another setting. ``columns`` are the
    metrics, by default all; ``looks`` are the reporting points, ``best`` (the default), ``last`` or both.
    """

    paper: Comparison
    rankings: Sequence[Sequence[str]]
    columns: Sequence[str]
    looks: Sequence[str]

    @classmethod
    def declare(cls, paper: Comparison, entry: Mapping[str, Sequence[str]]) -> RankingEvidence:
        """Return the evidence that an entry of a plan declares."""
        looks = [{"last": LAST, "best": BEST}[look] for look in entry.get("looks", ("best",))]
        rankings: Sequence[Sequence[str]] = entry["rankings"]
        return cls(paper, rankings, entry.get("columns", tuple(paper.metrics)), looks)

    def __call__(self, runs: Runs, setting: str) -> Evidence:
        """Yield the lead of each method over the next one of its ranking."""
        for ranking, column, look in itertools.product(self.rankings, self.columns, self.looks):
            scores = {
                method: reported_score(self.paper, runs, self._experiment(setting, method), column, look)
                for method in ranking
            }
            for first, second in itertools.pairwise(method for method, own in scores.items() if own):
                margins = seed_differences(scores[first], scores[second])
                if margins:
                    words = self._words(setting, column, scores, (first, second))
                    yield f"{words}{self._remark(runs, setting, (first, second), look)}", margins

    def _experiment(self, setting: str, method: str) -> str:
        is_experiment = any(method.startswith(f"{other}-") for other in self.paper.settings)
        return method if is_experiment else experiment_name(setting, method)

    def _words(
        self, setting: str, column: str, scores: Mapping[str, PerSeed], methods: tuple[str, str]
    ) -> str:
        """Return both numbers and their ratio as text, with the printed ratio if both methods are printed."""
        first, second = (mean(scores[method]) for method in methods)
        words = f"{column}: {methods[0]} {first:.{DIGITS}f}, {methods[1]} {second:.{DIGITS}f}"
        table = self.paper.main_table(setting)
        numbers = {
            row: one.value
            for (row, of), one in self.paper.printed_numbers_in(setting, table).items()
            if of == column
        }
        printed = {method: numbers[row] for row, method in self.paper.rows[table].items() if numbers.get(row)}
        gains = [f"{100 * (first / second - 1):+.1f} %"] if second else []
        if all(method in printed for method in methods):
            gains.append(f"printed {100 * (printed[methods[0]] / printed[methods[1]] - 1):+.1f} %")
        return f"{words} ({', '.join(gains)})" if gains else words

    def _remark(self, runs: Runs, setting: str, methods: tuple[str, str], look: str) -> str:
        """Return the reporting point if there are several, and the methods that still improve at their best report."""
        parts = [look] if len(self.looks) > 1 else []
        rising = [
            method
            for method in methods
            if look == BEST and not has_converged(self.paper, runs, self._experiment(setting, method))
        ]
        if rising:
            parts.append(f"{' and '.join(rising)} best at the last report: perhaps not converged")
        return f" ({'; '.join(parts)})" if parts else ""


def no_more_than(
    numbers: SummaryColumns,
    methods_in: Callable[[str], Mapping[str, str]],
    columns: tuple[str, str],
    tolerance: float,
) -> Callable[[Runs, str], Evidence]:
    """Return the evidence that a number of summaries exceeds a reference by at most a tolerance.

    Parameters
    ----------
    numbers : SummaryColumns
    methods_in : callable
        Maps a setting to its methods, by label.
    columns : (str, str)
        The number and its reference.
    tolerance : float
    """

    def evidence(runs: Runs, setting: str) -> Evidence:
        for label, method in methods_in(setting).items():
            found, reference = (
                numbers.values_by_seed(runs, experiment_name(setting, method), one) for one in columns
            )
            margins = {seed: tolerance - by for seed, by in seed_differences(found, reference).items()}
            if margins:
                values = f"{columns[0]} {mean(found):.{DIGITS}f}, {columns[1]} {mean(reference):.{DIGITS}f}"
                yield f"{label}: {values}", margins

    return evidence
