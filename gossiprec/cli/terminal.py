"""Printing: all text of commands, so that no file can send control characters to the terminal."""

from __future__ import annotations

import io
import sys
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click

from gossiprec.base.text import one_line, printable, shorten_words

if TYPE_CHECKING:
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
    text = io.StringIO()
    error.show(file=text)
    echo(text.getvalue(), err=True, nl=False)


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
