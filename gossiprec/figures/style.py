"""The style of every figure, and panels of named lines: readable on paper and to the colour-blind, equal bytes.

The colours of Okabe and Ito are used without yellow, which vanishes on paper; each comes with its own line style and
marker, so that no line depends on its colour. No text is smaller than 8 pt at the printed width.

References
----------
M. Okabe, K. Ito, "Color Universal Design", 2008.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.optimize import isotonic_regression

COLUMN_IN, PAGE_IN = 3.5, 7.16
"""Width of one column and of the page, in inches."""

POINT_IN = 1 / 72
LABEL_PT, TITLE_PT = 8.0, 8.5
TITLE_LINE_IN = 1.2 * TITLE_PT * POINT_IN
MAX_NAME = 36
GREY = "0.35"
NEAR_EDGE = 0.9
"""Fraction of a panel's width; a line that ends further right is joined to its name by a leader."""
THIN_DOTS: Any = (0, (1, 1.5))
BOUND_DASHES: Any = (0, (7, 2.5))
"""Of upper bounds, which are thin; dots are for guessing."""

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)))
_MARKERS = "osD^vPX"

COLOURS: ContextVar[tuple[str, ...]] = ContextVar("colours", default=OKABE_ITO)
"""Colours of lines, in order."""

_LOOK: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # ships with matplotlib, so that letters are the same everywhere
    "font.size": LABEL_PT,
    "axes.titlesize": TITLE_PT,
    "axes.titlelocation": "left",
    "axes.labelsize": LABEL_PT,
    "xtick.labelsize": LABEL_PT,
    "ytick.labelsize": LABEL_PT,
    "legend.fontsize": LABEL_PT,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
    "savefig.dpi": 200,
    "svg.hashsalt": "gossiprec",
    "svg.fonttype": "path",
}


