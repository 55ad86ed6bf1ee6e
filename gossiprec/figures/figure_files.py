"""Options that replace parts of the house style, and files of a figure: numbers as csv, pictures as png, svg, pdf."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from gossiprec.base.errors import LogError
from gossiprec.figures import style
from gossiprec.figures.style import house_style
from gossiprec.runs.run_files import replace_file, wrap_write_errors
from gossiprec.runs.run_tables import safe_cell

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


Cell = str | int | float | None

_SILENT: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""Metadata left out of each format, so that equal numbers give equal bytes."""
_OTHER_FORMATS = ("jpg", "jpeg", "eps", "ps", "gif", "tif", "tiff", "webp", "bmp")


def csv_bytes(header: Iterable[str], rows: Iterable[Sequence[Cell]]) -> bytes:
    """Return a csv table; numbers keep every digit, NaN and None are empty fields."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(safe_cell, header))
    writer.writerows([None if cell != cell else safe_cell(cell) for cell in row] for row in rows)
    return text.getvalue().encode()


def write_figure(
    stem: Path, header: Iterable[str], rows: Iterable[Sequence[Cell]], draw: Callable[[], Figure]
) -> list[Path]:
    """Write ``stem.csv``, ``stem.png`` and ``stem.svg`` and return their paths.

    No picture holds a date or a program version: equal numbers give equal bytes.

    Parameters
    ----------
    stem : Path
        With the suffix ``.png``, ``.svg`` or ``.pdf``, only that picture is written, and the table.
    header, rows : iterable
        The plotted numbers.
    draw : callable
        Makes the figure; it is called with the house style in use.

    Raises
    ------
    LogError
        If the suffix names another format.
    ResourceError
        If a file cannot be written.
    """
    base, kinds = _asked(stem)
    contents = {"csv": csv_bytes(header, rows)}
    contents |= picture_bytes(draw, kinds)
    with wrap_write_errors(base.parent):
        base.parent.mkdir(parents=True, exist_ok=True)
    files = {base.with_name(f"{base.name}.{end}"): content for end, content in contents.items()}
    for path, content in files.items():
        replace_file(path, content)
    return list(files)


def _asked(stem: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the stem of the files, without a suffix, and the formats of the pictures."""
    kind = stem.suffix[1:].lower()
    if kind in _OTHER_FORMATS:
        raise LogError(f"{stem}: found .{kind}; expected png, svg or pdf (without a suffix: png and svg)")
    return (stem.with_suffix(""), (kind,)) if kind in _SILENT else (stem, ("png", "svg"))


def picture_bytes(draw: Callable[[], Figure], kinds: Iterable[str]) -> dict[str, bytes]:
    """Return the figure in the house style, drawn once, in formats such as ``svg``."""
    with house_style():
        figure = apply_options(draw())
        return {kind: _picture(figure, kind, _SILENT[kind]) for kind in kinds}


def _picture(figure: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format=kind, metadata=metadata)
    return content.getvalue()
