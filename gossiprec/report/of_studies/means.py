"""Means over seeds with their intervals: over the first axis that varies, a line for each value of the others."""

from __future__ import annotations

from typing import Any

from gossiprec.figures.study.numbers import LOG_FROM, Estimate, estimate, intervals_in_words
from gossiprec.figures.study.quantity import Quantity, shown
from gossiprec.figures.study.table import Point, by_importance, is_numeric
from gossiprec.report.blocks import Axis, Block, Chart, Column, Section, Series, Table, one_of
from gossiprec.report.study import Study

ORDER = 20
MOST_TICKS = 8


def section(study: Study) -> Section | None:
    """Return a chart of each measure, and the table of all means; None where no run is finished."""
    quantities = by_importance(study.table)
    if not quantities:
        return None
    blocks: list[Block] = []
    if study.table.varying:
        blocks.append(
            one_of("Measure", {quantity.words(): _chart(study, quantity) for quantity in quantities})
        )
    columns = [Column("measure", "text"), *(Column(name, "text") for name in study.table.axes)]
    columns += [Column("seeds"), Column("mean"), Column("low"), Column("high")]
    rows = [
        _row(quantity, point, estimate(seeds.values()))
        for quantity in quantities
        for point, seeds in study.table.values[quantity].items()
    ]
    note = "Low and high are the bounds of the 95 % t-interval of the mean over seeds."
    return Section("Means over seeds", [*blocks, Table("Means", columns, rows, note)])


def _row(quantity: Quantity, point: Point, found: Estimate) -> list[Any]:
    words = f"{quantity.words()} (%)" if quantity.is_share else quantity.words()
    found = found.scaled(quantity.factor)
    return [words, *(shown(label) for label in point), found.n, found.mean, found.low, found.high]


def _chart(study: Study, quantity: Quantity) -> Chart:
    table = study.table
    first, *others = table.varying
    labels, place = table.labels(first), table.axis(first)
    lines: dict[str, list[tuple[float, Point, Estimate]]] = {}
    for point, seeds in table.values[quantity].items():
        name = ", ".join(f"{other} {shown(point[table.axis(other)])}" for other in others) or quantity.name
        at = float(point[place]) if is_numeric(labels) else float(labels.index(point[place]))
        lines.setdefault(name, []).append((at, point, estimate(seeds.values())))
    series = [
        _line(study, name, sorted(points, key=lambda found: found[0])) for name, points in lines.items()
    ]
    details = {study.name_of(point): study.runs_behind(point, [quantity]) for point in table.values[quantity]}
    said = intervals_in_words((found.n for points in lines.values() for _, _, found in points), "Bars:")
    return Chart(
        quantity.words(),
        [_axis(first, labels)],
        Axis(quantity.unit, percent=quantity.is_share, zero=quantity.is_share),
        series,
        mark="line" if is_numeric(labels) else "dot",
        note=f"{said[0].upper()}{said[1:]}. Click a point to list its runs.",
        details=details,
    )


def _line(study: Study, name: str, points: list[tuple[float, Point, Estimate]]) -> Series:
    found = [estimated for _, _, estimated in points]
    return Series(
        name,
        [[at for at, _, _ in points]],
        [e.mean for e in found],
        [e.low for e in found],
        [e.high for e in found],
        texts=[study.name_of(point) for _, point, _ in points],
    )


def _axis(name: str, labels: list[Any]) -> Axis:
    if not is_numeric(labels):
        return Axis(name, names=[shown(label) for label in labels])
    numbers = [label if isinstance(label, int) else float(label) for label in labels]
    low, high = min(numbers), max(numbers)
    return Axis(
        name, log=low > 0 and high / low >= LOG_FROM, ticks=numbers if len(numbers) <= MOST_TICKS else ()
    )
