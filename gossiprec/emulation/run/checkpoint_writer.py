"""Checkpoints of a run, written by a process of their own while the run continues."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from gossiprec.emulation.assembly.kernel_warmup import fork
from gossiprec.emulation.assembly.schedule import ReportTick
from gossiprec.emulation.progress import Progress
from gossiprec.runs import RunDirectory
from gossiprec.runs.checkpoint_format import CheckpointStamp
from gossiprec.runs.checkpoint_state import State
from gossiprec.runs.run_files import sync_file
from gossiprec.scenario.sections import CheckpointOptions

NICENESS = 5
"""Niceness of the writer: it gives way to the run, but still gets a share of a busy machine."""
MAX_MESSAGE = 4096


@dataclass(frozen=True)
class _Writer:
    """A process that writes a checkpoint, and the pipe through which it reports errors."""

    process: int
    answer: int
    stamp: CheckpointStamp


class CheckpointWriter:
    """The writer that decides at every report whether a checkpoint is due, and starts writing it.

    Parameters
    ----------
    directory : RunDirectory
    options : CheckpointOptions
    progress : Progress
        Receives one note if checkpoints cannot be written; the run continues.
    done : int
        Rounds done by an earlier process.

    Notes
    -----
    The writer is a fork of the process, so it sees memory as it was at the report, and the run continues at once. The
    system copies a page when the run writes to it while the writer still needs it. The writer has a lower priority, so
    that it mostly works when the run leaves a core idle.
    """

    def __init__(
        self, directory: RunDirectory, options: CheckpointOptions, progress: Progress, *, done: int = 0
    ) -> None:
        self._directory = directory
        self._options = options
        self._progress = progress
        self._last_round = done
        self._last_time = time.monotonic()
        self._writer: _Writer | None = None
        self._possible = True
        self._has_reported = False

    def start_if_due(
        self, tick: ReportTick, number: int, state: Callable[[], State], *, at_once: bool = False
    ) -> None:
        """Start writing a checkpoint if one is due and none is being written.

        Parameters
        ----------
        tick : ReportTick
        number : int
            Reports so far.
        state : callable
            Returns the state of the run; arrays in it are not copied here.
        at_once : bool
            Whether the run ends here: a checkpoint is then written after the present one, if any are due.
        """
        self._settle(wait=at_once)
        if not self._possible or self._writer or not self._due(tick.round, at_once=at_once):
            return
        self._last_round, self._last_time = tick.round, time.monotonic()
        try:
            found = state()
        except NotImplementedError as reason:
            self._possible = False
            self._tell(f"no checkpoints: {reason}")
            return
        self._write(self._directory.stamp(tick=number, time=tick.time), found)

    def end_pending_write(self, *, keep: bool) -> None:
        """Wait for the checkpoint that is being written, or cancel it if it is not wanted."""
        if self._writer and not keep:
            os.kill(self._writer.process, signal.SIGKILL)
            os.waitpid(self._writer.process, 0)
            os.close(self._writer.answer)
            self._writer = None
        self._settle(wait=True)

    def _due(self, round_: int, *, at_once: bool) -> bool:
        every, minutes = self._options.every, self._options.minutes
        if at_once:
            return every is not None or minutes is not None
        by_round = every is not None and round_ - self._last_round >= every
        return by_round or (minutes is not None and time.monotonic() - self._last_time >= 60 * minutes)

    def _write(self, stamp: CheckpointStamp, state: State) -> None:
        answer, question = os.pipe()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Ctrl-C goes only to the run
        parent = os.getpid()
        try:
            child = fork()
            if child == 0:
                self._write_and_leave(stamp, state, parent, question)
            self._writer = _Writer(child, answer, stamp)
        except OSError as error:
            os.close(answer)
            self._failed(stamp.time, error.strerror or str(error))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(question)

    def _write_and_leave(self, stamp: CheckpointStamp, state: State, parent: int, question: int) -> NoReturn:
        """Write the checkpoint in the forked process and exit; control must not return to the code of the run."""
        status = 1
        try:
            self._directory.lock.close()
            os.nice(NICENESS)
            for path in (self._directory.log.path, *(table.path for table in self._directory.tables)):
                sync_file(path)
            keep, checkpoints = self._options.keep, self._directory.checkpoints
            checkpoints.write(stamp, state, keep=keep, wanted=lambda: os.getppid() == parent)
            status = 0
        except BaseException as error:
            reason = (isinstance(error, OSError) and error.strerror) or f"{type(error).__name__}: {error}"
            os.write(question, reason.encode()[:MAX_MESSAGE])
        finally:
            os._exit(status)

    def _settle(self, *, wait: bool) -> None:
        """Check whether the writer has ended, and how."""
        if self._writer is None:
            return
        process, status = os.waitpid(self._writer.process, 0 if wait else os.WNOHANG)
        if process == 0:
            return
        reason = os.read(self._writer.answer, MAX_MESSAGE).decode(errors="replace")
        os.close(self._writer.answer)
        stamp, self._writer = self._writer.stamp, None
        if status == 0:
            self._directory.checkpoints.note_written(stamp.tick)
            return
        ended = f"its process ended with status {os.waitstatus_to_exitcode(status)}"
        self._failed(stamp.time, reason or ended)

    def _failed(self, at: float, reason: str) -> None:
        self._tell(
            f"could not write a checkpoint at time {at:g} ({reason}); the run continues and will retry at the next one"
        )

    def _tell(self, text: str) -> None:
        """Report a problem once; later ones are likely to be the same."""
        if not self._has_reported:
            self._has_reported = True
            self._directory.notes.append(text)
            self._progress.note(text)
