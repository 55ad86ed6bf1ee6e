"""Runs of the PDC-FRS study with every number chosen by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gossiprec.runs import Run
from tests.analysis.cl_runs import level, runs_of


def contribution(kept: float, auc: float, **more: float) -> dict[str, Any]:
    """Return what a summary tells of contributed data."""
    leaks = {
        "cda": 0.03, "cda_random": 0.01, "mia_auc": auc, "mia_auc_popularity": 0.8, "auxiliary_cda": 0.02,
        "auxiliary_mia_auc": 0.7, **more,
    }  # fmt: skip
    return {"contribution": {"epsilon_set_mean": 600.0, "kept": kept, "leaks": leaks}}


def contributed(
    folder: Path, told: Mapping[str, Mapping[str, Any]], recall: float = 0.016
) -> dict[str, dict[int, Run]]:
    """Return three runs of each experiment whose summaries tell this beside curves of a level."""
    found: dict[str, dict[int, Run]] = {}
    for name, summary in told.items():
        found |= runs_of(folder, {name: level(recall)}, summary=summary)
    return found
