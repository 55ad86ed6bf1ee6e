"""Section: means over seeds with intervals, over the first varying axis, a line per value of the others."""

from __future__ import annotations

from typing import Any

from gossiprec.figures.study.estimates import LOG_FROM, MeanEstimate, describe_intervals, mean_with_interval
from gossiprec.figures.study.quantity import Quantity, format_label
from gossiprec.figures.study.table_reader import Point, is_numeric, order_quantities
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
from gossiprec.report.study import ReportStudy

ORDER = 20
MOST_TICKS = 8


def section(study: ReportStudy) -> Section | None:
    """Return a chart per measure and the table of all means, or None if no run is finished."""
    quantities = order_quantities(study.table)
    if not quantities:
        return None
    blocks: list[Block] = []
    if study.table.varying:
        blocks.append(
            block_or_choice("Measure", {quantity.words(): _chart(study, quantity) for quantity in quantities})
        )
    columns = [TableColumn("measure", "text"), *(TableColumn(name, "text") for name in study.table.axes)]
    columns += [TableColumn("seeds"), TableColumn("mean"), TableColumn("low"), TableColumn("high")]
    rows = [
        _row(quantity, point, mean_with_interval(seeds.values()))
        for quantity in quantities
        for point, seeds in study.table.values[quantity].items()
    ]
    note = "Low and high are the bounds of the 95 % t-interval of the mean over seeds."
    return Section("Means over seeds", [*blocks, TableBlock("Means", columns, rows, note)])


def _row(quantity: Quantity, point: Point, found: MeanEstimate) -> list[Any]:
    words = f"{quantity.words()} (%)" if quantity.is_share else quantity.words()
    found = found.scaled(quantity.factor)
    return [words, *(format_label(label) for label in point), found.n, found.mean, found.low, found.high]


def _chart(study: ReportStudy, quantity: Quantity) -> Chart:
    table = study.table
    first, *others = table.varying
    labels, place = table.labels(first), table.axis(first)
    lines: dict[str, list[tuple[float, Point, MeanEstimate]]] = {}
    for point, seeds in table.values[quantity].items():
        name = (
            ", ".join(f"{other} {format_label(point[table.axis(other)])}" for other in others)
            or quantity.name
        )
        at = float(point[place]) if is_numeric(labels) else float(labels.index(point[place]))
        lines.setdefault(name, []).append((at, point, mean_with_interval(seeds.values())))
    series = [
        _line(study, name, sorted(points, key=lambda found: found[0])) for name, points in lines.items()
    ]
    details = {study.name_of(point): study.runs_behind(point, [quantity]) for point in table.values[quantity]}
    said = describe_intervals((found.n for points in lines.values() for _, _, found in points), "Bars:")
    return Chart(
        quantity.words(),
        [_axis(first, labels)],
        ChartAxis(quantity.unit, percent=quantity.is_share, zero=quantity.is_share),
        series,
        mark="line" if is_numeric(labels) else "dot",
        note=f"{said[0].upper()}{said[1:]}. Click a point to list its runs.",
        details=details,
    )


def _line(study: ReportStudy, name: str, points: list[tuple[float, Point, MeanEstimate]]) -> ChartSeries:
    found = [estimated for _, _, estimated in points]
    return ChartSeries(
        name,
        [[at for at, _, _ in points]],
        [e.mean for e in found],
        [e.low for e in found],
        [e.high for e in found],
        texts=[study.name_of(point) for _, point, _ in points],
    )


def _axis(name: str, labels: list[Any]) -> ChartAxis:
    if not is_numeric(labels):
        return ChartAxis(name, names=[format_label(label) for label in labels])
    numbers = [label if isinstance(label, int) else float(label) for label in labels]
    low, high = min(numbers), max(numbers)
    return ChartAxis(
        name, log=low > 0 and high / low >= LOG_FROM, ticks=numbers if len(numbers) <= MOST_TICKS else ()
    )
