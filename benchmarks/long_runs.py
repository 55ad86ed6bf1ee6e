"""Long runs: memory, logs above 4 GB, checkpoints, and studies of thousands of runs.

    python benchmarks/long_runs.py log --messages 1000000,4000000,16000000

One JSON line for each figure; the last line names the machine. Parts:

- ``log``: a log of the given numbers of messages (1,000 nodes that wake, draw a view, send three messages and train
  once per unit of time) is written, verified, counted (``log stats``), plotted (``plot exposure``) and reported. For
  each command: ``us_per_message``, microseconds of wall time per message without the start of Python, and ``peak_mib``,
  the largest resident set of its process. 100 million messages need 6 GB of disk.
- ``studies``: a folder of the given numbers of finished runs. Wall seconds, without the start of Python, of the first
  ``study`` (all runs are found, the table is written), of ``resume`` (the same again), ``table``, ``report``, ``runs``
  and ``diff``, and of ``study`` after one run was broken, which runs again.
- ``memory``: 50 nodes, all of which attack, for 24 virtual hours of a wake per minute: the resident set after 10 to
  100 % of the local updates, in MiB, and the checkpoints (one every ``--minutes``): number, size, share of the time.
- ``workers``: tiny runs on two workers, processes of this machine and of Ray: ``overhead_s_per_run`` is the time of a
  worker between the ends of the first runs and the last that its runs do not account for, per run.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from common import emit, say

ROOT = Path(__file__).resolve().parents[1]
N_NODES, FANOUT, N_SEEDS = 1000, 3, 10
GOSSIP: dict[str, Any] = {"name": "rand-gossip", "fanout": FANOUT, "view": {"size": FANOUT}, "wakes": 10}
SMALL = {
    "name": "long", "seed": 1, "plots": False,
    "dataset": {"name": "synthetic", "users": 50, "items": 60, "interactions": 1000, "split": {"name": "published"}},
    "model": {"name": "gmf", "dim": 4},
    "protocol": GOSSIP,
    "evaluate": {"every": 5, "metrics": ["hr@5"]},
}  # fmt: skip


def numbers(text: str) -> list[int]:
    """Return the numbers in a comma-separated list."""
    return [int(part) for part in text.split(",")]


def measured(arguments: list[str]) -> tuple[float, float]:
    """Run gossiprec in a process of its own; return its wall seconds and the peak of its resident set in MiB."""
    begin, peak = time.perf_counter(), 0
    process = subprocess.Popen([sys.executable, "-m", "gossiprec", *arguments], stdout=subprocess.DEVNULL)
    while process.poll() is None:
        with suppress(OSError, IndexError):  # it has just ended
            status = Path(f"/proc/{process.pid}/status").read_text().split("VmHWM:")[1]
            peak = max(peak, int(status.split()[0]))
        time.sleep(0.02)
    if process.returncode:
        raise SystemExit(f"gossiprec {' '.join(arguments)} ended with {process.returncode}")
    return time.perf_counter() - begin, peak / 1024


def write_long_log(path: Path, n_messages: int) -> str:
    """Replace the log of a finished run by one of a long run, and return its digest."""
    from gossiprec.runs.writer import EventWriter

    draw, per_part = np.random.default_rng(1), 20
    nodes, node = N_NODES * per_part, np.tile(np.arange(N_NODES), per_part)
    with EventWriter(path, sizes={"view_size": FANOUT}) as log:
        for part in range(-(-n_messages // (nodes * FANOUT))):
            wakes = np.sort(draw.random(nodes) * per_part) + part * per_part
            peers = (node[:, None] + draw.integers(1, N_NODES, (nodes, FANOUT))) % N_NODES
            arrived = np.repeat(wakes, FANOUT)
            log.append("wake", {"time": wakes, "node": node})
            log.append("view", {"time": wakes, "node": node, "peers": peers})
            log.append("message", {
                "time": arrived + 1e-3, "sender": np.repeat(node, FANOUT), "receiver": peers.ravel(),
                "sent_at": arrived, "size_bytes": np.full(len(arrived), 5000), "queued": np.zeros(len(arrived)),
            })  # fmt: skip
            log.append(
                "update",
                {"time": wakes, "node": node, "epochs": np.ones(nodes), "samples": np.full(nodes, 90)},
            )
            log.append("evaluate", {"time": [float((part + 1) * per_part)], "round": [(part + 1) * per_part]})
        log.close()
        return log.digest


def long_run(folder: Path, n_messages: int) -> Path:
    """Return a run directory with a long log, whose manifest and summary agree with it."""
    from gossiprec import simulate
    from gossiprec.runs import manifest, run_files

    run = folder / f"run-{n_messages}"
    simulate(SMALL, out=run)
    digest = write_long_log(run / run_files.EVENTS, n_messages)
    summary = json.loads((run / run_files.SUMMARY).read_text())
    manifest.write_json(run / run_files.SUMMARY, {**summary, "nodes": N_NODES, "messages": n_messages})
    found = {**manifest.read_manifest(run), "log_digest": digest}
    manifest.write_manifest(run, {**found, "files": manifest.digests_of(run)})
    return run


def log_part(options: argparse.Namespace) -> None:
    """Measure the commands that read a whole log."""
    start = measured(["log", "--help"])[0]
    for n_messages in options.messages:
        with tempfile.TemporaryDirectory(dir=options.folder) as name:
            say(f"{n_messages:,} messages")
            begin = time.perf_counter()
            run = long_run(Path(name), n_messages)
            written = time.perf_counter() - begin
            commands = {
                "verify": ["log", "verify", str(run)],
                "stats": ["log", "stats", str(run)],
                "plot": ["plot", "exposure", str(run)],
                "report": ["report", str(run)],
                "export": ["log", "export", str(run), "--kind", "message", "--out", f"{name}/m.parquet"],
            }
            found: dict[str, Any] = {"part": "log", "messages": n_messages, "write_s": written}
            found["gb"] = (run / "events.mplog").stat().st_size / 1e9
            for command, arguments in commands.items():
                seconds, peak = measured(arguments)
                found[f"{command}_us_per_message"] = (seconds - start) * 1e6 / n_messages
                found[f"{command}_peak_mib"] = peak
            emit(**found)


def write_study(folder: Path, rates: list[float], seeds: int) -> Path:
    """Write the file of a study over learning rates, and return its path."""
    import yaml

    axes = {"rate": {"key": "training.learning_rate", "values": rates}}
    told = {"name": "long", "base": SMALL, "seeds": seeds, "axes": axes}
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(told))
    return path


def finished_study(folder: Path, n_runs: int) -> Path:
    """Write a study file and a folder with all of its runs, copies of one finished run; return the study file."""
    from gossiprec import simulate
    from gossiprec.base.plain_text import dump_yaml
    from gossiprec.runs import manifest, run_files
    from gossiprec.study.folder import StudyFolder, StudyRecord
    from gossiprec.study.plan import make_plan
    from gossiprec.study.spec import load_study

    rates = [round(0.001 * (1 + number), 6) for number in range(n_runs // N_SEEDS)]
    path = write_study(folder, rates, N_SEEDS)
    first = folder / "first"
    simulate(SMALL, out=first)
    found, summary = manifest.read_manifest(first), json.loads((first / run_files.SUMMARY).read_text())
    plan = make_plan(load_study(path))
    for n, simulation in enumerate(plan.simulations):
        run = folder / "out" / "runs" / simulation.hash
        run.mkdir(parents=True)
        for file in first.iterdir():
            if (
                file.name not in (run_files.SCENARIO, run_files.MANIFEST, run_files.SUMMARY)
                and file.is_file()
            ):
                os.link(file, run / file.name)
        (run / run_files.SCENARIO).write_text(dump_yaml(simulation.scenario.resolved()))
        seed, utility = simulation.scenario.seed, dict.fromkeys(summary["utility"], n / n_runs)
        manifest.write_json(run / run_files.SUMMARY, {**summary, "seed": seed, "utility": utility})
        new = manifest.digests_of(run, (run_files.SCENARIO, run_files.SUMMARY))
        manifest.write_manifest(run, {**found, "seed": seed, "files": {**found["files"], **new}})
    study = StudyFolder(folder / "out")
    study.write_mark(StudyRecord(plan, study)._mark("interrupted", 0))
    return path


def studies_part(options: argparse.Namespace) -> None:
    """Measure the commands on the folder of a study all of whose runs are finished, and of one with a broken run."""
    start = measured(["study", "--help"])[0]
    for n_runs in options.runs:
        with tempfile.TemporaryDirectory(dir=options.folder) as name:
            say(f"{n_runs:,} runs")
            study, out = finished_study(Path(name), n_runs), f"{name}/out"
            one, other = sorted(Path(out, "runs").iterdir())[:2]
            commands = {
                "first": ["study", str(study), "--out", out, "--quiet"],
                "resume": ["study", str(study), "--out", out, "--quiet"],
                "table": ["table", out],
                "report": ["report", out],
                "runs": ["runs", out],
                "diff": ["diff", str(one), str(other)],
            }
            found: dict[str, Any] = {"part": "studies", "runs": n_runs}
            for command, arguments in commands.items():
                seconds, peak = measured(arguments)
                found[f"{command}_s"] = seconds - start
                found[f"{command}_peak_mib"] = peak
            (one / "manifest.json").write_text("{")
            found["resume_with_a_broken_run_s"] = measured(commands["resume"])[0] - start
            emit(**found)


class Ends:
    """A progress of a study that keeps the time of each end, and the seconds of each run."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.seconds: list[float] = []

    def begin(self, *, total: int, kept: int) -> None:
        """Do nothing."""

    def split(self, hash_: str, number: int, kept: int) -> None:
        """Do nothing."""

    def ended(self, done: Any, label: str, headline: str) -> None:
        """Keep the time."""
        assert not done.problem, done.problem
        self.times.append(time.perf_counter())
        self.seconds.append(done.seconds)


