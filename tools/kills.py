"""Recovery: runs are killed with kill -9 at random moments, resumed, and compared with undisturbed runs.

    python -m tools.kills [--kills 50] [--seed 1]

Prints a JSON line for each kind of run, and one for all. Every second kill takes the whole process group, including
the process that writes a checkpoint; the others leave that process behind as an orphan. Half of the resumed runs are
killed again. The exit status is 1 if any run ends differently from the undisturbed one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gossiprec.emulation import resume, simulate
from gossiprec.runs.checkpoints import CheckpointFolder
from gossiprec.scenario import load_scenario

FILES = ("events.mplog", "metrics.csv", "attacks.csv", "adversaries.npz")
CDA = {"name": "cda", "community_size": 20, "momentum": 0.99, "reference_items": 99}
WATCHED = [
    {**CDA, "who": "single", "relevance": ["ndcg", "standardized"]},
    {**CDA, "who": "coalition", "fraction": 0.1},
]
BASE: dict[str, Any] = {
    "name": "kills",
    "plots": False,
    "dataset": {
        "name": "synthetic",
        "users": 200,
        "items": 400,
        "interactions": 8000,
        "split": {"name": "leave_last_k", "test": 5, "validation": 3},
    },
    "model": {"name": "gmf", "dim": 8},
    "observers": WATCHED,
    "evaluate": {"every": 3, "metrics": ["hr@20"]},
    "executor": {"name": "fused", "threads": 2},
    "checkpoint": {"every": 6, "minutes": None},
}
GOSSIP = {"name": "rand-gossip", "fanout": 3, "view": {"size": 3}, "wakes": 120}
LATENCY = {"latency": {"law": "exponential", "mean": 0.5}, "loss": 0.05}
KINDS: dict[str, tuple[float, dict[str, Any]]] = {
    "instant": (0.6, {"protocol": GOSSIP}),
    "latency": (0.2, {"protocol": GOSSIP, "network": LATENCY}),
    "pers-gossip": (0.2, {"protocol": {"name": "pers-gossip", "view": {"size": 3}, "wakes": 60}}),
}
"""Share of the kills, and what is not as in the base."""


def started(job: Callable[[], object]) -> int:
    """Start a job in a forked process with its own process group; return its id."""
    process = os.fork()
    if process == 0:
        status = 1
        try:
            os.setsid()
            job()
            status = 0
        except BaseException as error:
            print(f"  failed: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(status)
    return process


def ended(process: int) -> bool:
    """Wait for a process to end by itself; return whether it succeeded."""
    return os.waitpid(process, 0)[1] == 0


def killed(process: int, path: Path, after: float, *, group: bool) -> bool:
    """Kill a process some seconds after its log appears; return False if it ended before."""
    while not (path / "events.mplog").exists():
        if os.waitpid(process, os.WNOHANG)[0]:
            return False
        time.sleep(0.002)
    time.sleep(after)
    if os.waitpid(process, os.WNOHANG)[0]:
        return False
    (os.killpg if group else os.kill)(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return True


def outcome(path: Path) -> dict[str, Any]:
    """Return the files of a run without dates, times and memory."""
    manifest = json.loads((path / "manifest.json").read_text())
    summary = json.loads((path / "summary.json").read_text())
    names = ("utility", "attacks", "node_updates", "virtual_time", "status")
    files = {name: (path / name).read_bytes() for name in FILES}
    return {"digest": manifest["log_digest"], **files, **{name: summary[name] for name in names}}


class Trials:
    """Kills of one kind of run.

    Parameters
    ----------
    kind : str
    folder : Path
    draw : random.Random
    """

    def __init__(self, kind: str, folder: Path, draw: random.Random) -> None:
        self._scenario = load_scenario({**BASE, **KINDS[kind][1]})
        self._folder = folder
        self._draw = draw
        self.counts = dict.fromkeys(("kills", "again", "while_writing", "without_checkpoint", "identical"), 0)
        whole = folder / "whole"
        alone = self._scenario.executor.model_copy(
            update={"threads": 1}
        )  # without threads, so that forks are safe
        simulate(
            self._scenario.with_(executor=alone), out=folder / "warm-up"
        )  # forks have modules and kernels then
        begin = time.perf_counter()
        assert ended(started(lambda: simulate(self._scenario, out=whole)))
        self.seconds = time.perf_counter() - begin
        self._expected = outcome(whole)

    def kill_one(self, number: int) -> None:
        """Kill a run, resume it, perhaps kill it again, and compare its results."""
        path, group = self._folder / f"run-{number}", number % 2 == 0
        while not self._killed(path, lambda: simulate(self._scenario, out=path), group=group):
            shutil.rmtree(path)  # it was done before the blow fell
        self.counts["kills"] += 1
        checkpoints = CheckpointFolder(path)
        self.counts["while_writing"] += any(checkpoints.path.glob(".*.writing"))
        self.counts["without_checkpoint"] += not checkpoints.newest_first()
        while self._draw.random() < 0.5:
            if not self._killed(path, lambda: resume(path, from_start=True), group=group):
                break
            self.counts["again"] += 1
        assert ended(started(lambda: resume(path, from_start=True)))
        same = outcome(path) == self._expected
        self.counts["identical"] += same
        if not same:
            differs = [name for name, found in outcome(path).items() if found != self._expected[name]]
            print(f"  run {number} differs in {', '.join(differs)}; see {path}", file=sys.stderr, flush=True)

    def _killed(self, path: Path, job: Callable[[], object], *, group: bool) -> bool:
        return killed(started(job), path, self._draw.uniform(0, self.seconds), group=group)


def main() -> int:
    """Kill, resume and compare runs; print the lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    draw, total, identical = random.Random(asked.seed), 0, 0
    folder = Path(tempfile.mkdtemp(prefix="gossiprec-kills-"))
    for kind, (share, _) in KINDS.items():
        trials = Trials(kind, folder / kind, draw)
        for number in range(round(share * asked.kills)):
            trials.kill_one(number)
            print(f"{kind}: {trials.counts}", file=sys.stderr, flush=True)
        print(json.dumps(dict(kind=kind, seconds=trials.seconds, **trials.counts)), flush=True)
        total, identical = total + trials.counts["kills"], identical + trials.counts["identical"]
    print(json.dumps({"kills": total, "identical": identical}), flush=True)
    return 0 if identical == total else 1


if __name__ == "__main__":
    sys.exit(main())
