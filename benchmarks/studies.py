"""The speed of a study, and the cost of a killed worker.

A study of 100 short runs (24 nodes, half a second each), from the first worker's start to the last row::

    python benchmarks/studies.py [--runs 100] [--jobs 2] [--rounds 1] [--no-ray]

prints one JSON line per question.

- ``jobs``: throughput of ``--jobs 2`` compared with ``--jobs 1`` (``speedup``). ``ceiling`` is the limit of the
  machine: the same runs in bare processes with everything imported, two of them compared with one. Two cores that are
  two threads of one core, or that other programs use, give less than 2.
- ``ray``: throughput through Ray on this machine compared with ``--jobs 2``, with and without the start of Ray.
- ``killed``: a worker is killed with SIGKILL in the middle; ``same_table``: whether the tables are byte-identical.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing as mp
import os
import signal
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from common import emit, median, say

from gossiprec.cli.progress import StudyProgressState
from gossiprec.emulation.carriers.shards.ray_backend import LOCAL
from gossiprec.study.folder import StudyFolder
from gossiprec.study.plan import StudyPlan, make_plan
from gossiprec.study.runner import Start, StudyRunner
from gossiprec.study.spec import load_study
from gossiprec.study.study_table import CSV, PARQUET
from gossiprec.study.task import run_task, threads_per_job
from gossiprec.study.worker_pool import RayRunner, WorkerPool

ROOT = Path(__file__).resolve().parents[1]
PER_SEED = 20


def study(folder: Path, n_runs: int) -> StudyPlan:
    """Write and read the study: fan-outs by learning rates by seeds."""
    path = folder / "study.yaml"
    told = {
        "name": "short",
        "base": str(ROOT / "scenarios" / "smoke.yaml"),
        "seeds": max(1, n_runs // PER_SEED),
        "axes": {
            "fanout": {"key": "protocol.fanout", "values": [1, 2, 3, 4]},
            "lr": {"key": "training.learning_rate", "values": [0.003, 0.01, 0.03, 0.1, 0.3]},
        },
        "set": {"protocol.view.size": 4},
    }
    path.write_text(yaml.safe_dump(told))
    return make_plan(load_study(path))


class Timed(StudyProgressState):
    """Records the end of the first run: later runs import nothing."""

    def __init__(self) -> None:
        super().__init__(str)
        self.times: list[float] = []

    def ended(self, *arguments: Any) -> None:
        """Record the time."""
        super().ended(*arguments)
        self.times.append(time.perf_counter())


def carried_out(plan: StudyPlan, path: Path, start: Start) -> tuple[float, float]:
    """Run a study; return the runs per second in all, and between the ends of the first and the last run."""
    folder, watching = StudyFolder(path), Timed()
    with folder.locked(plan.study.name):
        conduct = StudyRunner(plan, folder)
        begin = time.perf_counter()
        outcome = conduct.carry_out(conduct.find_unfinished(stale_runs="refuse"), start, watching)
        seconds = time.perf_counter() - begin
    assert outcome.made == len(plan.simulations), outcome.failed
    times = watching.times
    return outcome.made / seconds, (len(times) - 1) / (times[-1] - times[0])


def pool(jobs: int, told: Any = None) -> Start:
    """Return the pool of worker processes."""
    return WorkerPool(jobs, threads_per_job(jobs), told or (lambda *_: None)).carry_out


def bare(plan: StudyPlan, folder: Path, processes: int, each: int = 20) -> float:
    """Return the runs per second of bare processes."""
    context = mp.get_context("spawn")
    barrier = context.Barrier(processes + 1)
    task = StudyRunner(plan, StudyFolder(folder)).make_task(plan.simulations[0])
    workers = [
        context.Process(target=_bare, args=(barrier, task, str(folder / f"bare-{k}"), each))
        for k in range(processes)
    ]
    for worker in workers:
        worker.start()
    barrier.wait()
    begin = time.perf_counter()
    barrier.wait()
    seconds = time.perf_counter() - begin
    for worker in workers:
        worker.join()
    return processes * each / seconds


def _bare(barrier: Any, task: Any, path: str, each: int) -> None:
    task = replace(task, path=path)
    run_task(task, threads=1)
    barrier.wait()
    for _ in range(each):
        assert not run_task(task, threads=1).problem
    barrier.wait()


def killed(plan: StudyPlan, path: Path, jobs: int) -> None:
    """Run a study and kill one worker in the middle with SIGKILL."""
    victims: list[int] = []
    seen: set[str] = set()

    def kill(hash_: str, what: str) -> None:
        seen.add(hash_)
        if what == "simulating" and len(seen) > len(plan.simulations) // 2 and not victims:
            process = next(w.process for w in workers._workers if w.task and w.task.hash == hash_)
            victims.append(process.pid or 0)
            os.kill(victims[0], signal.SIGKILL)

    workers = WorkerPool(jobs, threads_per_job(jobs), kill)
    carried_out(plan, path, workers.carry_out)
    assert victims


def same_tables(one: Path, other: Path) -> bool:
    """Return whether two studies have byte-identical tables."""
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in (PARQUET, CSV))


def main() -> None:
    """Measure and print the lines."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--no-ray", action="store_true")
    options = parser.parse_args()
    jobs = options.jobs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = study(folder, options.runs)
        found: dict[str, list[float]] = {
            key: [] for key in ("one", "many", "bare_one", "bare_many", "one_warm", "many_warm")
        }
        for number in range(options.rounds):
            say(f"round {number + 1}: bare processes")
            found["bare_one"].append(bare(plan, folder, 1))
            found["bare_many"].append(bare(plan, folder, jobs))
            for key, n in (("one", 1), ("many", jobs)):
                say(f"round {number + 1}: --jobs {n}")
                whole, warm = carried_out(plan, folder / f"{key}-{number}", pool(n))
                found[key].append(whole)
                found[f"{key}_warm"].append(warm)
        rates = {key: median(values) for key, values in found.items()}
        emit(
            question="jobs", runs=len(plan.simulations), jobs=jobs, one_per_s=rates["one"], many_per_s=rates["many"],
            speedup=rates["many"] / rates["one"], warm_speedup=rates["many_warm"] / rates["one_warm"],
            ceiling=rates["bare_many"] / rates["bare_one"], bare_one_per_s=rates["bare_one"],
            of_bare=rates["one_warm"] / rates["bare_one"], load=os.getloadavg()[0],
        )  # fmt: skip
        if not options.no_ray and importlib.util.find_spec("ray"):
            say("Ray")
            whole, warm = carried_out(plan, folder / "ray", RayRunner(LOCAL, jobs, lambda *_: None).carry_out)
            emit(
                question="ray", per_s=whole, against_jobs=whole / rates["many"],
                warm_against_jobs=warm / rates["many_warm"], same_table=same_tables(folder / "ray", folder / "many-0"),
            )  # fmt: skip
        say("killing a worker in the middle")
        killed(plan, folder / "killed", jobs)
        emit(question="killed", same_table=same_tables(folder / "killed", folder / "many-0"))


if __name__ == "__main__":
    main()
