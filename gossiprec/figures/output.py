"""Files of a figure: the plotted numbers as csv, the picture as png and svg, each whole or absent."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from gossiprec.eventlog.atomic_write import replace_file, writing
from gossiprec.figures.style import house_look

Cell = str | int | float | None


def csv_bytes(header: Iterable[str], rows: Iterable[Sequence[Cell]]) -> bytes:
    """Return a csv table; numbers keep every digit, NaN and None are empty fields."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([None if cell != cell else cell for cell in row] for row in rows)
    return text.getvalue().encode()


def write_figure(
    stem: Path, header: Iterable[str], rows: Iterable[Sequence[Cell]], draw: Callable[[], Figure]
) -> list[Path]:
    """Write ``stem.csv``, ``stem.png`` and ``stem.svg`` and return their paths.

    Neither picture holds a date or a program version: equal numbers give equal bytes.

    Parameters
    ----------
    stem : Path
    header, rows : iterable
        The plotted numbers.
    draw : callable
        Makes the figure, in the house look.

    Raises
    ------
    ResourceError
        If a file cannot be written.
    """
    table = csv_bytes(header, rows)
    with house_look():
        figure = draw()
        png = _picture(figure, "png", {"Software": None})
        svg = _picture(figure, "svg", {"Date": None, "Creator": None})
    with writing(stem.parent):
        stem.parent.mkdir(parents=True, exist_ok=True)
    files = {
        stem.with_name(f"{stem.name}.{end}"): c for end, c in (("csv", table), ("png", png), ("svg", svg))
    }
    for path, content in files.items():
        replace_file(path, content)
    return list(files)


def _picture(figure: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format=kind, metadata=metadata)
    return content.getvalue()
