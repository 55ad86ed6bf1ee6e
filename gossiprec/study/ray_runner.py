"""The tasks of a study on Ray: a cluster that is there, or one started on this machine for the time being."""

from __future__ import annotations

import functools
import os
import tempfile
import uuid
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gossiprec.emulation.shards.ray_backend import LOCAL, connect_to_cluster, require_ray, start_local_ray
from gossiprec.eventlog.atomic_write import wrap_write_errors
from gossiprec.eventlog.own_files import temporary_name
from gossiprec.eventlog.run_directory import remove_run
from gossiprec.study.task import StudyTask, TaskResult, run_task, threads_per_job

if TYPE_CHECKING:
    from gossiprec.study.task import DataCache

RETRIES = 3
"""How often Ray runs a task again whose worker died."""
STORE_BYTES = 256 * 2**20
"""Ray's object store on this machine: it holds no more than the files of some runs."""

INSTEAD = "use --jobs"

Say = Callable[[str, str], None]


@dataclass(frozen=True)
class RemoteResult:
    """What comes back of a task: how it ended, and the files of the run where the study's folder is out of reach."""

    done: TaskResult
    files: dict[str, bytes]


@dataclass(frozen=True)
class RayRunner:
    """Carries out tasks on Ray.

    Parameters
    ----------
    address : str
        Of a cluster (``auto``, ``host:port``, ``ray://host:port``), or ``local`` to start one here.
    jobs : int, optional
        Most runs at a time; None: as many as there are processors.
    say : callable
        Is told a task's hash and what it is doing.
    """

    address: str
    jobs: int | None
    say: Say

    def carry_out(self, tasks: list[StudyTask]) -> Generator[TaskResult, None, None]:
        """Yield the end of each task as it comes; closing the generator ends what is under way.

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
                with suppress(Exception):  # the cluster may be what has gone
                    ray.cancel(reference, force=True)

    def _compile_once(self, ray: Any, tasks: list[StudyTask], threads: int) -> None:
        """Let one worker compile what several would compile at the same time, while the others import.

        What fails here fails in the runs too, where it is told.
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
        """Return how many tasks to have handed over: where Ray limits how many run, as many again wait there."""
        return self.jobs if self.jobs and not _is_own(self.address) else 2 * self._places(ray, threads)

    def _places(self, ray: Any, threads: int) -> int:
        """Return how many tasks can run at a time."""
        return max(1, int(ray.cluster_resources().get("CPU", 1)) // threads)


def _is_own(address: str) -> bool:
    """Say whether Ray is started here for the study alone."""
    return address == LOCAL and not os.environ.get("RAY_ADDRESS")


def _connected(address: str, jobs: int | None) -> Any:
    ray = require_ray(INSTEAD)
    if _is_own(address):
        jobs = jobs or threads_per_job(1)
        # so that Ray runs `jobs` tasks at a time
        start_local_ray(ray, cpus=jobs * threads_per_job(jobs), store_bytes=STORE_BYTES)
        return ray
    address = os.environ["RAY_ADDRESS"] if address == LOCAL else address
    connect_to_cluster(ray, address, instead="remove the address to start Ray on this machine")
    return ray


def _received(ray: Any, reference: Any, task: StudyTask) -> TaskResult:
    """Return how a task ended, with its files in place."""
    try:
        returned: RemoteResult = ray.get(reference)
    except ray.exceptions.RayError as error:  # the worker died once too often, or the node ran out of memory
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return TaskResult(
            task.hash, 0.0, f"Ray gave up after {RETRIES + 1} attempts: {type(error).__name__}: {reason}"
        )
    if returned.files:
        _put(Path(task.path), returned.files)
    return returned.done


def _put(path: Path, files: dict[str, bytes]) -> None:
    """Write the files of a run that was made elsewhere; the run appears whole."""
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
    """Carry out a task on a worker: in the study's folder if it is within reach, else in a folder of its own."""
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
    """Return what this worker has read; Ray gives its workers one task after the other."""
    from gossiprec.study.task import DataCache

    return DataCache()


def preload_worker() -> None:
    """Import what takes seconds, before there is a task to wait for it."""
    import torch  # noqa: F401

    import gossiprec.emulation  # noqa: F401


def compile_on_worker(task: StudyTask, cwd: str) -> None:
    """Compile what a task needs, without running it."""
    from gossiprec.emulation import prepare
    from gossiprec.scenario import load_scenario

    _enter(cwd)
    prepare(load_scenario(task.with_threads(1)))


def _enter(cwd: str) -> None:
    """Go where the study was started, if that exists here: paths of data may be relative."""
    with suppress(OSError):
        os.chdir(cwd)
