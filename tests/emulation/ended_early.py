"""Runs with a checkpoint at every report that end early, and all that two runs can have in common."""

from __future__ import annotations

import json
import os
from contextlib import suppress

from gossiprec.emulation import simulate
from tests.emulation.tiny_runs import tiny
from tests.processes import forks

OFTEN = {"minutes": 1e-9, "keep": 2}
TIMES = (
    "wall_seconds",
    "processor_seconds",
    "node_updates_per_second",
    "peak_rss_mib",
    "needed_mib",
    "checkpoints",
    "seconds",
    "attack_seconds",
    "notes",
    "threads",
)


class Patient:
    """Lets each checkpoint be written before the next report, and stops the run at report number `stop`."""

    def __init__(self, stop=None, error=KeyboardInterrupt):
        self.notes, self.ticks, self._stop, self._error = [], [], stop, error

    def phase(self, text):
        """Pass over phases."""

    def note(self, text):
        self.notes.append(text)

    def tick(self, status):
        for writer in forks():
            with suppress(ChildProcessError):
                os.waitid(os.P_PID, writer, os.WEXITED | os.WNOWAIT)  # the run itself takes the answer
        self.ticks.append(status)
        if len(self.ticks) == self._stop:
            raise self._error("stopped by the test")


def often(**sections):
    """Return a tiny scenario of eight reports; :func:`ended_early` writes a checkpoint at each."""
    sections.setdefault("protocol", {"name": "rand-gossip", "fanout": 3, "view": {"size": 3}, "wakes": 8})
    return tiny(**{"evaluate": {"every": 1, "metrics": ["hr@5"]}, **sections})


def ended_early(path, scenario, stop=4):
    """Stop a run at a report; the checkpoints of the two reports before are then there."""
    run = simulate({"checkpoint": OFTEN, **scenario}, out=path, progress=Patient(stop))
    assert [file.stem for file in checkpoints(run)] == [f"{stop - 1:08d}", f"{stop - 2:08d}"]
    return run


def checkpoints(run):
    """Return a run's checkpoints, the newest first."""
    return sorted((run.path / "checkpoints").glob("*.ckpt"), reverse=True)


def outcome(path):
    """Return all that a run wrote but for dates, times and memory."""
    manifest = json.loads((path / "manifest.json").read_text())
    summary = json.loads((path / "summary.json").read_text())
    found = {"status": manifest["status"], "digest": manifest["log_digest"]}
    for name in (
        "events.mplog",
        "metrics.csv",
        "attacks.csv",
        "findings.csv",
        "adversaries.npz",
        "hits.npz",
        "positions.csv",
        "metrics_by_user.parquet",
    ):
        found[name] = (path / name).read_bytes()
    found |= {path.name: path.read_bytes() for path in path.glob("lists.parquet")}
    return {**found, "summary": {key: value for key, value in summary.items() if key not in TIMES}}
