"""Files of a figure: the plotted numbers as csv, the picture as png and svg, each whole or absent."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from gossiprec.eventlog.atomic_write import replace_file, writing

Cell = str | int | float


def csv_bytes(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> bytes:
    """Return a csv table; numbers keep every digit, NaN is an empty field."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_field(cell) for cell in row] for row in rows)
    return text.getvalue().encode()


def _field(cell: Cell) -> str:
    if isinstance(cell, float):
        return "" if cell != cell else repr(float(cell))
    return str(cell)


def save(figure: Figure, table: bytes, stem: Path) -> list[Path]:
    """Write ``stem.csv``, ``stem.png`` and ``stem.svg`` and return their paths.

    Neither picture holds a date or a program version: equal numbers give equal bytes.

    Raises
    ------
    ResourceError
        If a file cannot be written.
    """
    files = {
        ".csv": table,
        ".png": _picture(figure, "png", {"Software": None}),
        ".svg": _picture(figure, "svg", {"Date": None, "Creator": None}),
    }
    with writing(stem.parent):
        stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(stem.name + suffix) for suffix in files]
    for path, content in zip(paths, files.values(), strict=True):
        replace_file(path, content)
    return paths


def _picture(figure: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format=kind, metadata=metadata)
    return content.getvalue()
