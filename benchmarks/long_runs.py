"""Long runs: memory, logs above 4 GB, checkpoints, and studies of thousands of runs.

    python benchmarks/long_runs.py log --messages 1000000,4000000,16000000

One JSON line for each figure; the last line names the machine. Parts:

- ``log``: a log of the given numbers of messages (1,000 nodes that wake, draw a view, send three messages and train
  once per unit of time) is written, verified, counted (``log stats``), plotted (``plot exposure``) and reported. For
  each command: ``us_per_message``, microseconds of wall time per message without the start of Python, and ``peak_mib``,
  the largest resident set of its process. 100 million messages need 6 GB of disk.
"""

from __future__ import annotations

import argparse
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
N_NODES, FANOUT = 1000, 3
SMALL = {
    "name": "long", "seed": 1, "plots": False,
    "dataset": {"name": "synthetic", "users": 50, "items": 60, "interactions": 1000, "split": {"name": "published"}},
    "model": {"name": "gmf", "dim": 4},
    "protocol": {"name": "rand-gossip", "fanout": FANOUT, "view": {"size": FANOUT}, "wakes": 10},
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


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {"log": log_part}


def main() -> None:
    """Measure the requested parts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="+", choices=list(PARTS))
    parser.add_argument("--messages", type=numbers, default=[1_000_000, 4_000_000, 16_000_000])
    parser.add_argument("--folder", type=Path, help="on a disk with room; a temporary folder by default")
    options = parser.parse_args()
    for part in options.parts:
        PARTS[part](options)
    from gossiprec.runs.manifest import processor_and_target

    emit(**processor_and_target(), cpus=os.cpu_count(), load=os.getloadavg()[0])


if __name__ == "__main__":
    main()
