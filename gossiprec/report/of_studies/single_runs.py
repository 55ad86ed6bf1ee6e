"""Every run of the study with what it found."""

from __future__ import annotations

from gossiprec.figures.study.quantity import shown
from gossiprec.figures.study.table import by_importance
from gossiprec.report.blocks import Column, Section, Table
from gossiprec.report.study import Study, columns_of

ORDER = 50
NOTE = "Run directories are in runs/ of the study folder; runs with a report are linked."


def section(study: Study) -> Section | None:
    """Return the table of runs; None where no run has ended."""
    table, quantities = study.table, by_importance(study.table)
    if not table.runs:
        return None
    columns = [
        *(Column(name, "text") for name in table.axes),
        Column("seed"),
        Column("run", "link"),
        *columns_of(quantities),
    ]
    rows = [
        [
            *map(shown, point),
            seed,
            study.link(run),
            *(table.values[q].get(point, {}).get(seed) for q in quantities),
        ]
        for point, seeds in table.runs.items()
        for seed, run in seeds.items()
    ]
    return Section("The runs", [Table("Runs", columns, rows, NOTE)])
