"""Section: every run of the study with its results."""

from __future__ import annotations

from gossiprec.figures.study.quantity import format_label
from gossiprec.figures.study.table_reader import order_quantities
from gossiprec.report.blocks import Section, TableBlock, TableColumn
from gossiprec.report.study import ReportStudy, quantity_columns

ORDER = 50
NOTE = "Run directories are in runs/ of the study folder; runs with a report are linked."


def section(study: ReportStudy) -> Section | None:
    """Return the table of runs, or None if no run has ended."""
    table, quantities = study.table, order_quantities(study.table)
    if not table.runs:
        return None
    columns = [
        *(TableColumn(name, "text") for name in table.axes),
        TableColumn("seed"),
        TableColumn("run", "link"),
        *quantity_columns(quantities),
    ]
    rows = [
        [
            *map(format_label, point),
            seed,
            study.link(run),
            *(table.values[q].get(point, {}).get(seed) for q in quantities),
        ]
        for point, seeds in table.runs.items()
        for seed, run in seeds.items()
    ]
    return Section("The runs", [TableBlock("Runs", columns, rows, NOTE)])
