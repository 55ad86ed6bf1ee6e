"""What a study has found, as a table for a terminal: means over seeds with their intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gossiprec.figures.study.numbers import Estimate, estimate
from gossiprec.figures.study.table import Point, Quantity, StudyTable, by_importance, shown

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table

MOST_COLUMNS = 5
MOST_ROWS = 40


def means_table(table: StudyTable) -> Table:
    """Return a line for each combination of the axes that vary, a column for each of the first measures."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    found = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False, header_style="")
    quantities = by_importance(table)[:MOST_COLUMNS]
    for name in table.varying:
        found.add_column(name, vertical="bottom", overflow="fold")
    for quantity in quantities:
        found.add_column(_heading(quantity), justify="right", vertical="bottom")
    for point in _points(table)[:MOST_ROWS]:
        labels = [shown(point[table.axis(name)]) for name in table.varying]
        found.add_row(*labels, *(_cell(table, quantity, point) for quantity in quantities))
    return found


def note(table: StudyTable, folder: Path) -> str:
    """Return how to read the table, what it leaves out, and the commands that go on from there."""
    n_rows, n_columns = len(_points(table)), len(table.values)
    left = [f"{n_rows - MOST_ROWS} more combinations"] if n_rows > MOST_ROWS else []
    left += [f"{n_columns - MOST_COLUMNS} more measures"] if n_columns > MOST_COLUMNS else []
    lines = ["Means over seeds, with half of the 95 % interval where there are several seeds."]
    lines += [f"In {folder / 'table.csv'}: {' and '.join(left)}."] if left else []
    kind = " --kind paired" if table.baseline else ""
    lines += [f"pictures      gossiprec plot study {folder}{kind}"] if table.varying else []
    return "\n".join([*lines, f"on one page   gossiprec report {folder}"])


def _points(table: StudyTable) -> list[Point]:
    return list(dict.fromkeys(point for points in table.values.values() for point in points))


def _heading(quantity: Quantity) -> str:
    words = {"max_aac": "max AAC"}.get(quantity.name, quantity.name)
    about = [str(value) for name, value in quantity.labels.items() if name in ("observer", "relevance")]
    return "\n".join([*about, f"{words} (%)" if quantity.is_share else words])


def _cell(table: StudyTable, quantity: Quantity, point: Point) -> str:
    seeds = table.values[quantity].get(point)
    if not seeds:
        return "-"
    return _words(estimate(seeds.values()).scaled(quantity.factor), places=1 if quantity.is_share else None)


def _words(found: Estimate, *, places: int | None) -> str:
    half = (found.high - found.low) / 2
    if places is None:
        return f"{found.mean:,.4g}" + ("" if math.isnan(half) else f" ± {half:,.2g}")
    return f"{found.mean:.{places}f}" + ("" if math.isnan(half) else f" ± {half:.{places}f}")
