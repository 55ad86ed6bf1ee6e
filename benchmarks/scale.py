"""Does the cost of a local epoch stay level as the network grows, and the memory near what it must be?

    python benchmarks/scale.py [--nodes 1000 3000 10000] [--wakes 30]

Each size runs in a process of its own (peak memory is a process's), on 1,682 items with 200 single observers, and
prints one JSON line:

- ``local_epochs_per_s``: local epochs per wall second, after loading and compiling.
- ``peak_rss_mib``: largest resident size of the process; ``base_rss_mib``: the same after a run of 50 nodes: libraries
  and kernels.
- ``state_mib``: bytes of parameters (one version a node), moments and declared observer state.
- ``ratio``: peak / state; ``ratio_net``: (peak - base) / state.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import emit, say

ROOT = Path(__file__).resolve().parents[1]


def measure(nodes: int, wakes: int) -> None:
    """Run one size and print its JSON line."""
    from gossiprec import simulate
    from gossiprec.emulation.assembly.memory import peak_rss_mib
    from gossiprec.scenario import load_scenario

    def run(n: int, wakes: int) -> dict[str, Any]:
        changes = [
            f"dataset.users={n}",
            "dataset.items=1682",
            f"dataset.interactions={106 * n}",
            f"protocol.wakes={wakes}",
            f"evaluate.every={wakes}",
            "executor.name=fused",
            f"observers=[{{name: cda, who: single, nodes: {{fraction: {min(1, 200 / n):.6f}}}, community_size: 20}}]",
        ]
        scenario = load_scenario(ROOT / "scenarios" / "rand_gossip.yaml", changes)
        with tempfile.TemporaryDirectory() as folder:
            summary = simulate(scenario, out=Path(folder) / "run").summary
        assert summary is not None
        return summary

    run(50, 2)
    base = peak_rss_mib()
    summary = run(nodes, wakes)
    seconds, needed = summary["seconds"], summary["needed_mib"]
    wall = summary["wall_seconds"] - seconds["load"] - seconds["compile"]
    state = needed["parameters"] + needed["moments"] + needed["observers"]
    emit(
        nodes=nodes,
        local_epochs_per_s=summary["node_updates"] / wall,
        peak_rss_mib=summary["peak_rss_mib"],
        base_rss_mib=base,
        state_mib=state,
        ratio=summary["peak_rss_mib"] / state,
        ratio_net=(summary["peak_rss_mib"] - base) / state,
    )


def main() -> None:
    """Run every size in a process of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 3000, 10000])
    parser.add_argument("--wakes", type=int, default=30)
    parser.add_argument("--here", action="store_true", help="run in this process")
    options = parser.parse_args()
    for nodes in options.nodes:
        if options.here:
            measure(nodes, options.wakes)
            continue
        say(f"{nodes} nodes")
        command = [sys.executable, __file__, "--here", "--wakes", str(options.wakes), "--nodes", str(nodes)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
