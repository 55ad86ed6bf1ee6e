"""A local epoch with rows of nodes in files, next to one with rows in memory.

    python benchmarks/mapped_rows.py --folder DIR [--nodes 200000] [--fewer 20000] [--items 1000] [--dim 8] [--wakes 2]

GMF in Rand-Gossip, 40 interactions per user, no observers; 1,000 users are measured at each report. Three runs, each
in a process of its own: `fewer` nodes in memory, the same in files, and `nodes` nodes in files of DIR. One JSON line
per run:

- ``us_per_epoch``: wall time of training per local epoch; ``ratio``: over that of the rows in memory (aim: 3);
  ``cpu_us_per_epoch``: processor time of the whole run per local epoch;
- ``disk_gib``: size of the rows in files; ``memory_gib``: the memory of the machine; ``peak_rss_mib`` has cached pages;
- ``read_mib``, ``written_mib``: traffic with the disk;
- ``same_bytes``: whether log and metrics are those of the rows in memory (of as many nodes).

For less memory or a slower disk than this machine has, make control groups and name them: only runs in files join.
With version 1, writing in the background is not limited, only reading::

    mkdir /sys/fs/cgroup/memory/small && echo 4G > /sys/fs/cgroup/memory/small/memory.limit_in_bytes
    mkdir /sys/fs/cgroup/blkio/slow && echo "254:0 104857600" > /sys/fs/cgroup/blkio/slow/blkio.throttle.read_bps_device
    python benchmarks/mapped_rows.py --folder DIR --group /sys/fs/cgroup/memory/small --group /sys/fs/cgroup/blkio/slow
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import emit, say
from scale import Phases


def measure(nodes: int, storage: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run one network and return the measurements."""
    from gossiprec import simulate
    from gossiprec.base.machine import processor_name
    from gossiprec.emulation import estimate_run
    from gossiprec.scenario import load_scenario

    for group in options.group if storage == "mapped" else ():
        (Path(group) / "cgroup.procs").write_text(str(os.getpid()))
    executor = {"name": "fused", "storage": storage}
    if storage == "mapped":
        executor["folder"] = options.folder
    scenario = load_scenario({
        "name": "rows", "plots": False, "observers": [], "checkpoint": {"minutes": None}, "executor": executor,
        "dataset": {
            "name": "synthetic", "users": nodes, "items": options.items, "interactions": 40 * nodes,
            "split": {"name": "leave_last_k", "test": 1},
        },
        "model": {"name": "gmf", "dim": options.dim},
        "training": {"optimizer": "adam", "learning_rate": 0.01, "batch_size": 64, "negatives": 4},
        "protocol": {"name": "rand-gossip", "fanout": 3, "wakes": options.wakes},
        "evaluate": {"every": 1, "metrics": ["hr@10"], "sample": min(nodes, 1000)},
    })  # fmt: skip
    disk = sum(estimate_run(scenario).disk_bytes.values())
    with tempfile.TemporaryDirectory() as folder:
        run = simulate(scenario, out=Path(folder) / "run", progress=Phases())
        digest = run.log.digest + hashlib.sha256((run.path / "metrics.csv").read_bytes()).hexdigest()
    used, summary = resource.getrusage(resource.RUSAGE_SELF), run.summary
    assert summary is not None
    epochs = summary["node_updates"]
    return {
        "storage": storage,
        "nodes": nodes,
        "us_per_epoch": 1e6 * summary["seconds"]["compute"] / epochs,
        "cpu_us_per_epoch": 1e6 * (used.ru_utime + used.ru_stime) / epochs,
        "disk_gib": disk / 2**30,
        "memory_gib": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30,
        "peak_rss_mib": summary["peak_rss_mib"],
        "read_mib": used.ru_inblock / 2048,
        "written_mib": used.ru_oublock / 2048,
        "digest": digest,
        "processor": processor_name(),
    }


def main() -> None:
    """Run every network in a process of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--fewer", type=int, default=20_000)
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--dim", type=int, default=8)
    parser.add_argument("--wakes", type=int, default=2)
    parser.add_argument("--group", action="append", default=[], help="control group of the runs in files")
    parser.add_argument("--here", help="storage of a run in this process")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options.nodes, options.here, options)))
        return
    plain: dict[str, Any] = {}  # of the first run
    runs = [("float32", options.fewer), ("mapped", options.fewer), ("mapped", options.nodes)]
    for storage, nodes in runs if options.nodes != options.fewer else runs[:2]:
        say(f"{nodes} nodes, {storage}")
        again = ["--here", storage, "--nodes", str(nodes)]
        done = subprocess.run(
            [sys.executable, __file__, *sys.argv[1:], *again], check=True, stdout=subprocess.PIPE, text=True
        )
        found = json.loads(done.stdout.splitlines()[-1])
        plain = plain or dict(found)
        same = {"same_bytes": found["digest"] == plain["digest"]} if nodes == plain["nodes"] else {}
        del found["digest"]
        emit(**found, ratio=found["us_per_epoch"] / plain["us_per_epoch"], **same)


if __name__ == "__main__":
    main()