def workers_part(options: argparse.Namespace) -> None:
    """Measure what a run costs beside its own time, on the pool of processes and on Ray."""
    from gossiprec.emulation.carriers.shards.ray_backend import LOCAL
    from gossiprec.study.folder import StudyFolder
    from gossiprec.study.plan import make_plan
    from gossiprec.study.runner import StudyRunner
    from gossiprec.study.spec import load_study
    from gossiprec.study.task import threads_per_job
    from gossiprec.study.worker_pool import RayRunner, WorkerPool

    jobs, n_runs, mute = 2, options.workers_runs, lambda *_: None
    starts = {"pool": WorkerPool(jobs, threads_per_job(jobs), mute).carry_out}
    if importlib.util.find_spec("ray"):
        starts["ray"] = RayRunner(LOCAL, jobs, mute).carry_out
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        plan = make_plan(load_study(write_study(Path(name), [0.001 * (1 + n) for n in range(n_runs)], 1)))
        for kind, start in starts.items():
            say(kind)
            folder, ends = StudyFolder(Path(name) / kind), Ends()
            begin, used = time.perf_counter(), time.process_time()
            with folder.locked(plan.study.name):
                runner = StudyRunner(plan, folder)
                runner.carry_out(runner.find_unfinished(stale_runs="refuse"), start, ends)
            seconds, warm = time.perf_counter() - begin, ends.times[-1] - ends.times[jobs]
            inside = sum(ends.seconds[jobs + 1 :]) / jobs
            emit(
                part="workers", kind=kind, runs=n_runs, jobs=jobs, whole_s=seconds,
                run_s=float(np.median(ends.seconds)),
                overhead_s_per_run=(warm - inside) * jobs / (n_runs - jobs - 1),
                study_processor_s_per_run=(time.process_time() - used) / n_runs, load=os.getloadavg()[0],
            )  # fmt: skip


