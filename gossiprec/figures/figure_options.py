"""Options that replace parts of the house style while figures are drawn."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from gossiprec.base.errors import LogError
from gossiprec.figures import style
from gossiprec.old_names import forward

HOUSE = "okabe-ito"
MANY_PANELS = 6
_GREYS = ("0.0", "0.45", "0.65", "0.25", "0.55", "0.75")
_TITLE_IN, _TITLE_PT = 0.3, style.TITLE_PT + 1.5


@dataclass(frozen=True)
class FigureOptions:
    """Changes to the house style; None keeps it.

    Attributes
    ----------
    title : str, optional
        Title above the figure.
    x_label, y_label : str, optional
        Replacement for every label along that axis.
    size : (float, float), optional
        Width and height in inches.
    palette : str, optional
        ``okabe-ito``, ``grey``, or a colour map of matplotlib.
    crowded : callable, optional
        Called with the number of panels if a figure has too many to read.
    """

    title: str | None = None
    x_label: str | None = None
    y_label: str | None = None
    size: tuple[float, float] | None = None
    palette: str | None = None
    crowded: Callable[[int], None] | None = None


_NONE = FigureOptions()
_options: ContextVar[FigureOptions] = ContextVar("figure options", default=_NONE)


@contextmanager
def figure_options(options: FigureOptions) -> Iterator[None]:
    """Draw figures with these options until the body ends.

    Raises
    ------
    LogError
        If the palette is unknown.
    """
    before = _options.set(options), style.COLOURS.set(palette_colours(options.palette or HOUSE))
    try:
        yield
    finally:
        _options.reset(before[0])
        style.COLOURS.reset(before[1])


def palette_colours(palette: str) -> tuple[str, ...]:
    """Return the colours of a palette, in the order of lines."""
    if palette == HOUSE:
        return style.OKABE_ITO
    if palette == "grey":
        return _GREYS
    if palette not in mpl.colormaps:
        raise LogError(
            f"palette: found {palette!r}; expected {HOUSE}, grey or a matplotlib colour map, such as "
            "tab10 or viridis"
        )
    colour_map = mpl.colormaps[palette]
    listed = getattr(colour_map, "colors", ())
    if 0 < len(listed) <= 20:
        return tuple(to_hex(colour) for colour in listed)
    return tuple(to_hex(colour_map(place / 6)) for place in range(7))


def apply_options(figure: Figure) -> Figure:
    """Apply title, labels and size to a figure that has been drawn."""
    options = _options.get()
    for axes in figure.axes:
        if options.x_label is not None and axes.get_xlabel():
            axes.set_xlabel(options.x_label)
        if options.y_label is not None and axes.get_ylabel():
            axes.set_ylabel(options.y_label)
    if options.crowded and len(figure.axes) > MANY_PANELS:
        options.crowded(len(figure.axes))
    if options.size is not None:
        figure.set_size_inches(*options.size)
    if options.title:
        _put_above(figure, options.title)
    return figure


def _put_above(figure: Figure, title: str) -> None:
    """Make room above the content of a figure and write the title there."""
    width, height = figure.get_size_inches()
    lines = textwrap.wrap(
        title, int((width - 0.2) / style.text_width_in("m") * style.LABEL_PT / _TITLE_PT / 1.1)
    )
    room = _TITLE_IN + (len(lines) - 1) * 1.25 * _TITLE_PT * style.POINT_IN
    kept = height / (height + room)
    figure.set_size_inches(width, height + room)
    for axes in figure.axes:
        x, y, wide, high = axes.get_position().bounds
        axes.set_position((x, y * kept, wide, high * kept))
    for legend in figure.legends:
        x, y = figure.transFigure.inverted().transform(legend.get_bbox_to_anchor().get_points()[0])
        legend.set_bbox_to_anchor((x, y * kept), figure.transFigure)
    for text in figure.texts:
        text.set_y(text.get_position()[1] * kept)
    figure.text(
        0.1 / width,
        1 - 0.08 / (height + room),
        "\n".join(lines),
        va="top",
        fontsize=_TITLE_PT,
        weight="bold",
    )


forward(__name__)
