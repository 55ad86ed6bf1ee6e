"""Claims judged in every setting of a comparison, each with its evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from analysis.papers.comparison import LAST, Comparison, experiment_name
from analysis.papers.curves import baseline_score, reported_score, seed_differences
from analysis.papers.seed_statistics import PerSeed, Runs, mean
from analysis.papers.verdict import (
    NOT_MEASURED,
    ClaimVerdict,
    combine_verdicts,
    decide,
    describe_margin,
)

DIGITS = 4
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
    verdict = combine_verdicts([decide(margins) for *_, margins in found])
    return ClaimVerdict(claim, verdict, tuple(lines) or (NOT_MEASURED,))


def beats_popularity(paper: Comparison, runs: Runs) -> ClaimVerdict:
    """Return whether the methods of the main table recommend better than the most popular items."""

    def evidence(runs: Runs, setting: str) -> Evidence:
        popular = baseline_score(paper, runs, setting, paper.leading, "popularity")
        for row, method in paper.rows[paper.main_in(setting)].items():
            ours = reported_score(paper, runs, experiment_name(setting, method), paper.leading, LAST)
            if ours:
                beside = f"popularity {mean(popular):.{DIGITS}f}"
                said = f"{row}, {paper.leading} {mean(ours):.{DIGITS}f} at the last epoch, {beside}"
                yield said, seed_differences(ours, popular)

    return judge_claim(paper, "Methods recommend better than the most popular items", evidence, runs)
