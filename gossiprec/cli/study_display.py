"""A study on the terminal: its progress on stderr, and its means as a table."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from gossiprec.cli.progress import live_display
from gossiprec.cli.summary_text import plain_table
from gossiprec.figures.study.estimates import NOTE, tabulate_means
from gossiprec.figures.study.table_reader import StudyTable

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType
    from rich.table import Table

    from gossiprec.study.task import TaskResult
    from gossiprec.study.time_left import TimeLeft


LINE_EVERY_S = 2.0
MOST_SHOWN = 8
"""Number of running simulations that are named."""


class StudyProgressState:
    """The progress of a study; shows nothing.

    Parameters
    ----------
    name : callable
        Maps the hash of a simulation to its name.
    left : TimeLeft, optional
        Estimates the time left.
    """

    def __init__(self, name: Callable[[str], str], left: TimeLeft | None = None) -> None:
        self._name, self._left = name, left
        self.total = self.ended_before = self.n_ended = self.n_failed = 0
        self.running: dict[str, str] = {}
        self.last = ""

    def begin(self, *, total: int, kept: int) -> None:
        """Note the number of simulations, and how many of them were kept."""
        self.total, self.ended_before = total, kept

    def split(self, hash_: str, number: int, kept: int) -> None:
        """Note that a simulation was split into several."""
        self.running.pop(hash_, None)
        self.total += number - 1
        self.ended_before += kept
        if self._left:
            self._left.note_split(hash_, number - kept)

    def note_activity(self, hash_: str, activity: str) -> None:
        """Note the present activity of a simulation."""
        self.running[hash_] = activity
        if self._left:
            self._left.note_start(hash_)

    def ended(self, done: TaskResult, label: str, headline: str) -> None:
        """Note the end of a simulation."""
        self.running.pop(done.hash, None)
        self.n_ended += 1
        self.n_failed += bool(done.problem)
        if self._left:
            self._left.note_end(done.hash, done.seconds - done.compiling, failed=bool(done.problem))
        self.last = f"{label}: {'failed' if done.problem else headline}"

    @property
    def n_done(self) -> int:
        """Simulations that have ended, in this process or earlier."""
        return self.ended_before + self.n_ended

    def describe_progress(self) -> list[str]:
        """Return the facts to show, as text."""
        facts = [f"{self.n_done} of {self.total} runs"]
        if self.n_failed:
            facts.append(f"{self.n_failed} failed")
        seconds = self._left.estimate_seconds() if self._left else None
        return facts if seconds is None else [*facts, f"about {format_clock_time(seconds)} left"]

    def describe_running(self) -> list[str]:
        """Return the running simulations, one line each."""
        lines = [f"{self._name(hash_)}: {what}" for hash_, what in list(self.running.items())[:MOST_SHOWN]]
        more = len(self.running) - len(lines)
        return [*lines, f"and {more} more"] if more > 0 else lines


def format_clock_time(seconds: float) -> str:
    """Return a duration as ``h:mm:ss``, or ``m:ss`` below an hour."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class StudyProgressLines(StudyProgressState):
    """Progress as plain lines: one every few seconds, and one at the end of the last simulation."""

    def __init__(self, name: Callable[[str], str], left: TimeLeft | None = None) -> None:
        super().__init__(name, left)
        self._due = 0.0

    def ended(self, done: TaskResult, label: str, headline: str) -> None:
        """Print the progress of the study, if a line is due."""
        super().ended(done, label, headline)
        if time.monotonic() < self._due and self.n_done < self.total:
            return
        self._due = time.monotonic() + LINE_EVERY_S
        now = f"; now {'; '.join(self.describe_running())}" if self.running else ""
        click.echo(f"{', '.join(self.describe_progress())}; last {self.last}{now}", err=True)


class StudyProgressBar(StudyProgressState):
    """A bar with the running simulations below it; erased when the study ends."""

    def renderable(self) -> RenderableType:
        """Return the present content of the display."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        texts = [
            ", ".join(self.describe_progress()),
            *self.describe_running(),
            *([f"last {self.last}"] if self.last else []),
        ]
        lines = [Text(text, no_wrap=True, overflow="ellipsis") for text in texts]
        return Group(ProgressBar(total=max(self.total, 1), completed=self.n_done), *lines)


@contextmanager
def study_progress_display(
    name: Callable[[str], str], left: TimeLeft, *, quiet: bool
) -> Iterator[StudyProgressState]:
    """Show the progress of a study until the body ends."""
    if quiet:
        yield StudyProgressState(name)
    elif sys.stderr.isatty():
        from rich.console import Console

        bar = StudyProgressBar(name, left)
        with live_display(Console(stderr=True), bar.renderable):
            yield bar
    else:
        yield StudyProgressLines(name, left)


MOST_COLUMNS = 5
MOST_ROWS = 40


def means_table(table: StudyTable) -> Table:
    """Return a table with a row per combination of the varying axes and a column for each of the first measures."""
    means = tabulate_means(table, most_rows=MOST_ROWS, most_columns=MOST_COLUMNS)
    found = plain_table(gap=2)
    for name in means.axes:
        found.add_column(name, vertical="bottom", overflow="fold")
    for heading in means.headings:
        found.add_column(heading, justify="right", vertical="bottom")
    for row in means.rows:
        found.add_row(*row)
    return found


def format_table_note(table: StudyTable, folder: Path) -> str:
    """Return how to read the table, what it leaves out, and the commands to continue with."""
    means = tabulate_means(table, most_rows=MOST_ROWS, most_columns=MOST_COLUMNS)
    left = [f"{means.more_rows} more combinations"] if means.more_rows else []
    left += [f"{means.more_columns} more measures"] if means.more_columns else []
    lines = [NOTE]
    lines += [f"In {folder / 'table.csv'}: {' and '.join(left)}."] if left else []
    kind = " --kind paired" if table.baseline and not table.picture else ""
    lines += [f"figures       gossiprec plot study {folder}{kind}"] if table.varying else []
    return "\n".join([*lines, f"report        gossiprec report {folder}"])
