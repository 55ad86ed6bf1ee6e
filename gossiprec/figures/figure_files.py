"""Files of a figure: the plotted numbers as csv and the picture as png, svg or pdf, each replaced in one step."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from gossiprec.base.errors import LogError
from gossiprec.figures.figure_options import apply_options
from gossiprec.figures.style import house_style
from gossiprec.runs.run_files import replace_file, wrap_write_errors
from gossiprec.runs.run_tables import safe_cell

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
    with house_style():
        figure = apply_options(draw())
        contents |= {kind: _picture(figure, kind, _SILENT[kind]) for kind in kinds}
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


def _picture(figure: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format=kind, metadata=metadata)
    return content.getvalue()
