"""Names of the files in a run directory."""

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
"""Folder of the checkpoints, present until the run is complete."""
TENSORBOARD = "events.out.tfevents.*"
"""Pattern of the names of TensorBoard's files, if TensorBoard tracks the run."""

FILES = (
    SCENARIO, EVENTS, METRICS, ATTACKS, FINDINGS, ADVERSARIES, HITS, POSITIONS, VERSION, USERS, ITEMS, SUMMARY,
    MANIFEST,
)  # fmt: skip
"""All files that a run writes; the manifest is last, so that a half-cleared directory is still recognised."""

STATUSES = ("running", "complete", "failed", "interrupted")


def log_path(path: Path) -> Path:
    """Return the event log that `path` refers to: the file itself, or the log in that run directory."""
    return path / EVENTS if path.is_dir() else path
