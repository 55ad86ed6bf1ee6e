"""Section: attack accuracy and utility over a run, by round and by virtual time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gossiprec.figures.attack_selection import AttackKey, arrange_panels, group_keys, ranking_metrics
from gossiprec.measures.selectors import split_baseline_name
from gossiprec.report.blocks import Chart, ChartAxis, ChartSeries, Section
from gossiprec.report.runs import CLOCKS, ReportRuns, thin_indices
from gossiprec.runs.reader import Columns

ORDER = 30
MOST_POINTS = 400


def section(runs: ReportRuns) -> Section | None:
    """Return a chart per panel of attacks, and one per metric if several runs are compared."""
    charts = [*_accuracy(runs), *_utility(runs)]
    return Section("Results over time", charts) if charts else None


def curve_series(
    name: str, points: Columns, quantity: str, *, faint: bool = False, colour: int | None = None
) -> ChartSeries:
    """Return a curve on both clocks, with all its points or evenly chosen ones."""
    known = np.flatnonzero(~np.isnan(points[quantity]))
    kept = known[thin_indices(len(known), MOST_POINTS)] if len(known) else known
    return ChartSeries(
        name, [points[clock][kept] for clock in CLOCKS], points[quantity][kept], faint=faint, colour=colour
    )


def _accuracy(runs: ReportRuns) -> list[Chart]:
    keys = list(runs.attacks)
    layout = arrange_panels(keys, columns=False)
    charts = []
    for inside in group_keys(keys, layout.down):
        series = [curve_series(key.words(layout.line), runs.attacks[key], "aac") for key in inside]
        series += _bounds(runs, inside)
        title = layout.title(inside[0])
        about = f"Average attack accuracy{': ' if title else ''}{title}"
        charts.append(
            Chart(about, list(CLOCKS.values()), ChartAxis("AAC (%)", percent=True, zero=True), series)
        )
    return charts


def _bounds(runs: ReportRuns, keys: Sequence[AttackKey]) -> list[ChartSeries]:
    """Return each distinct bound once: guessing, and the fraction of the community met."""
    found: dict[tuple[object, ...], ChartSeries] = {}
    for place, key in enumerate(keys):
        points = runs.attacks[key]
        names = {"random_bound": "random bound", "upper_bound": "upper bound"}
        if len(keys) > 1:
            names["upper_bound"] = runs.called(key.run, f"upper bound, {key.observer}")
        colours = {"random_bound": None, "upper_bound": place if len(keys) > 1 else None}
        for column, name in names.items():
            bound = curve_series(name, points, column, faint=True, colour=colours[column])
            found.setdefault((column, *points[column].tolist()), bound)
    return list(found.values())


def _utility(runs: ReportRuns) -> list[Chart]:
    """Return one chart of the metrics of a run, or a chart per metric for several runs."""
    found = {
        (name, metric): points
        for name, run in runs.named.items()
        for metric, points in ranking_metrics(run).items()
    }
    metrics = list(dict.fromkeys(split_baseline_name(metric)[0] for _, metric in found))
    panels = {f"{_title(metric)}, {metric}": [metric] for metric in metrics}
    if runs.is_one:
        panels = {title: [m for m in metrics if _title(m) == title] for title in map(_title, metrics)}
    charts = []
    for title, panel in panels.items():
        shown = {key: points for key, points in found.items() if split_baseline_name(key[1])[0] in panel}
        own = [key for key in shown if not split_baseline_name(key[1])[1]]
        series = []
        for (name, metric), points in shown.items():
            of, order = split_baseline_name(metric)
            colour = own.index((name, of)) if (name, of) in own else None
            series.append(
                curve_series(runs.called(name, metric), points, "value", faint=bool(order), colour=colour)
            )
        label = ChartAxis("metric (%)", percent=True, zero=True)
        charts.append(Chart(title, list(CLOCKS.values()), label, series))
    return charts


def _title(metric: str) -> str:
    return "Exposure of target items" if metric.startswith("er@") else "Recommendation quality"
