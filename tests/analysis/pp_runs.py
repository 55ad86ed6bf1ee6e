"""Runs of the PerFedRec++ study with every number chosen by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.perfedrec_pp import PAPER
from gossiprec.runs import Run
from tests.analysis.cl_runs import level, write_run

SIZES = ((2, 3), (4, 9), (10, 40))
"""Fewest and most training interactions of each of three groups of users."""


def risen(recall: float, *, falls: bool = True, seeds: int = 3) -> list[dict[str, Sequence[float]]]:
    """Return curves that reach a recall at epoch 2, and by epoch 3 lose half of it, or rise by half of it again."""
    found = []
    for curves in level(recall, seeds=seeds):
        own = {name: list(values) for name, values in curves.items()}
        for name, values in own.items():
            values.append(values[-1] if "[" in name else values[-1] * (0.5 if falls else 1.5))
        own[PAPER.validation] = [0.1, 0.3, 0.2 if falls else 0.4]
        found.append(own)
    return found


def by_activity(validated: Sequence[float], last: Sequence[float], more: int = 0) -> dict[str, Any]:
    """Return what a summary tells of three groups of users: Recall@20 at the chosen report and at the last.

    The most active user of each has so many `more` interactions.
    """
    return {
        "by_activity": [
            {"users": 20, "train_min": low, "train_max": high + more, "last": {"recall@20": b},
             "validated": {"recall@20": a}}
            for (low, high), a, b in zip(SIZES, validated, last, strict=True)
        ]
    }  # fmt: skip


def told_by_seed(
    folder: Path, name: str, curves: Sequence[dict[str, Sequence[float]]], summaries: Sequence[dict[str, Any]]
) -> dict[str, dict[int, Run]]:
    """Return runs of an experiment, each with a summary of its own."""
    return {
        name: {
            seed: write_run(folder / f"{name}-s{seed}", own, seed=seed, summary=summary)
            for seed, (own, summary) in enumerate(zip(curves, summaries, strict=True), start=1)
        }
    }
