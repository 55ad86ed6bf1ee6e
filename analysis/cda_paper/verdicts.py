"""Results of cells with their verdicts, and all of them as rows of ``cells.csv``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from analysis.cda_paper.cells import ReportCell, report_cells
from analysis.cda_paper.experiments import PUBLISHED
from analysis.cda_paper.measures import RULES
from analysis.papers.comparison import PrintedNumber
from analysis.papers.verdict import PerSeed, Runs, Verdict, judge_agreement


def judge_number(number: PrintedNumber, values: PerSeed) -> Verdict:
    """Return the agreement of measured values, by seed, with the band of a printed number."""
    return judge_agreement(number.band, values)


@dataclass(frozen=True)
class CellResult:
    """A cell and its result from the runs."""

    cell: ReportCell
    values: PerSeed
    verdict: Verdict

    @property
    def setting(self) -> str:
        """The setting that was run, with the relevance rule if that matters."""
        parts = [self.cell.variant] if self.cell.variant else []
        if self.cell.measure and self.cell.measure.uses_rule:
            parts.append(self.cell.rule)
        return "; ".join(parts)


@dataclass(frozen=True)
class NumberResults:
    """A number of the paper with the result of each setting, the setting compared first at the front."""

    printed: PrintedNumber
    results: tuple[CellResult, ...]

    @property
    def first(self) -> CellResult:
        """The result of the setting compared first."""
        return self.results[0]

    @cached_property
    def best(self) -> CellResult:
        """The result nearest to the printed number; on ties, the first."""
        return min(self.results, key=lambda result: result.verdict)

    @property
    def shown(self) -> CellResult:
        """The first result with a run, or the first of all if there is none."""
        return next((result for result in self.results if result.values), self.first)


def number_results(runs: Runs) -> list[NumberResults]:
    """Return every number of the report, in the order of the paper."""
    found: dict[PrintedNumber, list[CellResult]] = {}
    for cell in report_cells():
        found.setdefault(cell.printed, []).append(cell_result(cell, runs))
    return [NumberResults(number, tuple(results)) for number, results in found.items()]


def cell_result(cell: ReportCell, runs: Runs) -> CellResult:
    """Return the result of a cell from the runs."""
    values = cell.measure.per_seed(runs, cell.rule) if cell.measure else {}
    verdict = judge_number(cell.printed, values) if cell.measure else Verdict.UNJUDGED
    return CellResult(cell, values, verdict)


def printed_results(found: Iterable[NumberResults]) -> list[NumberResults]:
    """Return the groups of printed numbers, each once, without second readings and unprinted numbers."""
    wanted = set(PUBLISHED.printed)
    return [group for group in found if group.printed in wanted]


def count_verdicts(results: Iterable[CellResult]) -> list[int]:
    """Return the number of results per verdict, in the order of the verdicts."""
    counted = Counter(result.verdict for result in results)
    return [counted[verdict] for verdict in Verdict]


CSV_HEADER = (
    "table", "dataset", "row", "column", "published", "band_low", "band_high",
    "variant", "place", "rule", "verdict", "relevance", "seed", "measured",
)  # fmt: skip
Row = list[str | int | float | None]


def csv_rows(found: Sequence[NumberResults], runs: Runs) -> Iterator[Row]:
    """Yield a row for each seed and relevance rule.

    ``variant`` is the setting, and ``place`` is 1 for the setting compared first. ``rule`` is the relevance rule that
    is compared with the printed number, and ``verdict`` the result over all seeds. ``relevance`` is the rule of the
    number itself. Attacks also have rows for the rules that no setting compares.
    """
    for group in found:
        number = group.printed
        low, high = number.band or (None, None)
        about: Row = [number.table, number.dataset, number.row, number.column, number.value, low, high]
        for place, result in enumerate(group.results, start=1):
            cell, measure = result.cell, result.cell.measure
            if measure is None:
                continue
            rule = cell.rule if measure.uses_rule else ""
            for relevance in (rule, *_others(group, cell)) if rule else ("",):
                for seed, value in measure.per_seed(runs, relevance or cell.rule).items():
                    own: Row = [cell.variant, place, rule, result.verdict.word, relevance, seed, value]
                    yield [*about, *own]


def _others(group: NumberResults, cell: ReportCell) -> list[str]:
    """Return the further rules for which a cell's numbers are written: those without a cell of their own."""
    if cell.attack is None:
        return []
    same = [one.cell for one in group.results if one.cell.measure == cell.measure]
    compared = {one.rule for one in same}
    return [rule for rule in RULES if rule not in compared] if cell is same[0] else []