def memory_part(options: argparse.Namespace) -> None:
    """Run a small network for 24 virtual hours, and print the resident set on the way."""
    from gossiprec import simulate

    class Resident:
        """A progress that keeps the resident set at some shares of the local updates."""

        def __init__(self) -> None:
            self.mib: dict[int, float] = {}

        def phase(self, text: str) -> None:
            """Do nothing."""

        note = phase

        def tick(self, status: Any) -> None:
            """Keep the resident set."""
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            for percent in (10, 25, 50, 75, 100):
                if status.updates >= percent / 100 * status.total_updates and percent not in self.mib:
                    self.mib[percent] = pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    attack = {"name": "cda", "who": "single", "community_size": 5, "momentum": 0.9, "reference_items": 20}
    wakes, seen = options.wakes, Resident()
    clock = {
        "protocol": {**GOSSIP, "wakes": wakes},
        "evaluate": {"every": 60, "metrics": ["hr@5"]},
    }
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        scenario = {**SMALL, **clock, "observers": [attack], "checkpoint": {"minutes": options.minutes}}
        done = simulate(scenario, out=Path(name) / "run", progress=seen)
        assert done.summary is not None
        written: dict[str, Any] = done.summary.get("checkpoints", {})
        emit(
            part="memory", wakes=wakes, messages=done.summary["messages"], wall_s=done.summary["wall_seconds"],
            resident_mib=seen.mib, last_over_first=seen.mib[100] / seen.mib[10], **written,
            checkpoints_share=done.summary["seconds"].get("checkpoints", 0.0) / done.summary["wall_seconds"],
        )  # fmt: skip


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "log": log_part, "studies": studies_part, "workers": workers_part, "memory": memory_part,
}  # fmt: skip


def main() -> None:
    """Measure the requested parts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="+", choices=list(PARTS))
    parser.add_argument("--messages", type=numbers, default=[1_000_000, 4_000_000, 16_000_000])
    parser.add_argument("--runs", type=numbers, default=[1000, 10_000])
    parser.add_argument("--workers-runs", type=int, default=100)
    parser.add_argument("--wakes", type=int, default=24 * 60)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--folder", type=Path, help="on a disk with room; a temporary folder by default")
    options = parser.parse_args()
    for part in options.parts:
        PARTS[part](options)
    from gossiprec.runs.manifest import processor_and_target

    emit(**processor_and_target(), cpus=os.cpu_count(), load=os.getloadavg()[0])


if __name__ == "__main__":
    main()
