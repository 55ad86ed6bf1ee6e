"""Names of what lies in a run directory."""

from __future__ import annotations

from pathlib import Path

SCENARIO = "scenario.yaml"
MANIFEST = "manifest.json"
EVENTS = "events.mplog"
METRICS = "metrics.csv"
ATTACKS = "attacks.csv"
FINDINGS = "findings.csv"
ADVERSARIES = "adversaries.npz"
HITS = "hits.npz"
POSITIONS = "positions.csv"
VERSION = "version.npz"
USERS = "users.csv"
ITEMS = "items.csv"
SUMMARY = "summary.json"
CHECKPOINTS = "checkpoints"
"""A folder, while the run is not complete."""
TENSORBOARD = "events.out.tfevents.*"
"""The names, as a pattern, of what TensorBoard reads, if it was asked to track the run."""

FILES = (
    SCENARIO, EVENTS, METRICS, ATTACKS, FINDINGS, ADVERSARIES, HITS, POSITIONS, VERSION, USERS, ITEMS, SUMMARY,
    MANIFEST,
)  # fmt: skip
"""All that a run writes there; the manifest last, so that a half-cleared directory is still known as one."""

STATUSES = ("running", "complete", "failed", "interrupted")


def log_path(path: Path) -> Path:
    """Return the event log that `path` means: itself, or the one in that run directory."""
    return path / EVENTS if path.is_dir() else path
