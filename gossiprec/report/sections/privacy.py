"""Section: the differential privacy spent by nodes, over virtual time and in total."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from gossiprec.report import Block, Chart, ChartAxis, ChartSeries, Section, Tile, Tiles
from gossiprec.report.sections import run_section
from gossiprec.report.sources import CLOCKS, ReportRuns
from gossiprec.runs.reader import Columns

WORDS = {
    "nodes": "nodes with a privacy budget",
    "epsilon_max": "largest epsilon",
    "epsilon_mean": "mean epsilon",
    "epsilon_per_coordinate": "epsilon per value sent",
    "coordinates_max": "most values sent by a node",
    "delta": "delta",
    "noise_multiplier_min": "minimum noise multiplier",
    "noise_multiplier_max": "maximum noise multiplier",
}


@run_section(80)
def privacy_section(runs: ReportRuns) -> Section | None:
    """Return the privacy spent, or None if none is accounted for."""
    tiles, series = [], []
    for name, run in runs.runs_by_name.items():
        privacy = (run.summary or {}).get("privacy")
        tiles += [] if privacy is None else _tiles(runs, name, privacy)
    for name, events in runs.events("privacy"):
        series += _spent(runs, name, events)
    blocks: list[Block] = [Tiles(tiles)] if tiles else []
    if series:
        note = "Nodes with a positive privacy loss, at each report."
        blocks.append(
            Chart("Epsilon over time", [CLOCKS["time"]], ChartAxis("epsilon", zero=True), series, note=note)
        )
    return Section("Privacy spent", blocks) if blocks else None


OPEN = {
    "items_in_the_open": "which items",
    "updates_in_the_open": "updates",
    "choices_in_the_open": "receivers and merge weights",
    "told_in_the_open": "uploads about users",
}
"""Data that no epsilon covers, by key in the summary."""


def _tiles(runs: ReportRuns, name: str, privacy: Mapping[str, Any]) -> list[Tile]:
    found = [
        Tile(runs.label_with_run(name, words), f"{privacy[key]:,.4g}")
        for key, words in WORDS.items()
        if privacy.get(key) is not None
    ]
    unprotected = runs.label_with_run(name, "unprotected")
    open_ = [words for key, words in OPEN.items() if privacy.get(key)]
    return found + [Tile(unprotected, words, "not covered by any epsilon") for words in open_]


def _spent(runs: ReportRuns, name: str, parts: Iterable[Columns]) -> list[ChartSeries]:
    """Return the largest and the mean epsilon after each report; neither if nodes train without noise.

    Rows of a report have its time and follow one another.
    """
    held: dict[int, float] = {}
    after: dict[float, tuple[float, float]] = {}
    for part in parts:
        starts = np.flatnonzero(np.diff(part["time"], prepend=np.nan))
        for start, stop in itertools.pairwise([*starts.tolist(), len(part["time"])]):
            own = slice(start, stop)
            held.update(zip(part["node"][own].tolist(), part["epsilon"][own].tolist(), strict=True))
            spent = np.array(list(held.values()))
            after[float(part["time"][start])] = float(spent.max()), float(spent.mean())
    times = np.array(list(after))
    found = dict(zip(("largest", "mean"), np.array(list(after.values())).T, strict=True))
    return [
        ChartSeries(runs.label_with_run(name, words), [times], of)
        for words, of in found.items()
        if np.isfinite(of).any()
    ]
