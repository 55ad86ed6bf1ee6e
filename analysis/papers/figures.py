"""Figures of means over seeds: methods by epoch, sweeps of options, and levels, with printed values marked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis.papers.comparison import LEVELS, Comparison, experiment_name, table_title
from analysis.papers.curves import baseline_score, metric_by_epoch_and_seed, reported_score
from analysis.papers.verdict import PerSeed, Runs, confidence_half_width, mean
from gossiprec.figures import style
from gossiprec.figures.figure_files import Cell, write_figure
from gossiprec.figures.panels import Axis, Panel, PanelLook, Series, draw_panels


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
        Arguments of :class:`gossiprec.figures.panels.PanelLook`.
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
        "dotted: what is printed, in the colour of its method; and the orders that need no training.",
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
