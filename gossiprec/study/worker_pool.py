"""A pool of worker processes on one machine: each takes one task after the other, and may die without harm."""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING

from gossiprec.base.errors import ScenarioError
from gossiprec.study.task import StudyTask, TaskResult, run_task

if TYPE_CHECKING:
    from gossiprec.emulation import Status


class TaskQueue:
    """The tasks that have not been given to a worker.

    The first task of each signature runs before the others until its kernels are compiled; all then load them from
    disk.
    """

    def __init__(self, tasks: Sequence[StudyTask]) -> None:
        self._tasks = deque(tasks)
        self._compiling: set[str] = set()
        self._compiled: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def take_startable(self) -> StudyTask | None:
        """Return the next task that may start now, if any."""
        task = next((task for task in self._tasks if task.signature not in self._compiling), None)
        if task is not None:
            self._tasks.remove(task)
            if task.signature not in self._compiled:
                self._compiling.add(task.signature)
        return task

    def put_back(self, task: StudyTask) -> None:
        """Put a task back at the front of the queue."""
        self._tasks.appendleft(task)

    def note_compiled(self, task: StudyTask) -> None:
        """Note that the kernels of a task exist, or that no worker is compiling them any more."""
        self._compiling.discard(task.signature)
        self._compiled.add(task.signature)


ATTEMPTS = 4
"""Attempts per task: after its worker dies, a task is retried three times."""
STATUS_EVERY_S = 0.5
ORPHANED = 137
UNGUARDED = 138
"""Exit status of a worker that would have started the study again when it imported the main script."""
UNGUARDED_CALL = (
    "study: found jobs above 1 in a script without a main guard, but each worker process imports the "
    'script; put the call under `if __name__ == "__main__":`, or use jobs=1'
)
AT_WORK = ("simulating", "resuming at")
"""First words of the phases in which a run has its kernels."""

Say = Callable[[str, str], None]
"""A function that receives a task's hash and its present activity."""


@dataclass
class _Worker:
    """A worker process and this process's end of its pipe."""

    process: BaseProcess
    pipe: Connection
    task: StudyTask | None = None


@dataclass
class WorkerPool:
    """A pool of worker processes.

    Parameters
    ----------
    jobs : int
        Number of processes.
    threads : int
        Threads of each run.
    say : callable
        Called with the activity of each task.
    """

    jobs: int
    threads: int
    say: Say
    _workers: list[_Worker] = field(default_factory=list)

    def carry_out(self, tasks: list[StudyTask]) -> Generator[TaskResult, None, None]:
        """Yield the result of each task as it ends; closing the iterator ends the workers at once.

        If a worker dies, its task is retried; the other tasks continue.
        """
        waiting = TaskQueue(tasks)
        attempts = {task.hash: 0 for task in tasks}
        try:
            for _ in range(min(self.jobs, len(tasks))):  # all import while the first compiles
                self._workers.append(_start(self.threads))
            while waiting or any(worker.task for worker in self._workers):
                self._assign_tasks(waiting, attempts)
                for worker in self._ready():
                    yield from self._hear(worker, waiting, attempts)
        finally:
            self._end()

    def _assign_tasks(self, waiting: TaskQueue, attempts: dict[str, int]) -> None:
        """Give waiting tasks to idle workers, or to new ones."""
        while True:
            worker = next((worker for worker in self._workers if worker.task is None), None)
            if worker is None and len(self._workers) == self.jobs:
                return
            task = waiting.take_startable()
            if task is None:
                return
            if worker is None:
                worker = _start(self.threads)
                self._workers.append(worker)
            attempts[task.hash] += 1
            worker.task = task
            self.say(task.hash, "starting")
            with suppress(OSError):  # it died while idle; its end is noticed at once
                worker.pipe.send(task)

    def _ready(self) -> list[_Worker]:
        busy = {worker.pipe: worker for worker in self._workers}
        return [busy[pipe] for pipe in wait(list(busy)) if isinstance(pipe, Connection)]

    def _hear(self, worker: _Worker, waiting: TaskQueue, attempts: dict[str, int]) -> Iterator[TaskResult]:
        task = worker.task
        try:
            heard = worker.pipe.recv()
        except (EOFError, OSError):
            self._workers.remove(worker)
            worker.process.join()
            worker.pipe.close()
            if worker.process.exitcode == UNGUARDED:
                raise ScenarioError(UNGUARDED_CALL) from None
            if task is not None:
                yield from _lost(task, worker.process.exitcode or 0, waiting, attempts)
            return
        assert task is not None, "an idle worker sends nothing"
        if isinstance(heard, TaskResult):
            worker.task = None
            waiting.note_compiled(task)
            yield heard
        else:
            if heard.startswith(AT_WORK):
                waiting.note_compiled(task)
            self.say(task.hash, heard)

    def _end(self) -> None:
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
            worker.pipe.close()
        self._workers.clear()


def leave_if_imported_by_worker() -> None:
    """Exit if this is a worker that, by importing the main script, would start the same study again."""
    if getattr(
        mp.current_process(), "_inheriting", False
    ):  # multiprocessing's own check for this mistake uses the same test
        sys.exit(UNGUARDED)


def _lost(task: StudyTask, code: int, waiting: TaskQueue, attempts: dict[str, int]) -> Iterator[TaskResult]:
    """Put the task of a dead worker back into the queue, or report it as failed."""
    waiting.note_compiled(task)
    if attempts[task.hash] < ATTEMPTS:
        waiting.put_back(task)
        return
    how = (
        f"killed by signal {-code} ({signal.Signals(-code).name})"
        if code < 0
        else f"ended with status {code}"
    )
    memory = "; if the memory ran out, lower --jobs" if code == -signal.SIGKILL else ""
    yield TaskResult(task.hash, 0.0, f"its worker process was {how}, {ATTEMPTS} times{memory}")


def _start(threads: int) -> _Worker:
    # forking a process with threads and compiled kernels would not be safe
    context = mp.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=worker_main, args=(theirs, threads), daemon=True)
    with _without_ctrl_c():
        process.start()
    theirs.close()  # otherwise its end would not be noticed
    return _Worker(process, ours)


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Ignore Ctrl-C in the body, so that a process started there ignores it from its first instruction."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def worker_main(pipe: Connection, threads: int) -> None:
    """Carry out the tasks that come through a pipe until it ends: the main function of a worker."""
    # Ctrl-C reaches all processes of a terminal; the study ends its workers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import torch  # noqa: F401  # takes seconds, before there is a task

    from gossiprec.study.task import DataCache

    load = DataCache()
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        pipe.send(run_task(task, threads=threads, progress=_Telling(pipe), load=load))


def _end_with_parent() -> None:
    """Exit at once when the study's process has ended: a restarted study would find this one writing."""
    parent = mp.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(ORPHANED)


class _Telling:
    """A progress that reports a run's activity to the study, seldom enough to cost nothing."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._due = 0.0

    def phase(self, text: str) -> None:
        """Report the phase."""
        self._pipe.send(text)

    def note(self, text: str) -> None:
        """Ignore the note: the run keeps its notes in its summary."""

    def tick(self, status: Status) -> None:
        """Report the progress."""
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + STATUS_EVERY_S
            self._pipe.send(f"{100 * status.updates / max(status.total_updates, 1):.0f} %")
