"""Every number of the tables as rows of ``cells.csv``, for other programs."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.papers.comparison import Comparison, name_of
from analysis.papers.curves import chosen_epochs, score
from analysis.papers.seeds import Runs
from gossiprec.figures.output import Cell

CSV_HEADER = (
    "table",
    "row",
    "column",
    "published",
    "setting",
    "experiment",
    "look",
    "seed",
    "epoch",
    "measured",
)


def csv_rows(paper: Comparison, runs: Runs) -> Iterator[list[Cell]]:
    """Yield a row for each table, setting, look and seed; rows that are not printed have no published number."""
    for table, rows in paper.rows.items():
        for row, method in rows.items():
            for column in paper.metrics:
                for setting in paper.settings:
                    if table not in paper.tables_in(setting):
                        continue
                    number = paper.printed_in(setting, table).get((row, column))
                    experiment = name_of(setting, method)
                    about: list[Cell] = [
                        table,
                        row,
                        column,
                        number.value if number else None,
                        setting,
                        experiment,
                    ]
                    for look in paper.looks:
                        epochs = chosen_epochs(paper, runs, experiment, look)
                        for seed, value in score(paper, runs, experiment, column, look).items():
                            yield [*about, look, seed, epochs[seed], value]