@contextmanager
def house_style() -> Iterator[None]:
    """Draw and save in the house style, whatever the user's matplotlibrc says."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_LOOK)
        yield


@dataclass(frozen=True)
class LineStyle:
    """The attributes that distinguish the lines of a panel."""

    color: str
    dashes: Any
    marker: str
    is_open: bool = False
    """Whether its marks are not filled."""

    def kwargs(self) -> dict[str, Any]:
        """Return the keyword arguments of ``Axes.plot``."""
        edge, face, width = (self.color, "white", 1.0) if self.is_open else ("white", self.color, 0.5)
        return {
            "color": self.color,
            "linestyle": self.dashes,
            "marker": self.marker,
            "markeredgecolor": edge,
            "markerfacecolor": face,
            "markeredgewidth": width,
        }


def line_style(place: int) -> LineStyle:
    """Return the style of the line with this index; the first 35 differ."""
    colours, marks = COLOURS.get(), len(_MARKERS)
    return LineStyle(
        colours[place % len(colours)],
        _DASHES[(place + place // marks) % len(_DASHES)],
        _MARKERS[place % marks],
    )


@dataclass(frozen=True)
class Margins:
    """Room around and between panels, in inches."""

    left: float = 0.55
    right: float = 0.12
    top: float = 0.3
    bottom: float = 0.45
    between_columns: float = 0.25
    between_rows: float = 0.4

    def panel_width(self, width: float, n_columns: int) -> float:
        """Return the width of each of `n_columns` panels in a figure of this width."""
        return (width - self.left - self.right - (n_columns - 1) * self.between_columns) / n_columns


def panel_grid(
    n_rows: int, n_columns: int, *, width: float, panel_height: float, margins: Margins
) -> tuple[Figure, list[list[Axes]]]:
    """Return a figure and its rows of axes, laid out in inches: labels are placed without measuring.

    Parameters
    ----------
    n_rows, n_columns : int
    width : float
        Width of the figure in inches.
    panel_height : float
        Height of each panel in inches.
    margins : Margins
    """
    m = margins
    height = m.top + m.bottom + n_rows * panel_height + (n_rows - 1) * m.between_rows
    panel_width = m.panel_width(width, n_columns)
    figure = Figure(figsize=(width, height))

    def place(row: int, column: int) -> Axes:
        x = m.left + column * (panel_width + m.between_columns)
        y = height - m.top - panel_height - row * (panel_height + m.between_rows)
        return figure.add_axes((x / width, y / height, panel_width / width, panel_height / height))

    return figure, [[place(row, column) for column in range(n_columns)] for row in range(n_rows)]


def panel_list(
    n_panels: int, n_columns: int, *, width: float, panel_height: float, margins: Margins
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its axes, row by row; the last row of a :func:`panel_grid` may have fewer than the others."""
    n_rows = -(-n_panels // n_columns)
    figure, rows = panel_grid(n_rows, n_columns, width=width, panel_height=panel_height, margins=margins)
    cells = [axes for row in rows for axes in row]
    for axes in cells[n_panels:]:
        axes.remove()
    return figure, cells[:n_panels]


def text_width_in(text: str) -> float:
    """Return the approximate width of a line of label text in inches (slightly too large)."""
    return 0.56 * LABEL_PT * POINT_IN * len(text)


def wrap_title(title: str, width_in: float) -> list[str]:
    """Return a panel's title in lines that fit: broken after commas, and within a part between words if needed."""
    size = max(1, int(width_in / text_width_in("m") * LABEL_PT / TITLE_PT))
    parts = textwrap.wrap(title.replace(" ", "\xa0").replace(",\xa0", ", "), size, break_long_words=False)
    return [line for part in parts for line in textwrap.wrap(part.replace("\xa0", " "), size)]


def short_name(name: str) -> str:
    """Return a name that leaves room for the panel: the middle of a long name is cut out."""
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME // 2 - 1]}…{name[-MAX_NAME // 2 :]}"


def spread_apart(wanted: Sequence[float], *, gap: float, low: float, high: float) -> list[float]:
    """Move positions apart by at least `gap`, as little as the order allows, inside ``[low, high]``.

    If there is not room for all, the gap shrinks.
    """
    if not wanted:
        return []
    order = np.argsort(np.asarray(wanted), kind="stable")
    gap = min(gap, (high - low) / max(len(wanted) - 1, 1))
    steps = np.arange(len(wanted)) * gap
    # After the steps are subtracted, "at least a gap apart" becomes "not descending": an isotonic fit.
    fitted = isotonic_regression(np.asarray(wanted, dtype=np.float64)[order] - steps).x
    placed = np.empty(len(wanted))
    placed[order] = np.clip(fitted, low, high - steps[-1]) + steps
    return [float(place) for place in placed]


@dataclass(frozen=True)
class LineEnd:
    """The last point of a line, in data coordinates, and the line's label."""

    x: float
    y: float
    name: str
    style: LineStyle


def label_ends(
    figure: Figure, axes: Axes, ends: Sequence[LineEnd], *, gap_in: float = 0.14, is_led: bool = True
) -> None:
    """Name each line at the right edge of its panel, tied to its end by a thin leader if it comes that far.

    Parameters
    ----------
    figure : Figure
    axes : Axes
        Axes with their final limits.
    ends : sequence of LineEnd
    gap_in : float
        Inches between the edge of the panel and the names.
    is_led : bool
        Whether lines get leaders.
    """
    box, (width, height) = axes.get_position(), figure.get_size_inches()
    beyond = 1 + gap_in / (width * box.width)
    line_height = 1.25 * LABEL_PT * POINT_IN / (height * box.height)
    place_of = (axes.transScale + axes.transLimits).transform  # uses the scale, which may be logarithmic
    starts = [place_of((end.x, end.y)).clip(0, 1) for end in ends]
    places = spread_apart([float(y) for _, y in starts], gap=line_height, low=0.0, high=1.0)
    look: dict[str, Any] = {"linewidth": 0.7, "transform": axes.transAxes, "clip_on": False}
    for end, (x, y), place in zip(ends, starts, places, strict=True):
        if is_led and x > NEAR_EDGE:
            axes.plot((x, 1), (y, y), color=end.style.color, linestyle=":", **look)
            axes.plot((1, 0.2 + 0.8 * beyond), (y, place), color=end.style.color, **look)
        else:  # it ended before others: no leader across empty space
            axes.plot(
                (1 + beyond) / 2, place, **{**end.style.kwargs(), "markeredgecolor": end.style.color, **look}
            )
        axes.text(beyond, place, end.name, transform=axes.transAxes, va="center", color="0.1")


@dataclass(frozen=True)
class Legend:
    """One legend above all panels of a figure, in as many columns as there is room for.

    Attributes
    ----------
    handles : sequence of Line2D
    width_in : float
    """

    handles: Sequence[Line2D]
    width_in: float

    @property
    def n_columns(self) -> int:
        """Number of entries per row of the legend."""
        longest = max(text_width_in(str(handle.get_label())) for handle in self.handles)
        return max(1, min(len(self.handles), int(self.width_in / (0.55 + longest))))

    @property
    def n_rows(self) -> int:
        """Number of rows of the legend."""
        return -(-len(self.handles) // self.n_columns) if self.handles else 0

    @property
    def height_in(self) -> float:
        """Height of the legend above the panels in inches."""
        return 0.06 + 0.17 * self.n_rows if self.handles else 0.0

    def draw(self, figure: Figure, *, left: float) -> None:
        """Draw the legend, starting at this fraction of the figure's width."""
        if self.handles:
            figure.legend(
                handles=list(self.handles),
                loc="upper left",
                bbox_to_anchor=(left, 1.0),
                ncols=self.n_columns,
                borderaxespad=0.2,
                borderpad=0.2,
                handlelength=2.6,
                columnspacing=1.4,
            )


def wrap_axis_label(text: str, length_in: float) -> str:
    """Return a label in lines that fit along an axis."""
    return "\n".join(textwrap.wrap(text, max(8, int(length_in / text_width_in("m")))))


def add_caption(figure: Figure, text: str) -> None:
    """Write a caption below all panels, at the left of the figure."""
    width, height = figure.get_size_inches()
    figure.text(0.1 / width, 0.06 / height, "\n".join(_caption_lines(text, width)), va="bottom", color="0.25")


def caption_height(text: str, width_in: float) -> float:
    """Return the height of a caption in inches."""
    return 0.08 + 1.25 * LABEL_PT * POINT_IN * len(_caption_lines(text, width_in))


def _caption_lines(text: str, width_in: float) -> list[str]:
    kept = text.replace(" = ", "\xa0=\xa0").replace(" %", "\xa0%")
    return textwrap.wrap(kept, int((width_in - 0.2) / text_width_in("m")))


MAX_COLUMNS = 3


@dataclass(frozen=True)
class Series:
    """A line of a panel: its name and its points."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True)
class Panel:
    """A panel: its title, its lines and the accuracies of guessing, in percent."""

    title: str
    series: Sequence[Series]
    random: Sequence[float] = ()

    @property
    def guess(self) -> str:
        """The name of the lines of guessing; empty without them."""
        percents = ", ".join(f"{percent:.1f}" for percent in self.random)
        return f"guessing, {percents} %" if percents else ""

    def heading(self, width_in: float, *, is_random_upright: bool = False) -> str:
        """Return the title, wrapped to this width, and an explanation of the dots, unless they have names."""
        dots = "" if is_random_upright or not self.guess else f"dots: {self.guess}"
        return "\n".join(line for text in (self.title, dots) for line in wrap_title(text, width_in))


@dataclass(frozen=True)
class Axis:
    """An axis: its label and limits.

    Without limits, the points of each panel set them, upwards from zero. Without an upper limit, the points of all
    panels set it.
    """

    label: str
    limits: tuple[float, float | None] | None = None


def plot_line(axes: Axes, series: Series, look: LineStyle) -> None:
    """Draw a line with a few markers."""
    axes.plot(series.x, series.y, markevery=max(1, len(series.x) // 6), **look.kwargs())


def plot_steps(axes: Axes, series: Series, look: LineStyle) -> None:
    """Draw a cumulative distribution (percent) as steps; a marker on a step would not be a point of it."""
    axes.plot(series.x, series.y, drawstyle="steps-post", **{**look.kwargs(), "marker": ""})


def plot_dots(axes: Axes, series: Series, look: LineStyle) -> None:
    """Draw points that are not joined."""
    axes.plot(series.x, series.y, **{**look.kwargs(), "linestyle": "none", "markersize": 6})


@dataclass(frozen=True)
class PanelLook:
    """How panels are drawn.

    Attributes
    ----------
    line : callable
        Draws one series.
    order : sequence of str
        Lines in the order of the legend; the order of the panels if empty.
    n_columns : int
        Limit on the number of columns.
    is_random_upright : bool
        Whether the accuracy of guessing is on the x axis.
    is_joined : bool
        Whether the points of a series are joined; the legend follows it.
    dress : callable
        Called last on each panel.
    """

    line: Callable[[Axes, Series, LineStyle], None] = plot_line
    order: Sequence[str] = ()
    n_columns: int = MAX_COLUMNS
    is_random_upright: bool = False
    is_joined: bool = True
    dress: Callable[[Axes], None] = lambda axes: None


def draw_panels(panels: Sequence[Panel], *, x: Axis, y: Axis, look: PanelLook | None = None) -> Figure:
    """Return the panels as a figure with one legend."""
    look = look or PanelLook()
    found = dict.fromkeys(series.name for panel in panels for series in panel.series)
    names = [name for name in look.order or found if name in found]
    looks = {name: line_style(place) for place, name in enumerate(names)}
    n_columns = min(look.n_columns, MAX_COLUMNS, len(panels))
    width = COLUMN_IN if n_columns == 1 else PAGE_IN
    unused: dict[str, Any] = {"marker": ""} if look.line is plot_steps else {}
    own = unused if look.is_joined else {"linestyle": "none", "markersize": 6}
    handles = [Line2D([], [], label=name, **{**line.kwargs(), **own}) for name, line in looks.items()]
    legend = Legend(handles, width - Margins.left)
    margins = Margins(between_columns=0.35)
    inches, is_upright = margins.panel_width(width, n_columns), look.is_random_upright
    headings = [panel.heading(inches, is_random_upright=is_upright) for panel in panels]
    is_named = is_upright and any(panel.guess for panel in panels)
    more = TITLE_LINE_IN * (max(heading.count("\n") for heading in headings) + is_named - 1)
    margins = replace(margins, top=0.42 + 0.17 * legend.n_rows + more, between_rows=0.95 + more)
    figure, cells = panel_list(len(panels), n_columns, width=width, panel_height=1.9, margins=margins)
    for place, (axes, panel, heading) in enumerate(zip(cells, panels, headings, strict=True)):
        for percent in panel.random:
            mark = axes.axvline if is_upright else axes.axhline
            mark(percent, color=GREY, linewidth=0.9, linestyle=":")
        for series in panel.series:
            look.line(axes, series, looks[series.name])
        axes.set_title(heading, pad=4 + is_named * 1.3 * LABEL_PT)
        axes.margins(0.08)  # keeps markers off the frame
        _dress(axes, panels, x, y, is_first=place % n_columns == 0)
        if panel.guess and is_upright:
            _name_guessing(axes, panel, inches)
        look.dress(axes)
    legend.draw(figure, left=margins.left / width)
    return figure


def _name_guessing(axes: Axes, panel: Panel, width_in: float) -> None:
    """Name the upright lines of guessing above the panel, as near to them as there is room."""
    half = min(0.5, text_width_in(panel.guess) / 2 / width_in)
    left, right = axes.get_xlim()
    at = float(np.clip((np.mean(panel.random) - left) / (right - left), half, 1 - half))
    axes.text(at, 1.015, panel.guess, transform=axes.transAxes, ha="center", color=GREY)


def _dress(axes: Axes, panels: Sequence[Panel], x: Axis, y: Axis, *, is_first: bool) -> None:
    """Set the labels and limits of a panel."""
    axes.set_xlabel(x.label)
    if is_first:
        axes.set_ylabel(y.label)
    if x.limits:
        low, high = x.limits
        points = (at for panel in panels for series in panel.series for at in series.x)
        axes.set_xlim(low, max(1.0, 1.03 * max(points)) if high is None else high)
    axes.set_ylim(*(y.limits or (0, axes.get_ylim()[1])))
