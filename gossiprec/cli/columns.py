"""Columns of text on a terminal of any width: they wrap at words, and lines that go into a file do not."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence

import click

LEAST = 16
"""Columns that a text that wraps gets at least, also on a narrower terminal."""


def terminal_width() -> int | None:
    """Return the columns of the terminal that stdout is, or None if it is a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def hang(head: str, text: str, width: int | None) -> str:
    """Return `text` after `head`, wrapped at words below its own beginning.

    Parameters
    ----------
    head : str
        What is before the text, with the space between them.
    text : str
    width : int or None
        Columns of a line; None for one line of any length.
    """
    if width is None:
        return f"{head}{text}"
    lines = textwrap.wrap(text, max(width - len(head), LEAST), break_long_words=False, break_on_hyphens=False)
    return head + f"\n{' ' * len(head)}".join(lines)


def print_note(text: str) -> None:
    """Print a sentence, wrapped at words if the terminal is narrower."""
    click.echo(hang("", text, terminal_width()))


def aligned(rows: Sequence[Sequence[str]], width: int | None = None) -> Iterator[str]:
    """Yield a text for each row of cells, in columns as wide as their widest cell; the last column wraps."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    for *cells, last in rows:
        yield hang(
            "".join(f"{cell:{n}}  " for cell, n in zip(cells, widths, strict=True)), last, width
        ).rstrip()


def fits(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a table needs no more columns than the terminal has; a file has room for all."""
    width = terminal_width()
    return width is None or max(map(len, aligned(rows))) <= width


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows of cells, the headings first; cells wrap if the terminal is narrower."""
    width = terminal_width()
    if width is None or fits(rows):
        click.echo("\n".join(aligned(rows)))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for place, cells in enumerate(zip(*rows, strict=True)):
        is_narrow = max(map(len, cells)) <= width // 2
        table.add_column(cells[0], overflow="fold", no_wrap=place == 0 and is_narrow)
    for row in rows[1:]:
        table.add_row(*row)
    Console(highlight=False, markup=False, width=width).print(table)
