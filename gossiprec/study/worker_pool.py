"""Runners of a study's tasks: worker processes on this machine, of which each may die without harm, and Ray."""

from __future__ import annotations

import functools
import multiprocessing as mp
import os
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gossiprec.base.errors import ScenarioError
from gossiprec.emulation.assembly.shard_partition import require_ray
from gossiprec.emulation.carriers.shards.ray_backend import LOCAL, connect_to_cluster, start_local_ray
from gossiprec.runs.run_directory import remove_run
from gossiprec.runs.run_files import temporary_name, wrap_write_errors
from gossiprec.study.task import StudyTask, TaskResult, run_task, threads_per_job

if TYPE_CHECKING:
    from gossiprec.emulation.progress import Status
    from gossiprec.study.task import DataCache


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


RETRIES = 3
"""Number of retries of a task after its worker died."""
STORE_BYTES = 256 * 2**20
"""Size of Ray's object store on this machine in bytes; it holds only the files of a few runs."""

INSTEAD = "use --jobs"


@dataclass(frozen=True)
class RemoteResult:
    """The result of a remote task, with the files of the run if the study's folder is out of reach."""

    done: TaskResult
    files: dict[str, bytes]


@dataclass(frozen=True)
class RayRunner:
    """The runner that carries out tasks on Ray.

    Parameters
    ----------
    address : str
        Address of a cluster (``auto``, ``host:port``, ``ray://host:port``), or ``local`` to start one here.
    jobs : int, optional
        Limit on parallel runs; None for one per processor.
    say : callable
        Called with a task's hash and its present activity.
    """

    address: str
    jobs: int | None
    say: Say

    def carry_out(self, tasks: list[StudyTask]) -> Generator[TaskResult, None, None]:
        """Yield the result of each task as it ends; closing the generator ends the running tasks.

        Raises
        ------
        ResourceError
            If Ray is not installed, or the cluster cannot be reached.
        """
        ray = _connected(self.address, self.jobs)
        token = Path(tasks[0].path).parent / f".reach-{uuid.uuid4().hex}"
        with wrap_write_errors(token):
            token.touch()
        try:
            yield from self._streamed(ray, tasks, token)
        finally:
            token.unlink(missing_ok=True)
            ray.shutdown()

    def _streamed(self, ray: Any, tasks: list[StudyTask], token: Path) -> Generator[TaskResult, None, None]:
        threads = threads_per_job(self.jobs) if self.jobs and _is_own(self.address) else 1
        run = ray.remote(num_cpus=threads, max_retries=RETRIES)(run_remote_task)
        self._compile_once(ray, tasks, threads)
        waiting = list(reversed(tasks))
        running: dict[Any, StudyTask] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self._window(ray, threads):
                    task = waiting.pop()
                    running[run.remote(task, threads, os.getcwd(), str(token))] = task
                    self.say(task.hash, "passed to Ray")
                ended, _ = ray.wait(list(running), num_returns=1)
                for reference in ended:
                    yield _received(ray, reference, running.pop(reference))
        finally:
            for reference in running:
                with suppress(Exception):  # the cluster itself may have stopped
                    ray.cancel(reference, force=True)

    def _compile_once(self, ray: Any, tasks: list[StudyTask], threads: int) -> None:
        """Let one worker compile kernels that several need, while the others import.

        A failure here is not reported: the runs fail in the same way and report it.
        """
        signatures = [task.signature for task in tasks]
        firsts = {task.signature: task for task in reversed(tasks) if signatures.count(task.signature) > 1}
        compile_ = ray.remote(num_cpus=threads, max_retries=RETRIES)(compile_on_worker)
        compiling = [compile_.remote(task, os.getcwd()) for task in firsts.values()]
        importing = ray.remote(num_cpus=threads)(preload_worker)
        for _ in range(min(self._places(ray, threads), len(tasks)) - len(compiling)):
            importing.remote()
        for reference in compiling:
            with suppress(Exception):
                ray.get(reference)

    def _window(self, ray: Any, threads: int) -> int:
        """Return the number of tasks to submit: if Ray limits the running tasks, as many again wait in its queue."""
        return self.jobs if self.jobs and not _is_own(self.address) else 2 * self._places(ray, threads)

    def _places(self, ray: Any, threads: int) -> int:
        """Return the number of tasks that can run in parallel."""
        return max(1, int(ray.cluster_resources().get("CPU", 1)) // threads)


def _is_own(address: str) -> bool:
    """Return whether Ray is started on this machine only for the study."""
    return address == LOCAL and not os.environ.get("RAY_ADDRESS")


def _connected(address: str, jobs: int | None) -> Any:
    ray = require_ray(INSTEAD)
    if _is_own(address):
        jobs = jobs or threads_per_job(1)
        # so that Ray runs `jobs` tasks in parallel
        start_local_ray(ray, cpus=jobs * threads_per_job(jobs), store_bytes=STORE_BYTES)
        return ray
    address = os.environ["RAY_ADDRESS"] if address == LOCAL else address
    connect_to_cluster(ray, address, instead="remove the address to start Ray on this machine")
    return ray


def _received(ray: Any, reference: Any, task: StudyTask) -> TaskResult:
    """Return the result of a task, with its files in place."""
    try:
        returned: RemoteResult = ray.get(reference)
    except ray.exceptions.RayError as error:  # the worker died too often, or its machine ran out of memory
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return TaskResult(
            task.hash, 0.0, f"Ray gave up after {RETRIES + 1} attempts: {type(error).__name__}: {reason}"
        )
    if returned.files:
        _put(Path(task.path), returned.files)
    return returned.done


def _put(path: Path, files: dict[str, bytes]) -> None:
    """Write the files of a run that was made elsewhere; the run appears in one step."""
    with wrap_write_errors(path):
        remove_run(path)
        arriving = temporary_name(path)
        arriving.mkdir()
        for name, content in files.items():
            target = arriving / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        arriving.rename(path)


def run_remote_task(task: StudyTask, threads: int, cwd: str, token: str) -> RemoteResult:
    """Carry out a task on a worker: in the study's folder if it is within reach, otherwise in a temporary folder."""
    _enter(cwd)
    if Path(token).exists():
        return RemoteResult(run_task(task, threads=threads, load=_data()), {})
    with tempfile.TemporaryDirectory(prefix="gossiprec-") as folder:
        path = Path(folder) / task.hash
        done = run_task(replace(task, path=str(path)), threads=threads, load=_data())
        found = sorted(p for p in path.rglob("*") if p.is_file()) if not done.problem else []
        return RemoteResult(done, {p.relative_to(path).as_posix(): p.read_bytes() for p in found})


@functools.cache
def _data() -> DataCache:
    """Return this worker's data cache; Ray gives its workers one task after the other."""
    from gossiprec.study.task import DataCache

    return DataCache()


def preload_worker() -> None:
    """Import the slow modules before there is a task."""
    import torch  # noqa: F401

    import gossiprec.emulation  # noqa: F401


def compile_on_worker(task: StudyTask, cwd: str) -> None:
    """Compile the kernels of a task, without running it."""
    from gossiprec.emulation import prepare
    from gossiprec.scenario import load_scenario

    _enter(cwd)
    prepare(load_scenario(task.with_threads(1)))


def _enter(cwd: str) -> None:
    """Change to the folder in which the study was started, if it exists here: data paths may be relative."""
    with suppress(OSError):
        os.chdir(cwd)
