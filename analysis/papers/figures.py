"""Figures of means over seeds: methods by epoch, sweeps of options, and levels, with printed values marked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis.papers.comparison import (
    BEST,
    LAST,
    LEVELS,
    Comparison,
    SummaryColumns,
    baseline_score,
    experiment_name,
    metric_by_epoch_and_seed,
    reported_score,
    table_title,
)
from analysis.papers.verdict import PerSeed, Runs, confidence_half_width, mean
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

    def rows(self, panel: str) -> Iterator[list[Cell]]:
        """Yield its points as rows of the csv file."""
        for place, (x, y) in enumerate(zip(self.x, self.y, strict=True)):
            ends = (self.low[place], self.high[place]) if self.low else (None, None)
            yield [panel, self.name, self.kind, float(x), float(y), *ends]


@dataclass(frozen=True)
class PaperFigure:
    """A figure: its content, and how its panels are made from runs.

    Attributes
    ----------
    caption : str
    setting : str
    methods : tuple of str
        Methods that it shows.
    own : tuple of str
        The methods that no other figure shows: without a run of one of these it is not drawn.
    panels : callable
        Maps runs to titles of panels, each with its lines.
    x, y : Axis
    look : mapping
        Arguments of :class:`gossiprec.figures.style.PanelLook`.
    """

    caption: str
    setting: str
    methods: tuple[str, ...]
    own: tuple[str, ...]
    panels: Callable[[Runs], Mapping[str, Sequence[SeedLine]]]
    x: Axis
    y: Axis
    look: Mapping[str, Any] = field(default_factory=dict)

    @property
    def experiments(self) -> tuple[str, ...]:
        """The experiments that it shows."""
        return tuple(dict.fromkeys(experiment_name(self.setting, method) for method in self.methods))

    def draw(self, runs: Runs, stem: Path) -> list[Path]:
        """Draw the panels with runs; return the files written, or none if there are no runs."""
        if not any(experiment_name(self.setting, method) in runs for method in self.own):
            return []
        found = {title: [one for one in lines if len(one.x)] for title, lines in self.panels(runs).items()}
        panels = [Panel(title, lines) for title, lines in found.items() if any(not one.kind for one in lines)]
        if not panels:
            return []
        rows = [row for title, lines in found.items() for one in lines for row in one.rows(title)]
        header = ("panel", "line", "kind", self.x.label, self.y.label or "value", "low", "high")
        look = {"line": plot_with_band, "n_columns": 2, **self.look}
        return write_figure(
            stem, header, rows, lambda: draw_panels(panels, x=self.x, y=self.y, look=PanelLook(**look))
        )


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


class DrawableFigure(Protocol):
    """A figure that is drawn from runs."""

    def draw(self, runs: Runs, stem: Path) -> list[Path]:
        """Draw the panels with runs; return the files written, or none if there are no runs."""


def draw_figures(drawings: Mapping[str, DrawableFigure], runs: Runs, folder: Path) -> dict[str, list[Path]]:
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
    setting: str,
    caption: str,
    methods: Mapping[str, str],
    metrics: Mapping[str, str],
    y: Axis,
    **look: Any,
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

    shown = tuple(methods.values())
    return PaperFigure(caption, setting, shown, shown, panels, EPOCH, y, {"dress": tick_whole_epochs, **look})


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
    rows, main = paper.rows[table] if some is None else some, paper.main_table(setting)

    def panels(runs: Runs) -> dict[str, list[SeedLine]]:
        return {column: _with_levels(paper, runs, setting, table, rows, column) for column in paper.metrics}

    return PaperFigure(
        f"{table_title(table)} by {paper.unit} ({paper.published.titles[table].lower()}), {setting}. Thin "
        "dotted lines: printed values, in the colour of their method. Also shown: the orders without training.",
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
    printed = [
        SeedLine(row, ends, (100 * one.value,) * 2, kind="print")
        for (row, of), one in paper.printed_numbers_in(setting, table).items()
        if of == column and row in rows
    ]
    return [*lines, *printed, *baseline_series(paper, runs, setting, column, ends)]


def baseline_series(
    paper: Comparison, runs: Runs, setting: str, column: str, ends: tuple[float, float]
) -> list[SeedLine]:
    """Return the orders that need no training as level lines, in percent."""
    return level_lines({order: baseline_score(paper, runs, setting, column, order) for order in LEVELS}, ends)


def level_lines(values: Mapping[str, PerSeed], ends: tuple[float, float]) -> list[SeedLine]:
    """Return means over seeds as level lines in percent; nothing for a name without values."""
    return [SeedLine(name, ends, (100 * mean(own),) * 2, kind="level") for name, own in values.items() if own]


def with_levels(drawing: PaperFigure, levels: Callable[[Runs, str], Mapping[str, PerSeed]]) -> PaperFigure:
    """Return a figure by epoch with further level lines, given a function of the runs and a panel's title."""

    def panels(runs: Runs) -> dict[str, list[SeedLine]]:
        found = {column: list(lines) for column, lines in drawing.panels(runs).items()}
        for column, lines in found.items():
            last = max((one.x[-1] for one in lines if len(one.x)), default=1.5)
            lines += level_lines(levels(runs, column), (1.0, last))
        return found

    return replace(drawing, panels=panels)


