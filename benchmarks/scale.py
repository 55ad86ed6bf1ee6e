"""The time per local epoch and the memory as the network grows.

    python benchmarks/scale.py [--nodes 1000 10000 30000 100000] [--wakes 20] [--items 500]

Each size runs in a process of its own (the peak memory belongs to a process): 80 interactions per user, 200 single
observers and a coalition of 1 %. The largest takes 9 GB with 500 items, and four times as much with 1,682. One JSON
line per size:

- ``local_epochs_per_s``: local epochs per wall second after the set-up; ``us_per_epoch``: wall time per epoch, with
  ``cost_ratio`` to the first size. ``cpu_us_per_epoch`` and ``cpu_cost_ratio`` are the same for processor time, which
  other programs on the machine disturb less.
- ``setup_s``, ``setup_cpu_s``: from the start to the first local update, without compiling; ``phases_s``: wall time of
  each phase that the run reports.
- ``peak_rss_mib``: largest resident size of the process; ``base_rss_mib``: the same after a run of 50 nodes: libraries
  and kernels.
- ``needed_mib``: the estimate of ``--dry-run``; ``ratio``: peak / estimate; ``ratio_net``: (peak - base) / estimate.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import emit, say

ROOT = Path(__file__).resolve().parents[1]
COMPILING = "compiling"


class Phases:
    """Records the beginning of each phase of a run."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, float, float]] = []

    def phase(self, text: str) -> None:
        """Read the clocks."""
        self.begun.append((text, time.perf_counter(), time.process_time()))

    def tick(self, status: Any) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Print a note."""
        say(text)

    def spent(self) -> dict[str, tuple[float, float]]:
        """Return wall and processor time of each phase; the last one ends now."""
        self.phase("end")
        pairs = zip(self.begun, self.begun[1:], strict=False)
        return {text: (wall - begin, cpu - before) for (text, begin, before), (_, wall, cpu) in pairs}


def measure(nodes: int, wakes: int, items: int) -> dict[str, Any]:
    """Run one size and return the measurements."""
    from gossiprec import simulate
    from gossiprec.base.machine import peak_rss_mib
    from gossiprec.scenario import load_scenario

    def run(n: int, wakes: int, phases: Phases | None = None) -> dict[str, Any]:
        single = f"{{name: cda, who: single, nodes: {{fraction: {min(1, 200 / n):.6f}}}}}"
        changes = [
            f"dataset.users={n}",
            f"dataset.items={items}",
            f"dataset.interactions={80 * n}",
            f"protocol.wakes={wakes}",
            f"evaluate.every={wakes}",
            "executor.name=fused",
            f"observers=[{single}, {{name: cda, who: coalition, fraction: {max(0.01, 2 / n)}}}]",
        ]
        scenario = load_scenario(ROOT / "scenarios" / "rand_gossip.yaml", changes)
        with tempfile.TemporaryDirectory() as folder:
            summary = simulate(scenario, out=Path(folder) / "run", progress=phases).summary
        assert summary is not None
        return summary

    run(60, 2)
    base, phases = peak_rss_mib(), Phases()
    summary = run(nodes, wakes, phases)
    spent = {text: each for text, each in phases.spent().items() if not text.startswith(COMPILING)}
    order = list(spent)
    before, after = order[: order.index("simulating")], order[order.index("simulating") :]
    wall, cpu = (1e6 * sum(spent[text][k] for text in after) / summary["node_updates"] for k in (0, 1))
    needed = sum(summary["needed_mib"].values())
    return {
        "nodes": nodes,
        "local_epochs_per_s": 1e6 / wall,
        "us_per_epoch": wall,
        "cpu_us_per_epoch": cpu,
        "setup_s": sum(spent[text][0] for text in before),
        "setup_cpu_s": sum(spent[text][1] for text in before),
        "phases_s": {text: round(each[0], 2) for text, each in spent.items()},
        "peak_rss_mib": summary["peak_rss_mib"],
        "base_rss_mib": base,
        "needed_mib": needed,
        "ratio": summary["peak_rss_mib"] / needed,
        "ratio_net": (summary["peak_rss_mib"] - base) / needed,
    }


def main() -> None:
    """Run every size in a process of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 10_000, 30_000, 100_000])
    parser.add_argument("--wakes", type=int, default=20)
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument("--here", action="store_true", help="run in this process")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options.nodes[0], options.wakes, options.items)))
        return
    first: dict[str, Any] = {}
    for nodes in options.nodes:
        say(f"{nodes} nodes")
        size = ["--nodes", str(nodes), "--wakes", str(options.wakes), "--items", str(options.items)]
        command = [sys.executable, __file__, "--here", *size]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        found = json.loads(done.stdout.splitlines()[-1])
        first = first or found
        ratios = {
            "cost_ratio": found["us_per_epoch"] / first["us_per_epoch"],
            "cpu_cost_ratio": found["cpu_us_per_epoch"] / first["cpu_us_per_epoch"],
        }
        emit(**found, **ratios)


if __name__ == "__main__":
    main()
