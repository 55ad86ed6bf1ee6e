"""Section: differences to the baseline, seed by seed, with their intervals."""

from __future__ import annotations

from gossiprec.figures.study.estimates import describe_seeds
from gossiprec.figures.study.paired_differences import differences_to_baseline
from gossiprec.figures.study.quantity import format_label
from gossiprec.figures.study.table_reader import order_quantities
from gossiprec.report.blocks import Block, IntervalChart, IntervalMark, Section, block_or_choice
from gossiprec.report.study import ReportStudy

ORDER = 30
FILLED = "Filled: the interval excludes 0 (expected for 1 in 20 by chance)."


def section(study: ReportStudy) -> Section | None:
    """Return the differences in each measure, or None if there is no baseline or no seed shared with it."""
    if not study.table.baseline:
        return None
    against = ", ".join(f"{name} {format_label(value)}" for name, value in study.table.baseline.items())
    found: dict[str, Block] = {}
    for quantity in order_quantities(study.table):
        lines = differences_to_baseline(study.table, quantity)
        if lines:
            spans = [
                IntervalMark(study.name_of(d.point), d.estimate.mean, d.estimate.low, d.estimate.high)
                for d in lines
            ]
            seeds = describe_seeds(d.estimate.n for d in lines)
            title = f"{quantity.words()} minus that of {against}, same seed and other values"
            note = f"95 % t-interval of the mean difference, {seeds}. {FILLED}"
            found[quantity.words()] = IntervalChart(
                title, spans, ("from", "difference", "to"), quantity.is_share, note, apart=True
            )
    return Section("Differences from the baseline", [block_or_choice("Measure", found)]) if found else None
