"""Progress of a run or a study on stderr: a bar on a terminal, otherwise lines; and the means of a study as a table."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from shlex import quote
from typing import TYPE_CHECKING

from gossiprec.base.text import one_line, short_name
from gossiprec.cli.terminal import echo, make_console
from gossiprec.streams import is_unread, silence

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.table import Table

    from gossiprec.emulation.progress import Progress, Status
    from gossiprec.figures.study.table_reader import StudyTable
    from gossiprec.study.runner import TimeLeft
    from gossiprec.study.task import TaskResult


LINE_EVERY_S = 10.0
"""Seconds between two lines if stderr is not a terminal."""


@contextmanager
def progress_display(*, quiet: bool = False) -> Iterator[Progress | None]:
    """Show the progress of a run until the body ends; yield None if nothing is to be shown."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        console = make_console(stderr=True)
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
    """Return the time left at the speed so far."""
    rate = _rate(status)
    if not rate:
        return ""
    return f"{format_clock_time((status.total_updates - status.updates) / rate)} left"


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
        echo(f"{text} ...", err=True)
        self._due = time.monotonic() + self._every_s

    def tick(self, status: Status) -> None:
        """Print the progress of the run, if a line is due."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + self._every_s
        echo(", ".join([_share(status), *format_status(status), format_time_left(status)]), err=True)

    def note(self, text: str) -> None:
        """Print the note."""
        echo(f"note: {text}", err=True)


class RunProgressBar:
    """A bar over the local epochs, with the phase next to it and the figures below; erased when the run ends."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
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
        self._bar.update(self._task, description=f"{one_line(text)} ...", total=None, share="", left="")
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
        self._bar.console.print(f"note: {text}")

    def renderable(self) -> RenderableType:
        """Return the present content of the display."""
        from rich.console import Group
        from rich.text import Text

        return Group(self._bar, Text(one_line(self._facts), no_wrap=True, overflow="ellipsis"))


STUDY_LINE_EVERY_S = 2.0
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
        self._due = time.monotonic() + STUDY_LINE_EVERY_S
        now = f"; now {'; '.join(self.describe_running())}" if self.running else ""
        echo(f"{', '.join(self.describe_progress())}; last {self.last}{now}", err=True)


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
        lines = [Text(one_line(text), no_wrap=True, overflow="ellipsis") for text in texts]
        return Group(ProgressBar(total=max(self.total, 1), completed=self.n_done), *lines)


@contextmanager
def study_progress_display(
    name: Callable[[str], str], left: TimeLeft, *, quiet: bool
) -> Iterator[StudyProgressState]:
    """Show the progress of a study until the body ends."""
    if quiet:
        yield StudyProgressState(name)
    elif sys.stderr.isatty():
        bar = StudyProgressBar(name, left)
        with live_display(make_console(stderr=True), bar.renderable):
            yield bar
    else:
        yield StudyProgressLines(name, left)


MOST_COLUMNS = 5
MOST_ROWS = 40


def means_table(table: StudyTable) -> Table:
    """Return a table with a row per combination of the varying axes and a column for each of the first measures."""
    from gossiprec.cli.summary_text import plain_table
    from gossiprec.figures.study.estimates import tabulate_means

    means = tabulate_means(table, most_rows=MOST_ROWS, most_columns=MOST_COLUMNS)
    found = plain_table(gap=2)
    for name in means.axes:
        found.add_column(short_name(name), vertical="bottom", overflow="fold")
    for heading in means.headings:
        found.add_column(heading, justify="right", vertical="bottom")
    for row in means.rows:
        found.add_row(*map(short_name, row))
    return found


def format_table_note(table: StudyTable, folder: Path) -> str:
    """Return how to read the table, what it leaves out, and the commands to continue with."""
    from gossiprec.figures.study.estimates import NOTE, tabulate_means

    means = tabulate_means(table, most_rows=MOST_ROWS, most_columns=MOST_COLUMNS)
    left = [f"{means.more_rows} more combinations"] if means.more_rows else []
    left += [f"{means.more_columns} more measures"] if means.more_columns else []
    lines = [NOTE]
    lines += [f"In {folder / 'table.csv'}: {' and '.join(left)}."] if left else []
    kind = " --kind paired" if table.baseline and not table.picture else ""
    lines += [f"figures       gossiprec plot study {quote(str(folder))}{kind}"] if table.varying else []
    return "\n".join([*lines, f"report        gossiprec report {quote(str(folder))}"])
