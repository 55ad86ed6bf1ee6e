"""Section: messages, losses and online nodes over virtual time; fraction of the network met by nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.base.errors import LogError
from gossiprec.figures.node_values import contact_curve
from gossiprec.report import Chart, ChartAxis, ChartSeries, Section, percent_axis
from gossiprec.report.sections import run_section
from gossiprec.report.sources import CLOCKS, ReportRuns
from gossiprec.runs import Run
from gossiprec.runs.schema import DROP_CAUSES, MISS_CAUSES

MOST_INTERVALS = 60
WIDTHS = (1.0, 2.0, 5.0)
"""Widths of intervals, to be multiplied by powers of ten."""

POINTS_OF_EXPOSURE = 81


@run_section(70)
def traffic_section(runs: ReportRuns) -> Section | None:
    """Return the charts that have content, or None if nothing has happened yet."""
    edges = interval_edges(max(runs.log_ends.values()))
    width = f"{edges[1]:g} wake periods" if edges[1] != 1 else "wake period"
    delivered, megabytes = _delivered(runs, edges)
    lost, missed = _by_cause(runs, edges, "drop", DROP_CAUSES), _by_cause(runs, edges, "miss", MISS_CAUSES)
    charts = [
        _chart("Messages delivered", f"messages per {width}", delivered),
        _chart("Bytes delivered", f"MB per {width}", megabytes),
        _chart("Messages lost, by cause", f"messages per {width}", lost),
        _chart("Missed wakes by cause", f"wakes per {width}", missed),
        _chart("Nodes online", "nodes", _online(runs, edges)),
        _exposure(runs),
    ]
    shown = [chart for chart in charts if chart is not None]
    return Section("Traffic and churn", shown) if shown else None


def interval_edges(end: float) -> F64:
    """Return the edges of about :data:`MOST_INTERVALS` intervals of a round width; the last one holds `end`."""
    least = max(end, 1e-6) / MOST_INTERVALS
    power = 10.0 ** np.floor(np.log10(least))
    width = next((times * power for times in WIDTHS if times * power >= least), 10 * power)
    return np.asarray(np.arange(int(end / width + 1e-9) + 2) * width, np.float64)


def _chart(title: str, label: str, series: list[ChartSeries]) -> Chart | None:
    return Chart(title, [CLOCKS["time"]], ChartAxis(label, zero=True), series) if series else None


def _sums(edges: F64, time: F64, weights: F64 | None = None) -> F64:
    """Return the number of events, or the sum of their weights, in each interval."""
    places = np.searchsorted(edges, time, side="right")
    return np.bincount(places, weights, len(edges) + 1)[1:-1].astype(np.float64)


def _series(runs: ReportRuns, name: str, words: str, edges: F64, sums: F64) -> ChartSeries:
    """Return sums per interval, up to the end of the run."""
    reached = int(np.searchsorted(edges, runs.log_ends[name], side="right"))
    middles = ((edges[:-1] + edges[1:]) / 2)[:reached]
    return ChartSeries(runs.label_with_run(name, words), [middles], sums[:reached])


def _delivered(runs: ReportRuns, edges: F64) -> tuple[list[ChartSeries], list[ChartSeries]]:
    """Return messages and megabytes per interval, the latter by upload and download if there is a coordinator."""
    counts, megabytes = [], []
    for name, parts in runs.events("message"):
        coordinator = (runs.runs_by_name[name].summary or {}).get("coordinator")
        ends = {"delivered": ""} if coordinator is None else {"up": "receiver", "down": "sender"}
        sums = {way: np.zeros(len(edges) - 1) for way in ("", *ends)}
        for part in parts:
            sums[""] += _sums(edges, part["time"])
            for way, end in ends.items():
                rows: Any = part[end] == coordinator if end else slice(None)
                sums[way] += _sums(edges, part["time"][rows], part["size_bytes"][rows] / 1e6)
        counts.append(_series(runs, name, "delivered", edges, sums.pop("")))
        megabytes += [_series(runs, name, way, edges, found) for way, found in sums.items()]
    return counts, megabytes


def _by_cause(runs: ReportRuns, edges: F64, kind: str, causes: tuple[str, ...]) -> list[ChartSeries]:
    found = []
    for name, parts in runs.events(kind):
        sums: dict[int, F64] = {}
        for part in parts:
            for code in np.unique(part["cause"]).tolist():
                more = _sums(edges, part["time"][part["cause"] == code])
                sums[code] = sums.get(code, 0.0) + more
        found += [
            _series(runs, name, causes[code].replace("_", " "), edges, sums[code]) for code in sorted(sums)
        ]
    return found


def _online(runs: ReportRuns, edges: F64) -> list[ChartSeries]:
    """Return the number of nodes that are online at the end of each interval."""
    found = []
    for name, parts in runs.events("session"):
        steps = np.zeros(len(edges) - 1)
        for part in parts:
            steps += _sums(edges, part["time"], np.where(part["online"] == 1, 1.0, -1.0))
        online = _n_nodes(runs.runs_by_name[name]) + np.cumsum(steps)
        found.append(_series(runs, name, "online", edges, online))
    return found


def _n_nodes(run: Run) -> int:
    """Return the number of nodes of a run, including poisoners; for a run in progress, those seen so far."""
    summary = run.summary or {}
    if "nodes" in summary:
        return int(summary["nodes"]) + int(summary.get("poisoners", 0))
    known = (kind for kind in ("wake", "session") if run.log.rows.get(kind))
    seen = (part["node"] for kind in known for part in run.log.iter_event_blocks(kind))
    return 1 + max((int(nodes.max()) for nodes in seen), default=-1)


def _exposure(runs: ReportRuns) -> Chart | None:
    series = []
    for name, run in runs.runs_by_name.items():
        try:
            found = contact_curve(run, n_points=POINTS_OF_EXPOSURE)
        except LogError:  # no node has met another
            continue
        words = runs.label_with_run(name, "mean over nodes")
        series.append(ChartSeries(words, [found.time], found.mean, found.low, found.high))
        if np.isfinite(found.predicted).any():
            words = runs.label_with_run(name, "predicted for uniform views")
            series.append(ChartSeries(words, [found.time], found.predicted, faint=True))
    note = (
        "A node has met another once it has received a message from it. The band covers the middle 80 % of "
        "the nodes."
    )
    label = percent_axis("other nodes met (%)")
    return Chart("Fraction of nodes met", [CLOCKS["time"]], label, series, note=note) if series else None
