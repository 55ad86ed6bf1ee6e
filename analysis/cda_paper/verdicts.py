"""What becomes of each printed number: within its band, near it, outside, or not to be said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np

from analysis.cda_paper.cells import Cell, all_cells
from analysis.cda_paper.measures import PerSeed, Runs, interval, mean
from analysis.cda_paper.published import Printed, printed

_ROUNDING = 1e-9


class Verdict(Enum):
    """The agreement of a number with the print, the best first: a mark, a word and what it means."""

    WITHIN = ("✓", "within", "our mean lies in the band around the print")
    NEAR = ("≈", "near", "only the 95 % interval over our seeds reaches the band")
    OUTSIDE = ("✗", "outside", "neither does")
    NOT_RUN = ("–", "not run", "no finished run gives it: see Missing")
    UNJUDGED = ("○", "not judged", "no single number, no run, or a time of another machine")

    def __init__(self, mark: str, word: str, meaning: str) -> None:
        self.mark = mark
        self.word = word
        self.meaning = meaning

    def __lt__(self, other: Verdict) -> bool:
        """Say whether this one is better."""
        order = list(Verdict)
        return order.index(self) < order.index(other)


def judge(number: Printed, values: PerSeed) -> Verdict:
    """Return how the measured values of a printed number, by seed, agree with its band."""
    if number.band is None:
        return Verdict.UNJUDGED
    middle = mean(values)
    if not np.isfinite(middle):
        return Verdict.NOT_RUN
    low, high = number.band
    by = _ROUNDING * max(abs(low), abs(high))
    if low - by <= middle <= high + by:
        return Verdict.WITHIN
    least, most = interval(values)  # NaN with one seed, which reaches nothing
    return Verdict.NEAR if least <= high and most >= low else Verdict.OUTSIDE


@dataclass(frozen=True)
class Result:
    """A cell and what the runs say of it."""

    cell: Cell
    values: PerSeed
    verdict: Verdict

    @property
    def setting(self) -> str:
        """What was run, and under which relevance rule if that matters."""
        parts = [self.cell.variant] if self.cell.variant else []
        if self.cell.measure and self.cell.measure.uses_rule:
            parts.append(self.cell.rule)
        return "; ".join(parts)


@dataclass(frozen=True)
class Group:
    """A number of the paper with the result of each setting; the first is the setting compared first."""

    printed: Printed
    results: tuple[Result, ...]

    @property
    def first(self) -> Result:
        """That of the setting compared first."""
        return self.results[0]

    @cached_property
    def best(self) -> Result:
        """The nearest to the print; of equals, the first."""
        return min(self.results, key=lambda result: result.verdict)

    @property
    def shown(self) -> Result:
        """The first of which there is a run; the first of all if there is none."""
        return next((result for result in self.results if result.values), self.first)


def groups(runs: Runs) -> list[Group]:
    """Return every number of the report, in the order of the paper."""
    found: dict[Printed, list[Result]] = {}
    for cell in all_cells():
        found.setdefault(cell.printed, []).append(result(cell, runs))
    return [Group(number, tuple(results)) for number, results in found.items()]


def result(cell: Cell, runs: Runs) -> Result:
    """Return what the runs say of a cell."""
    values = cell.measure.per_seed(runs, cell.rule) if cell.measure else {}
    verdict = judge(cell.printed, values) if cell.measure else Verdict.UNJUDGED
    return Result(cell, values, verdict)


def judged(found: Iterable[Group]) -> list[Group]:
    """Return the groups of printed numbers, each once: without second readings, and what is not printed."""
    wanted = set(printed())
    return [group for group in found if group.printed in wanted]


def counts(results: Iterable[Result]) -> list[int]:
    """Return how many results there are of each verdict, in their order."""
    counted = Counter(result.verdict for result in results)
    return [counted[verdict] for verdict in Verdict]