Lines = Mapping[str, Mapping[float, str]]
"""Method by line of a figure and value of an option."""


@dataclass(frozen=True)
class SweepFigures:
    """Figures over the values of options, with the same metrics in all of them.

    Attributes
    ----------
    paper : Comparison
    columns : sequence of str
        The metrics shown.
    drawn : collection of str
        Methods that other figures show.
    levels : mapping of str to str
        Methods shown as level lines, by name.
    """

    paper: Comparison
    columns: Sequence[str]
    drawn: Collection[str]
    levels: Mapping[str, str] = field(default_factory=dict)

    def make_figure(self, setting: str, caption: str, label: str, lines: Lines) -> PaperFigure:
        """Return the figure of utility over the values of an option, at the last report and at the best."""
        paper, ends = self.paper, _ends(lines)

        def panels(runs: Runs) -> dict[str, list[SeedLine]]:
            return {
                f"{column}, {look}": [
                    *(
                        sweep_series(paper, runs, setting, column, look, name, own)
                        for name, own in lines.items()
                    ),
                    *level_lines(self._level_values(runs, setting, column, look), ends),
                    *baseline_series(paper, runs, setting, column, ends),
                ]
                for look in (LAST, BEST)
                for column in self.columns
            }

        methods = _methods(lines)
        own = tuple(method for method in methods if method not in self.drawn)
        return PaperFigure(caption, setting, methods, own, panels, Axis(label, (0.0, None)), Axis("%"))

    def _level_values(self, runs: Runs, setting: str, column: str, look: str) -> dict[str, PerSeed]:
        return {
            name: reported_score(self.paper, runs, experiment_name(setting, method), column, look)
            for name, method in self.levels.items()
        }


@dataclass(frozen=True)
class LeakageFigure:
    """A figure of numbers of summaries over a privacy budget.

    Attributes
    ----------
    numbers : SummaryColumns
    shown : mapping of str to (str, str)
        The column shown in each panel, and the column of its reference: the value for guessing; empty if it has none.
    lines : mapping
        Method by line and budget.
    levels : mapping of str to str
        Methods shown as level lines, by name.
    reference : callable
        Maps the column of a reference to the name of its line.
    """

    numbers: SummaryColumns
    shown: Mapping[str, tuple[str, str]]
    lines: Lines
    levels: Mapping[str, str] = field(default_factory=dict)
    reference: Callable[[str], str] = str

    def make_figure(self, setting: str, caption: str, label: str, look: Mapping[str, Any]) -> PaperFigure:
        """Return the figure of a setting."""
        methods = (*_methods(self.lines), *self.levels.values())

        def panels(runs: Runs) -> dict[str, list[SeedLine]]:
            return {title: self._panel(runs, setting, *columns) for title, columns in self.shown.items()}

        x, y = Axis(label, (0.0, None)), Axis("%", (0.0, 102.0))
        return PaperFigure(caption, setting, methods, methods, panels, x, y, look)

    def _panel(self, runs: Runs, setting: str, column: str, reference: str) -> list[SeedLine]:
        def number(method: str, column: str) -> PerSeed:
            return self.numbers.values_by_seed(runs, experiment_name(setting, method), column)

        found = [
            seed_line(name, {x: number(method, column) for x, method in own.items()})
            for name, own in self.lines.items()
        ]
        levels = {name: number(method, column) for name, method in self.levels.items()}
        if reference:  # it is equal for all budgets: the first run of each seed that reports it
            values: PerSeed = {}
            for method in (*_methods(self.lines), *self.levels.values()):
                values = {**number(method, reference), **values}
            levels[self.reference(reference)] = values
        return [*found, *level_lines(levels, _ends(self.lines))]


def _methods(lines: Lines) -> tuple[str, ...]:
    return tuple(method for own in lines.values() for method in own.values())


def _ends(lines: Lines) -> tuple[float, float]:
    values = [value for own in lines.values() for value in own]
    return min(values), max(values)
