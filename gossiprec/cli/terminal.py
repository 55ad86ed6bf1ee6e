"""Printing: all text of commands, so that no file can send control characters to the terminal."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path, PurePath
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from gossiprec.base.errors import REMOVED
from gossiprec.base.text import one_line, printable, short_name, shorten_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console


def echo(text: object = "", *, err: bool = False, nl: bool = True, whole: bool = False) -> None:
    """Print text without control characters.

    Parameters
    ----------
    text : object
    err : bool
        Print to stderr.
    nl : bool
        End the line.
    whole : bool
        Keep words of any length, in paths and in text for programs.
    """
    harmless = one_line if isinstance(text, PurePath) else printable if whole else shorten_words
    click.echo(harmless(text), err=err, nl=nl)


def show_error(error: click.ClickException) -> None:
    """Print an error of click, which names arguments and files, to stderr."""
    if isinstance(error, click.NoSuchOption) and error.option_name in REMOVED:
        error = click.UsageError(f"{error.option_name} {REMOVED[error.option_name]}", error.ctx)
    text = io.StringIO()
    error.show(file=text)
    echo(text.getvalue(), err=True, nl=False)


def note_changed_files(changed: Mapping[Path, Sequence[str]]) -> None:
    """Print one note if files of runs, by the path of the run, have changed after they were written."""
    changed = {path: names for path, names in changed.items() if names}
    if not changed:
        return
    path, names = next(iter(changed.items()))
    what = f"{', '.join(names)} changed after the run wrote {'it' if len(names) == 1 else 'them'}"
    others = f" (files of {len(changed) - 1} other runs, too)" if len(changed) > 1 else ""
    echo(
        f"note: {path}: {what}{others}; numbers can be wrong; see: gossiprec log verify {quote(str(path))}",
        err=True,
    )


class PrintableOutput:
    """Standard output for writers that need a file."""

    def write(self, text: str) -> int:
        """Write text without control characters."""
        return sys.stdout.write(printable(text))


def make_console(*, stderr: bool = False, width: int | None = None) -> Console:
    """Return a console of rich that takes text as it is: without markup, emoji names and control characters."""
    from rich.console import Console
    from rich.text import Text

    class PlainConsole(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(printable(text), **options)

    return PlainConsole(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)


def print_json(facts: Mapping[str, Any]) -> None:
    """Print results as JSON, in which numbers that are not finite are null."""
    from gossiprec.runs.manifest import to_plain

    echo(json.dumps(to_plain(facts), allow_nan=False), whole=True)


def print_values(title: str, columns: Mapping[str, Mapping[str, Any]]) -> None:
    """Print columns, by heading, that have the same keys."""
    from rich.table import Table

    from gossiprec.cli.summary_text import WIDTH

    table = Table("", title=title, title_justify="left")
    for heading in columns:
        table.add_column(heading, justify="right")
    for name in next(iter(columns.values())):
        values = (column[name] for column in columns.values())
        texts = (f"{value:.3g}" if isinstance(value, float) else f"{value:,}" for value in values)
        table.add_row(short_name(name), *texts)
    make_console(width=WIDTH).print(table)


def print_by_hops(title: str, rows: Sequence[dict[str, float]]) -> None:
    """Print rows of values, each with its number of hops, as columns."""
    print_values(title, {f"hops: {row.pop('hops'):g}": row for row in rows})
