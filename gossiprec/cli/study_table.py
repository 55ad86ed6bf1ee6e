"""The means of a study as a table for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossiprec.figures.study.estimates import NOTE, tabulate_means
from gossiprec.figures.study.table_reader import StudyTable

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table

MOST_COLUMNS = 5
MOST_ROWS = 40


def means_table(table: StudyTable) -> Table:
    """Return a table with a row per combination of the varying axes and a column for each of the first measures."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    told = tabulate_means(table, most_rows=MOST_ROWS, most_columns=MOST_COLUMNS)
    found = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False, header_style="")
    for name in told.axes:
        found.add_column(name, vertical="bottom", overflow="fold")
    for heading in told.headings:
        found.add_column(heading, justify="right", vertical="bottom")
    for row in told.rows:
        found.add_row(*row)
    return found


def format_table_note(table: StudyTable, folder: Path) -> str:
    """Return how to read the table, what it leaves out, and the commands to continue with."""
    told = tabulate_means(table, most_rows=MOST_ROWS, most_columns=MOST_COLUMNS)
    left = [f"{told.more_rows} more combinations"] if told.more_rows else []
    left += [f"{told.more_columns} more measures"] if told.more_columns else []
    lines = [NOTE]
    lines += [f"In {folder / 'table.csv'}: {' and '.join(left)}."] if left else []
    kind = " --kind paired" if table.baseline and not table.picture else ""
    lines += [f"figures       gossiprec plot study {folder}{kind}"] if table.varying else []
    return "\n".join([*lines, f"report        gossiprec report {folder}"])
