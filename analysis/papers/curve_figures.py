"""The figures of every comparison: the methods of a table by epoch, with printed values marked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis.papers.comparison import LEVELS, Comparison, experiment_name, table_title
from analysis.papers.curves import baseline_score, metric_by_epoch_and_seed, reported_score
from analysis.papers.figure_spec import PaperFigure, SeedLine, seed_line
from analysis.papers.seed_statistics import Runs, mean
from gossiprec.figures.panels import Axis

EPOCH = Axis("epoch")


def draw_figures(drawings: Mapping[str, PaperFigure], runs: Runs, folder: Path) -> dict[str, list[Path]]:
    """Draw every figure for which there are runs; return the files of each."""
    found = {name: drawing.draw(runs, folder / name) for name, drawing in drawings.items()}
    return {name: paths for name, paths in found.items() if paths}


def drawable_figures(
    drawings: Mapping[str, PaperFigure], experiments: Iterable[str]
) -> dict[str, PaperFigure]:
    """Return the figures for which the study has all experiments."""
    there = set(experiments)
    return {name: one for name, one in drawings.items() if set(one.experiments) <= there}


def tick_whole_epochs(axes: Axes) -> None:
    """Set ticks at whole epochs."""
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))


def epoch_series(runs: Runs, name: str, experiment: str, metric: str) -> SeedLine:
    """Return a metric by epoch, in percent."""
    return seed_line(
        name, {float(epoch): own for epoch, own in metric_by_epoch_and_seed(runs, experiment, metric).items()}
    )


def sweep_series(
    paper: Comparison,
    runs: Runs,
    setting: str,
    column: str,
    look: str,
    name: str,
    methods: Mapping[float, str],
) -> SeedLine:
    """Return a number of a table at a reporting point over the values of an option, in percent.

    Parameters
    ----------
    paper : Comparison
    runs : mapping
    setting, column, look : str
    name : str
        Name of the line.
    methods : mapping of float to str
        Method by value.
    """
    found = {
        float(x): reported_score(paper, runs, experiment_name(setting, own), column, look)
        for x, own in methods.items()
    }
    return seed_line(name, found)


def table_curves(
    paper: Comparison, setting: str, table: str, some: Mapping[str, str] | None = None
) -> PaperFigure:
    """Return the figure of a table: its methods by epoch, printed values, and the orders without training.

    Parameters
    ----------
    paper : Comparison
    setting, table : str
    some : mapping of str to str, optional
        The rows to show; by default all.
    """
    rows, main = paper.rows[table] if some is None else some, paper.main_in(setting)

    def panels(runs: Runs) -> dict[str, list[SeedLine]]:
        return {column: _with_levels(paper, runs, setting, table, rows, column) for column in paper.metrics}

    return PaperFigure(
        f"{table_title(table)} by {paper.unit} ({paper.published.titles[table].lower()}), {setting}. Thin "
        "dotted: what is printed, in the colour of its method; and the orders that nobody learns.",
        setting,
        tuple(rows.values()),
        tuple(method for method in rows.values() if table == main or method not in paper.rows[main].values()),
        panels,
        Axis(paper.unit),
        Axis("%"),
        {"order": [*rows, *LEVELS], "dress": tick_whole_epochs},
    )


def _with_levels(
    paper: Comparison, runs: Runs, setting: str, table: str, rows: Mapping[str, str], column: str
) -> list[SeedLine]:
    lines = [
        epoch_series(runs, row, experiment_name(setting, method), paper.metrics[column])
        for row, method in rows.items()
    ]
    last = max((float(one.x[-1]) for one in lines if len(one.x)), default=1.0)
    ends = (1.0, max(last, 1.5))
    told = [
        SeedLine(row, ends, (100 * one.value,) * 2, kind="print")
        for (row, of), one in paper.printed_in(setting, table).items()
        if of == column and row in rows
    ]
    return [*lines, *told, *baseline_series(paper, runs, setting, column, ends)]


def baseline_series(
    paper: Comparison, runs: Runs, setting: str, column: str, ends: tuple[float, float]
) -> list[SeedLine]:
    """Return the orders that need no training as level lines, in percent."""
    found = {order: baseline_score(paper, runs, setting, column, order) for order in LEVELS}
    return [
        SeedLine(order, ends, (100 * mean(own),) * 2, kind="level") for order, own in found.items() if own
    ]
