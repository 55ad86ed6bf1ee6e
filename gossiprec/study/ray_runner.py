"""Runner of a study's tasks on Ray: on an existing cluster, or on one started for the study on this machine."""

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

from gossiprec.emulation.assembly.shard_partition import require_ray
from gossiprec.emulation.shards.ray_backend import LOCAL, connect_to_cluster, start_local_ray
from gossiprec.runs.run_directory import remove_run
from gossiprec.runs.run_files import temporary_name, wrap_write_errors
from gossiprec.study.task import StudyTask, TaskResult, run_task, threads_per_job

if TYPE_CHECKING:
    from gossiprec.study.task import DataCache

RETRIES = 3
"""Number of retries of a task after its worker died."""
STORE_BYTES = 256 * 2**20
"""Size of Ray's object store on this machine in bytes; it holds only the files of a few runs."""

INSTEAD = "use --jobs"

Say = Callable[[str, str], None]


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
