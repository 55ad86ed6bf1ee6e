"""Section: each attack's best accuracy between guessing and the most that could be found, and utility."""

from __future__ import annotations

import numpy as np

from gossiprec.figures.attack_selection import AttackKey
from gossiprec.measures.selectors import split_baseline_name
from gossiprec.report.blocks import (
    Block,
    IntervalChart,
    IntervalMark,
    Section,
    TableBlock,
    TableColumn,
    Tile,
    Tiles,
)
from gossiprec.report.runs import ReportRuns

ORDER = 20
COLUMNS = {
    "aac": "last AAC",
    "best10_min": "best 10 % from",
    "best10_mean": "best 10 % mean",
    "upper_bound": "upper bound",
    "random_bound": "random bound",
}
AT_THE_END = ("aac", "upper_bound", "random_bound")
"""Columns taken from the last report; other columns are from the best one."""

WORDS = ("random bound", "max AAC", "upper bound")
NOTE = (
    "Average attack accuracy (AAC): the fraction of its community (the users with the most similar taste) "
    "that an adversary identifies, averaged over adversaries. The band reaches from the accuracy of random "
    "guessing to the fraction of the community that the observer had met by the end of the run; the dot "
    "marks the best report."
)


def section(runs: ReportRuns) -> Section | None:
    """Return the headline figures, or None if a run has neither attacks nor metrics yet."""
    blocks: list[Block] = []
    tiles = _utility(runs)
    if tiles:
        blocks.append(Tiles(tiles))
    if runs.attacks:
        rows = [_row(runs, key) for key in runs.attacks]
        spans = [
            IntervalMark(
                name, row["max AAC"], row["random bound"], row["upper bound"], f"at round {row['at round']:,}"
            )
            for name, row in rows
        ]
        note = " ".join(filter(None, (NOTE, runs.common_words)))
        blocks.append(
            IntervalChart(
                "Attack accuracy relative to random guessing and the upper bound", spans, WORDS, note=note
            )
        )
        columns = [TableColumn(name, "number" if name == "at round" else "percent") for name in rows[0][1]]
        table = [[name, *row.values()] for name, row in rows]
        blocks.append(TableBlock("Attacks", [TableColumn("attack", "text"), *columns], table))
    return Section("Results", blocks) if blocks else None


def _row(runs: ReportRuns, key: AttackKey) -> tuple[str, dict[str, float]]:
    """Return the name of an attack and its row of the table."""
    points = runs.attacks[key]
    best = int(np.nan_to_num(points["aac"], nan=-1.0).argmax())
    row = {"max AAC": float(points["aac"][best]), "at round": int(points["round"][best])}
    return runs.name_of(key), row | {
        words: float(points[name][-1 if name in AT_THE_END else best]) for name, words in COLUMNS.items()
    }


def _utility(runs: ReportRuns) -> list[Tile]:
    """Return the last value of each metric of recommendation quality, next to its reference values."""
    tiles = []
    for name, run in runs.named.items():
        columns = run.metrics
        last = (
            dict(zip(columns["metric"].tolist(), columns["value"].tolist(), strict=True)) if columns else {}
        )
        beside: dict[str, list[str]] = {}
        for metric, value in (last | (run.summary or {}).get("utility", {})).items():
            own, order = split_baseline_name(metric)
            if order and value is not None:
                beside.setdefault(own, []).append(f"{order} {100 * value:.1f} %")
        for metric, value in last.items():
            if "@" in metric and not split_baseline_name(metric)[1]:
                tiles.append(
                    Tile(runs.called(name, metric), f"{100 * value:.1f} %", ", ".join(beside.get(metric, ())))
                )
    return tiles
