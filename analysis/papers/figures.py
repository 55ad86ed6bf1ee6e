"""Figures of means over seeds: methods by epoch, sweeps of options, and levels, with printed values marked."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis.papers.comparison import (
    BEST,
    LAST,
    LEVELS,
    Comparison,
    baseline_score,
    experiment_name,
    metric_by_epoch_and_seed,
    reported_score,
    table_title,
)
from analysis.papers.verdict import PerSeed, Runs, confidence_half_width, mean
from gossiprec.base.arrays import F64
from gossiprec.figures import style
from gossiprec.figures.figure_files import Cell, write_figure
from gossiprec.figures.style import Axis, Panel, PanelLook, Series, draw_panels


@dataclass(frozen=True)
class SeedLine(Series):
    """A line of means over seeds.

    Attributes
    ----------
    low, high : sequence of float
        The ends of their 95 % intervals, if there are any.
    kind : {'', 'level', 'print'}
        ``level`` is a number that does not depend on the epoch; ``print`` is the paper's value for the line of this
        name.
    """

    low: Sequence[float] = ()
    high: Sequence[float] = ()
    kind: str = ""


@dataclass(frozen=True)
class PaperFigure:
    """A figure: its content, and how its panels are made from runs.

    Attributes
    ----------
    caption : str
    experiments : tuple of str
        The experiments that it shows, or is compared with.
    panels : callable
        Maps runs to titles of panels, each with its lines: all of them with intervals and kinds, or none.
    x, y : Axis
    look : mapping
        Arguments of :class:`gossiprec.figures.style.PanelLook`.
    setting : str
    needed : tuple of str
        If there are any, the figure is not drawn without a run of one of these experiments.
    guess : callable, optional
        Maps runs and the title of a panel to its values by guessing.
    """

    caption: str
    experiments: tuple[str, ...]
    panels: Callable[[Runs], Mapping[str, Sequence[Series]]]
    x: Axis
    y: Axis
    look: Mapping[str, Any] = field(default_factory=dict)
    setting: str = ""
    needed: tuple[str, ...] = ()
    guess: Callable[[Runs, str], Sequence[float]] = lambda runs, title: ()

    def draw(self, runs: Runs, stem: Path) -> list[Path]:
        """Draw the panels with runs; return the files written, or none if there are no runs."""
        if self.needed and not any(name in runs for name in self.needed):
            return []
        found = {title: [one for one in lines if len(one.x)] for title, lines in self.panels(runs).items()}
        panels = [
            Panel(title, lines, self.guess(runs, title))
            for title, lines in found.items()
            if any(not (isinstance(one, SeedLine) and one.kind) for one in lines)
        ]
        if not panels:
            return []
        header = ["panel", "line", self.x.label, self.y.label or "value"]
        if isinstance(panels[0].series[0], SeedLine):
            header = [*header[:2], "kind", *header[2:], "low", "high"]
        rows = [row for title, lines in found.items() for one in lines for row in _points(title, one)]
        look = PanelLook(**{"line": plot_with_band, "n_columns": 2, **self.look})
        return write_figure(stem, header, rows, lambda: draw_panels(panels, x=self.x, y=self.y, look=look))


def _points(panel: str, line: Series) -> Iterator[list[Cell]]:
    """Yield the points of a line as rows of the csv file."""
    for place, (x, y) in enumerate(zip(line.x, line.y, strict=True)):
        if isinstance(line, SeedLine):
            ends = (line.low[place], line.high[place]) if line.low else (None, None)
            yield [panel, line.name, line.kind, float(x), float(y), *ends]
        else:
            yield [panel, line.name, float(x), float(y)]


Panels = Callable[[Runs], Mapping[str, Sequence[SeedLine]]]


def setting_figure(
    caption: str,
    setting: str,
    methods: Iterable[str],
    panels: Panels,
    x: Axis,
    y: Axis,
    look: Mapping[str, Any],
    drawn: Collection[str] = (),
) -> PaperFigure:
    """Return the figure of methods in a setting; it needs a method that is not among those `drawn` elsewhere."""
    names = {method: experiment_name(setting, method) for method in methods}
    needed = tuple(name for method, name in names.items() if method not in drawn)
    return PaperFigure(caption, tuple(names.values()), panels, x, y, look, setting, needed)


def plot_with_band(axes: Axes, series: Series, look: style.LineStyle) -> None:
    """Draw a line with the band of its intervals, or a printed value as a thin line."""
    assert isinstance(series, SeedLine), "all lines here are"
    if series.kind == "print":
        axes.plot(series.x, series.y, color=look.color, linewidth=0.9, linestyle=style.THIN_DOTS)
        return
    axes.plot(series.x, series.y, markevery=max(1, len(series.x) // 6), **look.kwargs())
    if series.low:
        axes.fill_between(series.x, series.low, series.high, color=look.color, alpha=0.15, linewidth=0)


def seed_line(name: str, points: Mapping[float, PerSeed], factor: float = 100.0) -> SeedLine:
    """Return a line through means over seeds, with intervals if every point has several seeds.

    Parameters
    ----------
    name : str
    points : mapping of float to PerSeed
    factor : float
        Factor of the values: pictures show percent.
    """
    known = {x: {seed: factor * one for seed, one in own.items()} for x, own in points.items() if own}
    ends = [confidence_half_width(own) for own in known.values()]
    is_sure = bool(ends) and all(len(own) > 1 for own in known.values())
    low, high = ([end[k] for end in ends] if is_sure else [] for k in (0, 1))
    return SeedLine(name, list(known), [mean(own) for own in known.values()], low, high)


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


def method_curves(
    setting: str, caption: str, methods: Mapping[str, str], metrics: Mapping[str, str], y: Axis, **look: Any
) -> PaperFigure:
    """Return the figure of methods by epoch, with a panel per metric, given the metrics by title of the panel.

    `look` has further arguments of :class:`gossiprec.figures.style.PanelLook`.
    """

    def panels(runs: Runs) -> dict[str, list[SeedLine]]:
        return {
            title: [
                epoch_series(runs, name, experiment_name(setting, own), metric)
                for name, own in methods.items()
            ]
            for title, metric in metrics.items()
        }

    look = {"dress": tick_whole_epochs, "order": list(methods), **look}
    return setting_figure(caption, setting, methods.values(), panels, EPOCH, y, look)


def table_curves(
    paper: Comparison,
    setting: str,
    table: str,
    some: Mapping[str, str] | None = None,
    central: Mapping[str, str] | None = None,
) -> PaperFigure:
    """Return the figure of a table: its methods by epoch, printed values, and the orders without training.

    Parameters
    ----------
    paper : Comparison
    setting, table : str
    some : mapping of str to str, optional
        The rows to show; by default all.
    central : mapping of str to str, optional
        Experiments without rounds, by name: their best validation reports are level lines.
    """
    rows, main = paper.rows[table] if some is None else some, paper.main_table(setting)

    def panel(runs: Runs, column: str) -> list[SeedLine]:
        metric = paper.metrics[column]
        lines = [
            epoch_series(runs, row, experiment_name(setting, method), metric) for row, method in rows.items()
        ]
        ends = (1.0, max([1.5, *(float(one.x[-1]) for one in lines if len(one.x))]))
        lines += [
            SeedLine(row, ends, (100 * one.value,) * 2, kind="print")
            for (row, of), one in paper.printed_numbers_in(setting, table).items()
            if of == column and row in rows
        ]
        best = {name: reported_score(paper, runs, one, column, BEST) for name, one in (central or {}).items()}
        return [*lines, *baseline_series(paper, runs, setting, column, ends), *level_lines(best, ends)]

    def panels(runs: Runs) -> dict[str, list[SeedLine]]:
        return {column: panel(runs, column) for column in paper.metrics}

    return setting_figure(
        f"{table_title(table)} by {paper.unit} ({paper.published.titles[table].lower()}), {setting}. Thin "
        "dotted lines: printed values, in the colour of their method. Also shown: the orders without training.",
        setting,
        rows.values(),
        panels,
        Axis(paper.unit),
        Axis("%"),
        {"order": [*rows, *LEVELS], "dress": tick_whole_epochs},
        drawn=() if table == main else paper.rows[main].values(),
    )


def baseline_series(
    paper: Comparison, runs: Runs, setting: str, column: str, ends: tuple[float, float]
) -> list[SeedLine]:
    """Return the orders that need no training as level lines, in percent."""
    return level_lines({order: baseline_score(paper, runs, setting, column, order) for order in LEVELS}, ends)


def level_lines(values: Mapping[str, PerSeed], ends: tuple[float, float]) -> list[SeedLine]:
    """Return means over seeds as level lines in percent; nothing for a name without values."""
    return [SeedLine(name, ends, (100 * mean(own),) * 2, kind="level") for name, own in values.items() if own]


Lines = Mapping[str, Mapping[float, str]]
"""Method by line of a figure and value of an option."""


def sweep_figure(
    paper: Comparison,
    setting: str,
    caption: str,
    label: str,
    lines: Lines,
    *,
    columns: Sequence[str],
    levels: Mapping[str, str] | None = None,
) -> PaperFigure:
    """Return the figure of utility over the values of an option, at the last report and at the best.

    Parameters
    ----------
    paper : Comparison
    setting, caption : str
    label : str
        The option.
    lines : mapping
        Method by line and value.
    columns : sequence of str
        The metrics shown.
    levels : mapping of str to str, optional
        Methods shown as level lines, by name.
    """
    ends = _ends(lines)

    def panel(runs: Runs, column: str, look: str) -> list[SeedLine]:
        def score(method: str) -> PerSeed:
            return reported_score(paper, runs, experiment_name(setting, method), column, look)

        found = [
            seed_line(name, {float(x): score(method) for x, method in own.items()})
            for name, own in lines.items()
        ]
        found += level_lines({name: score(method) for name, method in (levels or {}).items()}, ends)
        return [*found, *baseline_series(paper, runs, setting, column, ends)]

    def panels(runs: Runs) -> dict[str, list[SeedLine]]:
        both = itertools.product((LAST, BEST), columns)
        return {f"{column}, {look}": panel(runs, column, look) for look, column in both}

    drawn = [method for table in paper.tables_of_setting(setting) for method in paper.rows[table].values()]
    axes = Axis(label, (0.0, None)), Axis("%")
    return setting_figure(caption, setting, _methods(lines), panels, *axes, {}, drawn)


def leakage_figure(
    paper: Comparison,
    setting: str,
    caption: str,
    label: str,
    lines: Lines,
    *,
    levels: Mapping[str, str] | None = None,
    reference: Callable[[str], str] = str,
    look: Mapping[str, Any],
) -> PaperFigure:
    """Return the figure of numbers of summaries over a privacy budget.

    Parameters
    ----------
    paper : Comparison
    setting, caption, label : str
    lines : mapping
        Method by line and budget.
    levels : mapping of str to str, optional
        Methods shown as level lines, by name.
    reference : callable
        Maps the column of a reference to the name of its line.
    look : mapping
    """
    levels = levels or {}
    methods = (*_methods(lines), *levels.values())

    def panel(runs: Runs, column: str, guess: str) -> list[SeedLine]:
        def number(method: str, column: str) -> PerSeed:
            return paper.leakage.values_by_seed(runs, experiment_name(setting, method), column)

        found = [
            seed_line(name, {x: number(method, column) for x, method in own.items()})
            for name, own in lines.items()
        ]
        level = {name: number(method, column) for name, method in levels.items()}
        if guess:  # it is equal for all budgets: the first run of each seed that reports it
            values: PerSeed = {}
            for method in methods:
                values = {**number(method, guess), **values}
            level[reference(guess)] = values
        return [*found, *level_lines(level, _ends(lines))]

    def panels(runs: Runs) -> dict[str, list[SeedLine]]:
        return {title: panel(runs, *columns) for title, columns in paper.leakage.shown.items()}

    x, y = Axis(label, (0.0, None)), Axis("%", (0.0, 102.0))
    return setting_figure(caption, setting, methods, panels, x, y, look)


def _methods(lines: Lines) -> tuple[str, ...]:
    return tuple(method for own in lines.values() for method in own.values())


def _ends(lines: Lines) -> tuple[float, float]:
    values = [value for own in lines.values() for value in own]
    return min(values), max(values)


def draw_heat_map(
    axes: Axes, values: F64, blank: Sequence[str], *, colours: str, white_above: float, **text: Any
) -> None:
    """Draw percentages as darkness and numbers, with the labels of columns above.

    Parameters
    ----------
    axes : Axes
    values : ndarray, shape (n_rows, n_columns)
        Percentages; NaN for none.
    blank : sequence of str
        Text of the fields without a value, by row.
    colours : str
        Name of a colour map.
    white_above : float
        Value above which a number is white.
    text : dict
        Further arguments of :meth:`matplotlib.axes.Axes.text`.
    """
    shown = np.ma.masked_invalid(np.clip(values, 0, 100))
    axes.imshow(shown, cmap=mpl.colormaps[colours], vmin=0, vmax=120, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        number = f"{value:.0f}".replace("-0", "0") if np.isfinite(value) else blank[row]
        color = "white" if value > white_above else "black"
        axes.text(column, row, number, ha="center", va="center", color=color, **text)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
