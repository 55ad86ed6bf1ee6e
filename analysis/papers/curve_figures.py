"""The figures of every comparison: the methods of a table by epoch, with the print marked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis.papers.comparison import LEVELS, Comparison, name_of, table_in_words
from analysis.papers.curves import level, over_seeds, score
from analysis.papers.drawing import Drawing, Line, line_of
from analysis.papers.seeds import Runs, mean
from gossiprec.figures.panels import Axis

EPOCH = Axis("epoch")


def draw_figures(drawings: Mapping[str, Drawing], runs: Runs, folder: Path) -> dict[str, list[Path]]:
    """Draw every figure for which there are runs; return the files of each."""
    found = {name: drawing.draw(runs, folder / name) for name, drawing in drawings.items()}
    return {name: paths for name, paths in found.items() if paths}


def drawable(drawings: Mapping[str, Drawing], experiments: Iterable[str]) -> dict[str, Drawing]:
    """Return the figures all of whose experiments the study has."""
    there = set(experiments)
    return {name: one for name, one in drawings.items() if set(one.experiments) <= there}


def whole_epochs(axes: Axes) -> None:
    """Mark whole epochs."""
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))


def by_epoch(runs: Runs, name: str, experiment: str, metric: str) -> Line:
    """Return a metric by epoch, in percent."""
    return line_of(name, {float(epoch): own for epoch, own in over_seeds(runs, experiment, metric).items()})


def over_option(
    paper: Comparison,
    runs: Runs,
    setting: str,
    column: str,
    look: str,
    name: str,
    methods: Mapping[float, str],
) -> Line:
    """Return a number of a table in a look over the values of an option, in percent.

    Parameters
    ----------
    paper : Comparison
    runs : mapping
    setting, column, look : str
    name : str
        Of the line.
    methods : mapping of float to str
        Value -> method.
    """
    found = {float(x): score(paper, runs, name_of(setting, own), column, look) for x, own in methods.items()}
    return line_of(name, found)


def table_curves(
    paper: Comparison, setting: str, table: str, some: Mapping[str, str] | None = None
) -> Drawing:
    """Return the figure of a table: its methods by epoch, what is printed, and the orders that nobody learns.

    Parameters
    ----------
    paper : Comparison
    setting, table : str
    some : mapping of str to str, optional
        Those of its rows that are shown; all, if not given.
    """
    rows, main = paper.rows[table] if some is None else some, paper.main_in(setting)

    def panels(runs: Runs) -> dict[str, list[Line]]:
        return {column: _with_levels(paper, runs, setting, table, rows, column) for column in paper.metrics}

    return Drawing(
        f"{table_in_words(table)} by {paper.unit} ({paper.published.titles[table].lower()}), {setting}. Thin "
        "dotted: what is printed, in the colour of its method; and the orders that nobody learns.",
        setting,
        tuple(rows.values()),
        tuple(method for method in rows.values() if table == main or method not in paper.rows[main].values()),
        panels,
        Axis(paper.unit),
        Axis("%"),
        {"order": [*rows, *LEVELS], "dress": whole_epochs},
    )


def _with_levels(
    paper: Comparison, runs: Runs, setting: str, table: str, rows: Mapping[str, str], column: str
) -> list[Line]:
    lines = [
        by_epoch(runs, row, name_of(setting, method), paper.metrics[column]) for row, method in rows.items()
    ]
    last = max((float(one.x[-1]) for one in lines if len(one.x)), default=1.0)
    ends = (1.0, max(last, 1.5))
    told = [
        Line(row, ends, (100 * one.value,) * 2, kind="print")
        for (row, of), one in paper.printed_in(setting, table).items()
        if of == column and row in rows
    ]
    return [*lines, *told, *levels(paper, runs, setting, column, ends)]


def levels(paper: Comparison, runs: Runs, setting: str, column: str, ends: tuple[float, float]) -> list[Line]:
    """Return the orders that nobody learns, in percent, from one end to the other."""
    found = {order: level(paper, runs, setting, column, order) for order in LEVELS}
    return [Line(order, ends, (100 * mean(own),) * 2, kind="level") for order, own in found.items() if own]
