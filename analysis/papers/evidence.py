"""Claims judged in every setting of a comparison, each with what was found for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from analysis.papers.claims import NOT_MEASURED, Finding, decided, in_words, together
from analysis.papers.comparison import LAST, Comparison, name_of
from analysis.papers.curves import differences, level, score
from analysis.papers.seeds import PerSeed, Runs, mean

DIGITS = 4
Evidence = Iterator[tuple[str, PerSeed]]
"""What was found, in words, and by how much the claim holds, by seed."""


def judged(paper: Comparison, claim: str, evidence: Callable[[Runs, str], Evidence], runs: Runs) -> Finding:
    """Return what became of a claim, given what yields the evidence of a setting."""
    found = [(setting, *one) for setting in paper.settings for one in evidence(runs, setting)]
    lines = [
        f"{setting}: {words}; {in_words(margins, DIGITS)}" for setting, words, margins in found if margins
    ]
    verdict = together([decided(margins) for *_, margins in found])
    return Finding(claim, verdict, tuple(lines) or (NOT_MEASURED,))


def above_popularity(paper: Comparison, runs: Runs) -> Finding:
    """Return whether the methods of the main table recommend better than the most popular items."""

    def evidence(runs: Runs, setting: str) -> Evidence:
        popular = level(paper, runs, setting, paper.leading, "popularity")
        for row, method in paper.rows[paper.main_in(setting)].items():
            ours = score(paper, runs, name_of(setting, method), paper.leading, LAST)
            if ours:
                beside = f"popularity {mean(popular):.{DIGITS}f}"
                said = f"{row}, {paper.leading} {mean(ours):.{DIGITS}f} at the last epoch, {beside}"
                yield said, differences(ours, popular)

    return judged(paper, "Methods recommend better than the most popular items", evidence, runs)
