"""Lines of means over seeds, figures made from runs, and the figures of every paper's tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from analysis.papers.comparison import experiment_name
from analysis.papers.seed_statistics import PerSeed, Runs, confidence_half_width, mean
from gossiprec.figures import style
from gossiprec.figures.figure_files import Cell, write_figure
from gossiprec.figures.panels import Axis, Panel, Series, draw_panels


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
        Further arguments of :func:`gossiprec.figures.panels.draw_panels`.
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
        return write_figure(stem, header, rows, lambda: draw_panels(panels, x=self.x, y=self.y, **look))


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
