"""Progress of a run on stderr: a bar on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from gossiprec.streams import is_unread, silence

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

    from gossiprec.emulation import Progress, Status

LINE_EVERY_S = 10.0
"""Seconds between two lines if stderr is not a terminal."""


@contextmanager
def progress_display(*, quiet: bool = False) -> Iterator[Progress | None]:
    """Show the progress of a run until the body ends; yield None if nothing is to be shown."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        from rich.console import Console

        console = Console(stderr=True)
        bar = RunProgressBar(console)
        with live_display(console, bar.renderable):
            yield bar
    else:
        yield ProgressLines()


@contextmanager
def ignore_closed_pipe() -> Iterator[None]:
    """Print in the body; if the reader of standard output has closed the pipe (``| head``), drop the rest."""
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as error:
        if not is_unread(error):
            raise
        silence(sys.stdout.fileno())


def live_display(console: Console, renderable: Callable[[], RenderableType]) -> Live:
    """Return a live display that shows `renderable` on a terminal until its body ends, and then erases it."""
    from rich.live import Live

    return Live(console=console, get_renderable=renderable, refresh_per_second=4, transient=True)


def format_status(status: Status) -> list[str]:
    """Return the facts to show about a run in progress."""
    return [
        f"time {status.time:,.0f}",
        f"{status.updates:,} of {status.total_updates:,} local epochs",
        f"{_rate(status):,.0f}/s",
        *(f"{name} {100 * value:.1f} %" for name, value in status.headline.items()),
    ]


def format_time_left(status: Status) -> str:
    """Return the time left at the speed so far, as minutes and seconds."""
    rate = _rate(status)
    if not rate:
        return ""
    minutes, seconds = divmod(round((status.total_updates - status.updates) / rate), 60)
    return f"{minutes}:{seconds:02} left"


def _rate(status: Status) -> float:
    return status.updates / status.seconds if status.seconds > 0 else 0.0


def _share(status: Status) -> str:
    return f"{100 * status.updates / max(status.total_updates, 1):.0f} %"


class ProgressLines:
    """Plain lines: one for each phase, then one every `every_s` seconds."""

    def __init__(self, every_s: float = LINE_EVERY_S) -> None:
        self._every_s = every_s
        self._due = 0.0

    def phase(self, text: str) -> None:
        """Print the phase."""
        click.echo(f"{text} ...", err=True)
        self._due = time.monotonic() + self._every_s

    def tick(self, status: Status) -> None:
        """Print the progress of the run, if a line is due."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + self._every_s
        click.echo(", ".join([_share(status), *format_status(status), format_time_left(status)]), err=True)

    def note(self, text: str) -> None:
        """Print the note."""
        click.echo(f"note: {text}", err=True)


class RunProgressBar:
    """A bar over the local epochs, with the phase next to it and the figures below; erased when the run ends."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[share]}"),
            TimeElapsedColumn(),
            TextColumn(" {task.fields[left]}"),
            console=console,
            expand=True,
        )
        self._task = self._bar.add_task("starting ...", total=None, share="", left="")
        self._facts = ""

    def phase(self, text: str) -> None:
        """Show the phase; its duration is unknown."""
        self._bar.update(self._task, description=f"{text} ...", total=None, share="", left="")
        self._facts = ""

    def tick(self, status: Status) -> None:
        """Move the bar."""
        self._bar.update(
            self._task,
            total=status.total_updates,
            completed=status.updates,
            share=_share(status),
            left=format_time_left(status),
        )
        self._facts = ", ".join(format_status(status))

    def note(self, text: str) -> None:
        """Print the note above the bar."""
        self._bar.console.print(f"note: {text}", highlight=False, markup=False)

    def renderable(self) -> RenderableType:
        """Return the present content of the display."""
        from rich.console import Group
        from rich.text import Text

        return Group(self._bar, Text(self._facts, no_wrap=True, overflow="ellipsis"))
