"""What becomes of each printed number: within its band, near it, outside, or not to be said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from analysis.cda_paper.cells import ReportCell, report_cells
from analysis.cda_paper.published import PrintedCell, printed_numbers
from analysis.papers.seed_statistics import PerSeed, Runs
from analysis.papers.verdict import Verdict, judge_agreement


def judge_number(number: PrintedCell, values: PerSeed) -> Verdict:
    """Return how the measured values of a printed number, by seed, agree with its band."""
    return judge_agreement(number.band, values)


@dataclass(frozen=True)
class CellResult:
    """A cell and what the runs say of it."""

    cell: ReportCell
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
class NumberResults:
    """A number of the paper with the result of each setting; the first is the setting compared first."""

    printed: PrintedCell
    results: tuple[CellResult, ...]

    @property
    def first(self) -> CellResult:
        """That of the setting compared first."""
        return self.results[0]

    @cached_property
    def best(self) -> CellResult:
        """The nearest to the print; of equals, the first."""
        return min(self.results, key=lambda result: result.verdict)

    @property
    def shown(self) -> CellResult:
        """The first of which there is a run; the first of all if there is none."""
        return next((result for result in self.results if result.values), self.first)


def number_results(runs: Runs) -> list[NumberResults]:
    """Return every number of the report, in the order of the paper."""
    found: dict[PrintedCell, list[CellResult]] = {}
    for cell in report_cells():
        found.setdefault(cell.printed, []).append(cell_result(cell, runs))
    return [NumberResults(number, tuple(results)) for number, results in found.items()]


def cell_result(cell: ReportCell, runs: Runs) -> CellResult:
    """Return what the runs say of a cell."""
    values = cell.measure.per_seed(runs, cell.rule) if cell.measure else {}
    verdict = judge_number(cell.printed, values) if cell.measure else Verdict.UNJUDGED
    return CellResult(cell, values, verdict)


def printed_results(found: Iterable[NumberResults]) -> list[NumberResults]:
    """Return the groups of printed numbers, each once: without second readings, and what is not printed."""
    wanted = set(printed_numbers())
    return [group for group in found if group.printed in wanted]


def count_verdicts(results: Iterable[CellResult]) -> list[int]:
    """Return how many results there are of each verdict, in their order."""
    counted = Counter(result.verdict for result in results)
    return [counted[verdict] for verdict in Verdict]
