"""Sections on attacks and utility: best results, curves, additional findings, and accuracy by adversary."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from gossiprec.base.rounding import difference
from gossiprec.figures.attack_selection import (
    AttackKey,
    accuracy_distributions,
    arrange_panels,
    group_keys,
    ranking_metrics,
    roc_curves,
)
from gossiprec.measures.selectors import INTERVALS, ROC, split_baseline_name
from gossiprec.report import (
    Block,
    Chart,
    ChartAxis,
    ChartSeries,
    IntervalChart,
    IntervalMark,
    Section,
    TableBlock,
    TableColumn,
    Tile,
    Tiles,
    block_or_choice,
    percent_axis,
    text_columns,
)
from gossiprec.report.sections import run_section
from gossiprec.report.sources import CLOCKS, ReportRuns, thin_indices
from gossiprec.runs.reader import Columns

COLUMNS = {
    "aac": "last AAC",
    "best10_min": "best 10 % from",
    "best10_mean": "best 10 % mean",
    "upper_bound": "upper bound",
    "random_bound": "random bound",
}
AT_THE_END = ("aac", "upper_bound", "random_bound")
"""Columns taken from the last report; other columns are from the best one."""

BOUND_NAMES = ("random bound", "max AAC", "upper bound")
RESULTS_NOTE = (
    "Average attack accuracy (AAC): the fraction of its community (the users with the most similar taste) "
    "that an adversary identifies, averaged over adversaries. The band reaches from the accuracy of random "
    "guessing to the fraction of the community that the observer had met by the end of the run; the dot "
    "marks the best report."
)


@run_section(20)
def results_section(runs: ReportRuns) -> Section | None:
    """Return the headline figures, or None if a run has neither attacks nor metrics yet."""
    blocks: list[Block] = []
    tiles = _utility_tiles(runs)
    if tiles:
        blocks.append(Tiles(tiles))
    blocks += _group_blocks(runs)
    if runs.attacks:
        rows = [_attack_row(runs, key) for key in runs.attacks]
        spans = [
            IntervalMark(
                name, row["max AAC"], row["random bound"], row["upper bound"], f"at round {row['at round']:,}"
            )
            for name, row in rows
        ]
        note = " ".join(filter(None, (RESULTS_NOTE, runs.common_labels_text)))
        title = "Attack accuracy relative to random guessing and the upper bound"
        blocks.append(IntervalChart(title, spans, BOUND_NAMES, note=note))
        columns = [TableColumn(name, "number" if name == "at round" else "percent") for name in rows[0][1]]
        table = [[name, *row.values()] for name, row in rows]
        blocks.append(TableBlock("Attacks", [*text_columns("attack"), *columns], table))
    return Section("Results", blocks) if blocks else None


def _group_blocks(runs: ReportRuns) -> list[Block]:
    """Return a table of the groups of users of each run that has some."""
    blocks: list[Block] = []
    for name, run in runs.runs_by_name.items():
        groups = (run.summary or {}).get("groups") or []
        if groups:
            metrics = list(groups[0].get("last", {}))
            columns = [*text_columns("group"), TableColumn("users")]
            columns += [TableColumn(metric, "percent") for metric in metrics]
            rows = [
                [
                    f"{group['by']} {group['group']}",
                    group["users"],
                    *map(_number, group.get("last", {}).values()),
                ]
                for group in groups
            ]
            blocks.append(TableBlock(runs.label_with_run(name, "Groups of users"), columns, rows))
    return blocks


def _attack_row(runs: ReportRuns, key: AttackKey) -> tuple[str, dict[str, float]]:
    """Return the name of an attack and its row of the table."""
    points = runs.attacks[key]
    accuracies = np.nan_to_num(points["aac"], nan=-1.0)
    best = int(np.argmax(difference(accuracies, accuracies.max()) == 0))
    row = {"max AAC": float(points["aac"][best]), "at round": int(points["round"][best])}
    return runs.attack_text(key), row | {
        words: float(points[name][-1 if name in AT_THE_END else best]) for name, words in COLUMNS.items()
    }


def _utility_tiles(runs: ReportRuns) -> list[Tile]:
    """Return the last value of each metric of recommendation quality, next to its reference values."""
    tiles = []
    for name, run in runs.runs_by_name.items():
        columns = run.metrics
        pairs = zip(columns["metric"].tolist(), columns["value"].tolist(), strict=True) if columns else ()
        last = dict(pairs)
        references: dict[str, list[str]] = {}
        for metric, value in (last | (run.summary or {}).get("utility", {})).items():
            own, order = split_baseline_name(metric)
            if order and "=" not in order and value is not None:
                references.setdefault(own, []).append(f"{order} {100 * value:.1f} %")
        for metric, value in last.items():
            if "@" in metric and not split_baseline_name(metric)[1]:
                note = ", ".join(references.get(metric, ()))
                tiles.append(Tile(runs.label_with_run(name, metric), f"{100 * value:.1f} %", note))
    return tiles


MOST_POINTS = 400


@run_section(30)
def curves_section(runs: ReportRuns) -> Section | None:
    """Return a chart per panel of attacks, and one per metric if several runs are compared."""
    charts = [*_accuracy_charts(runs), *_utility_charts(runs)]
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


def _accuracy_charts(runs: ReportRuns) -> list[Chart]:
    keys = list(runs.attacks)
    layout = arrange_panels(keys, columns=False)
    charts = []
    for inside in group_keys(keys, layout.down):
        series = [curve_series(key.field_text(layout.line), runs.attacks[key], "aac") for key in inside]
        series += _bounds(runs, inside)
        title = layout.title(inside[0])
        about = f"Average attack accuracy{': ' if title else ''}{title}"
        charts.append(Chart(about, list(CLOCKS.values()), percent_axis("AAC (%)"), series))
    return charts


def _bounds(runs: ReportRuns, keys: Sequence[AttackKey]) -> list[ChartSeries]:
    """Return each distinct bound once: guessing, and the fraction of the community met."""
    found: dict[tuple[object, ...], ChartSeries] = {}
    for place, key in enumerate(keys):
        points = runs.attacks[key]
        names = {"random_bound": "random bound", "upper_bound": "upper bound"}
        if len(keys) > 1:
            names["upper_bound"] = runs.label_with_run(key.run, f"upper bound, {key.observer}")
        colours = {"random_bound": None, "upper_bound": place if len(keys) > 1 else None}
        for column, name in names.items():
            bound = curve_series(name, points, column, faint=True, colour=colours[column])
            found.setdefault((column, *points[column].tolist()), bound)
    return list(found.values())


def _utility_charts(runs: ReportRuns) -> list[Chart]:
    """Return one chart of the metrics of a run, or a chart per metric for several runs."""
    found = {
        (name, metric): points
        for name, run in runs.runs_by_name.items()
        for metric, points in ranking_metrics(run).items()
    }
    metrics = list(dict.fromkeys(split_baseline_name(metric)[0] for _, metric in found))
    panels = {f"{_metric_title(metric)}, {metric}": [metric] for metric in metrics}
    if runs.is_single_run:
        panels = {
            title: [m for m in metrics if _metric_title(m) == title] for title in map(_metric_title, metrics)
        }
    charts = []
    for title, panel in panels.items():
        shown = {key: points for key, points in found.items() if split_baseline_name(key[1])[0] in panel}
        own = [key for key in shown if not split_baseline_name(key[1])[1]]
        series = []
        for (name, metric), points in shown.items():
            of, order = split_baseline_name(metric)
            colour = own.index((name, of)) if (name, of) in own else None
            words = runs.label_with_run(name, metric)
            series.append(curve_series(words, points, "value", faint=bool(order), colour=colour))
        charts.append(Chart(title, list(CLOCKS.values()), percent_axis("metric (%)"), series))
    return charts


def _metric_title(metric: str) -> str:
    return "Exposure of target items" if metric.startswith("er@") else "Recommendation quality"


@run_section(35)
def findings_section(runs: ReportRuns) -> Section | None:
    """Return a chart and the last values of each measure, or None if no attack reports any."""
    series: dict[str, list[ChartSeries]] = {}
    rows: list[list[Any]] = []
    for name, run in runs.runs_by_name.items():
        for (attack, measure, labels), points in _by_finding(run.findings).items():
            if measure in (ROC, *INTERVALS):
                continue
            about = ", ".join([attack, *(f"{key} {value}" for key, value in json.loads(labels).items())])
            words = runs.label_with_run(name, about)
            series.setdefault(measure, []).append(curve_series(words, points, "value"))
            rows.append([measure, words, int(points["round"][-1]), float(points["value"][-1])])
    if not rows:
        return None
    clocks, note = list(CLOCKS.values()), "Values as reported by the attacks."
    charts: dict[str, Block] = {
        measure: Chart(measure.replace("_", " "), clocks, ChartAxis(measure), own, note=note)
        for measure, own in series.items()
    }
    columns = [*text_columns("measure", "of"), TableColumn("round"), TableColumn("value")]
    table = TableBlock("Findings as last reported", columns, rows)
    return Section("Additional findings", [block_or_choice("Measure", charts), *_roc_chart(runs), table])


def _roc_chart(runs: ReportRuns) -> list[Block]:
    """Return the ROC curves of attacks on single items at the last report, if there are any."""
    series = [
        ChartSeries(runs.label_with_run(name, about), [[x for x, _ in curve]], [y for _, y in curve])
        for name, run in runs.runs_by_name.items()
        for about, curve in roc_curves(run).items()
    ]
    if not series:
        return []
    x, y = percent_axis("false positive rate (%)"), percent_axis("true positive rate (%)")
    return [Chart("ROC of membership inference", [x], y, series)]


def _by_finding(columns: Columns) -> dict[tuple[str, str, str], Columns]:
    rows: dict[tuple[str, str, str], list[int]] = {}
    if columns:
        for row, labels in enumerate(
            zip(*(columns[name].tolist() for name in ("attack", "measure", "labels")), strict=True)
        ):
            rows.setdefault(labels, []).append(row)
    return {
        labels: {name: columns[name][own] for name in ("time", "round", "value")}
        for labels, own in rows.items()
    }


@run_section(40)
def distribution_section(runs: ReportRuns) -> Section | None:
    """Return the distributions, or None if no run has written its adversaries."""
    found = accuracy_distributions(runs.runs)
    keys = list(found)
    layout = arrange_panels(keys, columns=False)
    charts = []
    for inside in group_keys(keys, layout.down):
        series = []
        for key in inside:
            x, y = np.insert(found[key].accuracy, 0, 0.0), np.insert(found[key].share, 0, 0.0)
            series.append(ChartSeries(key.field_text(layout.line), [x], y))
        bounds = {float(found[key].random_bound) for key in inside if np.isfinite(found[key].random_bound)}
        upright = {
            "random bound" if len(bounds) == 1 else f"random bound {100 * b:.1f} %": b for b in sorted(bounds)
        }
        x_axis = percent_axis("attack accuracy per adversary (%)")
        y_axis = percent_axis("share of adversaries (%)")
        charts.append(Chart(layout.title(inside[0]), [x_axis], y_axis, series, mark="step", upright=upright))
    note = "At the best report of each attack. Lines further to the right mean stronger attacks."
    return Section("Attack accuracy by adversary", charts, note) if charts else None


OBSERVED = {
    "max_aac": "max AAC",
    "last_aac": "last AAC",
    "upper_bound": "upper bound",
    "random_bound": "random bound",
}
NOTE = (
    "A replay of the run with other observers (gossiprec observe). Its log and metrics are those of the run."
)


@run_section(25)
def observed_section(runs: ReportRuns) -> Section | None:
    """Return a table per kind of results: attacks, findings and metrics; None if no run was observed later."""
    attacks, findings, metrics = [], [], []
    for name, run in runs.runs_by_name.items():
        own = (run.summary or {}).get("utility", {})
        for later, found in run.observed.items():
            summary, by = found.summary or {}, runs.label_with_run(name, later)
            for row in summary.get("attacks", ()):
                labels = f"{row['observer']}, {row['relevance']}, beta {row['momentum']:g}, K {row['community_size']}"
                attacks.append([by, labels, *(_number(row[key]) for key in OBSERVED)])
            for row in summary.get("findings", ()):
                labels = ", ".join(f"{key} {value}" for key, value in row["labels"].items())
                findings.append([by, f"{row['attack']}: {labels}", row["measure"], _number(row["value"])])
            new = {key: value for key, value in summary.get("utility", {}).items() if key not in own}
            metrics += [[by, metric, _number(value)] for metric, value in new.items()]
    who, attack, measure = text_columns("observed as", "attack", "measure")
    percents = [TableColumn(words, "percent") for words in OBSERVED.values()]
    tables: list[Block] = [
        TableBlock(title, columns, rows, note=NOTE)
        for title, columns, rows in (
            ("Attacks", [who, attack, *percents], attacks),
            ("Findings", [who, attack, measure, TableColumn("value")], findings),
            ("Metrics", [who, measure, TableColumn("value", "percent")], metrics),
        )
        if rows
    ]
    return Section("Observed after the run", tables) if tables else None


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)
