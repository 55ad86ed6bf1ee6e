"""The cost of checkpoints.

    python benchmarks/checkpoints.py [--wakes 400] [--seconds 30] [--rounds 3]

Runs the main job (943 nodes, all of them observers) without checkpoints and with one every SECONDS seconds. Each run is
a process of its own; the order changes from round to round. One JSON line:

- ``plain_s``, ``with_s``: seconds of wall time without loading, compiling and set-up; medians.
- ``ratio``, ``ratio_min``, ``ratio_max``: with checkpoints over without, in the same round; ``cpu_ratio``: the median
  of the same ratio of processor time, including the writing processes.
- ``checkpoints``: their number per run; ``mib``: their mean size.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from common import emit, median, say

ROOT = Path(__file__).resolve().parents[1]
WAYS = ("plain", "with")


class Clock:
    """Records the times of the first local update and of the last report."""

    def __init__(self) -> None:
        self.begin = self.end = self.cpu = 0.0

    def phase(self, text: str) -> None:
        """Record the beginning, or the end before positions are measured."""
        if text == "simulating":
            self.begin, self.cpu = time.perf_counter(), _processor()
        if text == "measuring positions":
            self.end, self.cpu = time.perf_counter(), _processor() - self.cpu

    def tick(self, status: Any) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Print a note."""
        say(text)


def _processor() -> float:
    """Return the processor time of this process and of its ended children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def measure(way: str, wakes: int, seconds: float) -> dict[str, Any]:
    """Run once; return the times, and the size of each checkpoint."""
    from gossiprec import simulate
    from gossiprec.scenario import load_scenario

    minutes = "null" if way == "plain" else str(seconds / 60)
    changes = [f"protocol.wakes={wakes}", "executor.name=fused", f"checkpoint.minutes={minutes}"]
    scenario, clock = load_scenario(ROOT / "scenarios" / "rand_gossip.yaml", changes), Clock()
    with tempfile.TemporaryDirectory(prefix="gossiprec-checkpoints-") as folder:
        sizes: dict[str, int] = {}
        done = threading.Event()
        looking = threading.Thread(target=_look, args=(Path(folder) / "run" / "checkpoints", sizes, done))
        looking.start()
        simulate(scenario, out=Path(folder) / "run", progress=clock)
        done.set()
        looking.join()
    return {"wall": clock.end - clock.begin, "cpu": clock.cpu, "sizes": list(sizes.values())}


def _look(folder: Path, sizes: dict[str, int], done: threading.Event) -> None:
    """Record each checkpoint that appears in a folder."""
    while not done.wait(0.5):
        for path in folder.glob("[0-9]*.ckpt"):
            sizes[path.name] = path.stat().st_size


def in_process(way: str, wakes: int, seconds: float) -> dict[str, Any]:
    """Measure in a process of its own."""
    command = [sys.executable, __file__, "--here", way, "--wakes", str(wakes), "--seconds", str(seconds)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def report(rounds: list[dict[str, dict[str, Any]]]) -> None:
    """Print the line."""
    ratios = [each["with"]["wall"] / each["plain"]["wall"] for each in rounds]
    sizes = [size for each in rounds for size in each["with"]["sizes"]]
    emit(
        plain_s=median([each["plain"]["wall"] for each in rounds]),
        with_s=median([each["with"]["wall"] for each in rounds]),
        ratio=median(ratios),
        ratio_min=min(ratios),
        ratio_max=max(ratios),
        cpu_ratio=median([each["with"]["cpu"] / each["plain"]["cpu"] for each in rounds]),
        checkpoints=len(sizes) / len(rounds),
        mib=sum(sizes) / len(sizes) / 2**20 if sizes else None,
    )


def main() -> None:
    """Measure in rounds and print the lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wakes", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--here", choices=WAYS, help="run once, in this process")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options.here, options.wakes, options.seconds)))
        return
    in_process("plain", 2, options.seconds)
    rounds = []
    for number in range(options.rounds):
        say(f"round {number + 1} of {options.rounds}")
        order = WAYS[:: 1 if number % 2 else -1]
        rounds.append({way: in_process(way, options.wakes, options.seconds) for way in order})
    report(rounds)


if __name__ == "__main__":
    main()
