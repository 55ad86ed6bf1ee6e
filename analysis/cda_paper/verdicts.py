"""What becomes of each printed number: within its band, near it, outside, or not to be said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from analysis.cda_paper.cells import Cell, all_cells
from analysis.cda_paper.published import Printed, printed
from analysis.papers.seeds import PerSeed, Runs
from analysis.papers.verdict import Verdict, agreement


def judge(number: Printed, values: PerSeed) -> Verdict:
    """Return how the measured values of a printed number, by seed, agree with its band."""
    return agreement(number.band, values)


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
