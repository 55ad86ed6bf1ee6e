"""Section: additional findings of attacks with their own labels, over the run and as last reported."""

from __future__ import annotations

import json
from typing import Any

from gossiprec.report.blocks import (
    Block,
    Chart,
    ChartAxis,
    ChartSeries,
    Section,
    TableBlock,
    TableColumn,
    block_or_choice,
)
from gossiprec.report.runs import CLOCKS, ReportRuns
from gossiprec.report.sections.curves import curve_series
from gossiprec.runs.reader import Columns

ORDER = 35


def section(runs: ReportRuns) -> Section | None:
    """Return a chart and the last values of each measure, or None if no attack reports any."""
    series: dict[str, list[ChartSeries]] = {}
    rows: list[list[Any]] = []
    for name, run in runs.named.items():
        for (attack, measure, labels), points in _by_finding(run.findings).items():
            words = ", ".join([attack, *(f"{key} {value}" for key, value in json.loads(labels).items())])
            series.setdefault(measure, []).append(curve_series(runs.called(name, words), points, "value"))
            rows.append(
                [measure, runs.called(name, words), int(points["round"][-1]), float(points["value"][-1])]
            )
    if not rows:
        return None
    charts: dict[str, Block] = {
        measure: Chart(
            measure.replace("_", " "),
            list(CLOCKS.values()),
            ChartAxis(measure),
            own,
            note="Values as reported by the attacks.",
        )
        for measure, own in series.items()
    }
    columns = [
        TableColumn("measure", "text"),
        TableColumn("of", "text"),
        TableColumn("round"),
        TableColumn("value"),
    ]
    return Section(
        "Additional findings",
        [block_or_choice("Measure", charts), TableBlock("Findings as last reported", columns, rows)],
    )


def _by_finding(columns: Columns) -> dict[tuple[str, str, str], Columns]:
    rows: dict[tuple[str, str, str], list[int]] = {}
    if columns:
        for row, told in enumerate(
            zip(*(columns[name].tolist() for name in ("attack", "measure", "labels")), strict=True)
        ):
            rows.setdefault(told, []).append(row)
    return {
        told: {name: columns[name][own] for name in ("time", "round", "value")} for told, own in rows.items()
    }
