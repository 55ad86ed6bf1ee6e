"""Differences to the baseline, seed by seed, with their intervals."""

from __future__ import annotations

from gossiprec.figures.study.numbers import seeds_in_words
from gossiprec.figures.study.paired import differences_to_baseline
from gossiprec.figures.study.quantity import shown
from gossiprec.figures.study.table import by_importance
from gossiprec.report.blocks import Block, Section, Span, Spans, one_of
from gossiprec.report.study import Study

ORDER = 30
FILLED = "Filled: the interval excludes 0 (expected for 1 in 20 by chance)."


def section(study: Study) -> Section | None:
    """Return the differences in each measure; None without a baseline, or where no run shares its seed with one."""
    if not study.table.baseline:
        return None
    against = ", ".join(f"{name} {shown(value)}" for name, value in study.table.baseline.items())
    found: dict[str, Block] = {}
    for quantity in by_importance(study.table):
        lines = differences_to_baseline(study.table, quantity)
        if lines:
            spans = [
                Span(study.name_of(d.point), d.estimate.mean, d.estimate.low, d.estimate.high) for d in lines
            ]
            seeds = seeds_in_words(d.estimate.n for d in lines)
            title = f"{quantity.words()} minus that of {against}, same seed and other values"
            note = f"95 % t-interval of the mean difference, {seeds}. {FILLED}"
            found[quantity.words()] = Spans(
                title, spans, ("from", "difference", "to"), quantity.is_share, note, apart=True
            )
    return Section("Differences from the baseline", [one_of("Measure", found)]) if found else None
