"""Every number of the tables as rows of ``cells.csv``, for other programs."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.cl4fedrec.curves import LOOKS, METRICS, chosen_epochs, score
from analysis.cl4fedrec.experiments import SETTINGS, TABLE_ROWS, name_of
from analysis.cl4fedrec.published import printed
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


def csv_rows(runs: Runs) -> Iterator[list[Cell]]:
    """Yield a row for each table, setting, look and seed; rows that are not printed have no published number."""
    told = {(one.table, one.row, one.column): one.value for one in printed()}
    for table, rows in TABLE_ROWS.items():
        for row, method in rows.items():
            for column in METRICS:
                for setting in SETTINGS:
                    experiment = name_of(setting, method)
                    about: list[Cell] = [
                        table,
                        row,
                        column,
                        told.get((table, row, column)),
                        setting,
                        experiment,
                    ]
                    for look in LOOKS:
                        epochs = chosen_epochs(runs, experiment, look)
                        for seed, value in score(runs, experiment, column, look).items():
                            yield [*about, look, seed, epochs[seed], value]
