"""Escaping of CSV cells that spreadsheet programs would read as formulas, on request.

A name in third-party data, such as ``=HYPERLINK("http://...")``, is run as a formula by a program that opens the
file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""First characters that spreadsheet programs read as the beginning of a formula, or skip before one."""

_is_requested: ContextVar[bool] = ContextVar("_is_requested", default=False)


@contextmanager
def plain_cells() -> Iterator[None]:
    """Write text that would be a formula with a quotation mark before it, while the body runs in this thread."""
    token = _is_requested.set(True)
    try:
        yield
    finally:
        _is_requested.reset(token)


def safe_cell(cell: Any) -> Any:
    """Return the text to write for a cell; numbers, and text that is a number such as ``-0.5``, stay unchanged."""
    if not (isinstance(cell, str) and cell.startswith(FORMULA_STARTS) and _is_requested.get()):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def safe_rows(rows: Iterable[Iterable[Any]]) -> Iterator[list[Any]]:
    """Yield rows with each cell passed through :func:`safe_cell`."""
    for row in rows:
        yield [safe_cell(cell) for cell in row]
