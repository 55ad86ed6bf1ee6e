"""The uniformity of item vectors at the end of runs, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.cl4fedrec import uniformity
from analysis.cl4fedrec.experiments import SETTINGS, TABLE_ROWS
from analysis.papers.comparison import experiment_name
from analysis.papers.document import DocumentBlock, Grid, GridCell, GridColumn, Heading, ParagraphBlock
from analysis.papers.seed_statistics import Runs
from gossiprec.runs import Run


def uniformity_tables(runs: Runs) -> Iterator[DocumentBlock]:
    """Yield the uniformity of item vectors at the end of each run of Table 2."""
    rows = []
    for setting in SETTINGS:
        for row, method in TABLE_ROWS["table2"].items():
            kept = [run for run in runs.get(experiment_name(setting, method), {}).values() if run.version]
            if kept:
                rows.append([GridCell(setting), GridCell(row), *_numbers(kept)])
    if rows:
        yield Heading(2, "Item vectors", "vectors")
        yield ParagraphBlock(
            "Uniformity (Wang and Isola: 0 where all point one way, lower where they are spread) among the 100 items "
            "with most training interactions and among the others, the mean cosine of one of each, and the correlation "
            "norm of the paper's equation 12; at the end, means over seeds."
        )
        titles = ("setting", "method", "popular", "others", "popular with others, cosine", "correlation norm")
        yield Grid("Item vectors", [GridColumn(title) for title in titles], rows, 2)


def _numbers(kept: Sequence[Run]) -> list[GridCell]:
    found = [uniformity.uniformity_numbers(run.version["items"], run.version["popularity"]) for run in kept]
    return [GridCell(f"{sum(own[name] for own in found) / len(found):z.3f}") for name in found[0]]
