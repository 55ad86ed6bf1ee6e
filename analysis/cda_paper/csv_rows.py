"""Every number of the report as rows of ``cells.csv``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.cda_paper.cells import ReportCell
from analysis.cda_paper.measures import RULES
from analysis.cda_paper.verdicts import NumberResults
from analysis.papers.seed_statistics import Runs

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
