"""Sections on a study: what varies, means over seeds, differences from the baseline, the Pareto front, the runs."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from gossiprec.base.errors import LogError
from gossiprec.base.rounding import difference
from gossiprec.figures.figure_files import picture_bytes
from gossiprec.figures.study.draw import differences_to_baseline, own_picture
from gossiprec.figures.study.estimates import (
    LOG_FROM,
    MeanEstimate,
    describe_intervals,
    describe_seeds,
    mean_with_interval,
)
from gossiprec.figures.study.panels import picture_estimate
from gossiprec.figures.study.pareto_front import ParetoPoint, front_signs, pareto_points, utility_quantity
from gossiprec.figures.study.quantity import Quantity, format_label
from gossiprec.figures.study.table_reader import Point, StudyTable, is_numeric, order_quantities
from gossiprec.report import (
    Block,
    Chart,
    ChartAxis,
    ChartSeries,
    IntervalChart,
    IntervalMark,
    Picture,
    Section,
    TableBlock,
    TableColumn,
    TextParagraphs,
    Tile,
    Tiles,
    block_or_choice,
    text_columns,
)
from gossiprec.report.sections import study_section
from gossiprec.report.sources import ReportStudy, quantity_columns, study_status, unfinished_runs


@study_section(10)
def study_overview_section(study: ReportStudy) -> Section:
    """Return a paragraph, counts, the axes, and the runs that failed."""
    mark, table = study.mark, study.table
    seeds = sorted({seed for own in table.runs.values() for seed in own})
    text = f"The study {mark.get('study', table.path.name)} varies {', '.join(table.axes) or 'only seeds'}"
    text += f" over the seeds {', '.join(map(str, seeds))}." if seeds else "."
    if table.baseline:
        text += f" Baseline of differences: {', '.join(f'{n} {format_label(v)}' for n, v in table.baseline.items())}."
    status = study_status(table.path)
    if status != "complete":
        text += f" Status: {status}; results so far are shown."
    if len(study.charted) < len(study.measures):
        text += f" Charts show the first {len(study.charted)} of {len(study.measures)} measures. {IN_FILE}"
    blocks: list[Block] = [TextParagraphs([text])]
    counts = {
        "combinations and seeds": mark.get("variants"),
        "runs": mark.get("simulations"),
        "finished": mark.get("finished"),
        "failed": len(mark.get("failed", [])) or None,
    }
    blocks.append(Tiles([Tile(name, f"{count:,}") for name, count in counts.items() if count is not None]))
    if table.values and table.axes:
        axes = [
            [name, ", ".join(format_label(label) for label in table.axis_values(name))] for name in table.axes
        ]
        blocks.append(TableBlock("What varies", text_columns("axis", "values"), axes))
    failed = [
        ["; ".join(one.get("variants", [])), one.get("problem"), study.run_link(one["run"])]
        for one in mark.get("failed", [])
    ]
    if failed:
        columns = [*text_columns("variant", "problem"), TableColumn("run", "link")]
        blocks.append(TableBlock("Failed runs", columns, failed))
    begun = [[study.run_link(run), standing] for run, standing in unfinished_runs(table.path).items()]
    if begun:
        columns = [TableColumn("run", "link"), *text_columns("status")]
        blocks.append(TableBlock("Unfinished runs", columns, begun))
    return Section(f"Study {mark.get('study', table.path.name)}", blocks)


MOST_TICKS = 8
MOST_ROWS = 5_000
"""Rows of a table."""
MOST_SPANS = 60
"""Differences in a chart."""
IN_FILE = "table.csv in the study's folder has all."


@study_section(20)
def means_section(study: ReportStudy) -> Section | None:
    """Return a chart per measure and the table of all means, or None if no run is finished."""
    if not study.measures:
        return None
    blocks: list[Block] = []
    if study.table.varying:
        charts = {quantity.name_with_labels(): _means_chart(study, quantity) for quantity in study.charted}
        blocks.append(block_or_choice("Measure", charts))
    columns = text_columns("measure", *study.table.axes)
    columns += map(TableColumn, ("seeds", "mean", "low", "high"))
    means = [
        (quantity, point, seeds)
        for quantity in study.measures
        for point, seeds in study.table.values[quantity].items()
    ]
    rows = [
        _mean_row(quantity, point, picture_estimate(quantity, mean_with_interval(seeds.values())))
        for quantity, point, seeds in means[:MOST_ROWS]
    ]
    note = "Low and high are the bounds of the 95 % t-interval of the mean over seeds."
    note += _rows_note(len(means))
    return Section("Means over seeds", [*blocks, TableBlock("Means", columns, rows, note)])


def _rows_note(n_rows: int) -> str:
    """Return a sentence about the rows that a table leaves out; empty if it has all."""
    return f" The first {MOST_ROWS:,} of {n_rows:,} rows; {IN_FILE}" if n_rows > MOST_ROWS else ""


def _possible(quantity: Quantity, found: MeanEstimate) -> MeanEstimate:
    """Return an estimate of which the interval ends at 0 and 1, if the quantity is a share."""
    return found.within(0.0, 1.0) if quantity.is_share and found.n > 1 else found


def _mean_row(quantity: Quantity, point: Point, found: MeanEstimate) -> list[Any]:
    words = f"{quantity.name_with_labels()} (%)" if quantity.is_share else quantity.name_with_labels()
    return [words, *(format_label(label) for label in point), found.n, found.mean, found.low, found.high]


def _means_chart(study: ReportStudy, quantity: Quantity) -> Chart:
    table = study.table
    first, *others = table.varying
    labels, place = table.axis_values(first), table.axis_index(first)
    lines: dict[str, list[tuple[float, Point, MeanEstimate]]] = {}
    for point, seeds in table.values[quantity].items():
        name = ", ".join(f"{other} {format_label(point[table.axis_index(other)])}" for other in others)
        at = float(point[place]) if is_numeric(labels) else float(labels.index(point[place]))
        found = _possible(quantity, mean_with_interval(seeds.values()))
        lines.setdefault(name or quantity.name, []).append((at, point, found))
    series = [
        _mean_line(study, name, sorted(points, key=lambda found: found[0])) for name, points in lines.items()
    ]
    details = {
        study.point_text(point): study.runs_table(point, [quantity]) for point in table.values[quantity]
    }
    caption = describe_intervals((found.n for points in lines.values() for _, _, found in points), "Bars:")
    return Chart(
        quantity.name_with_labels(),
        [_axis(first, labels)],
        ChartAxis(quantity.unit, percent=quantity.is_share, zero=quantity.is_share),
        series,
        mark="line" if is_numeric(labels) else "dot",
        note=f"{caption[0].upper()}{caption[1:]}. Click a point to list its runs.",
        details=details,
    )


def _mean_line(study: ReportStudy, name: str, points: list[tuple[float, Point, MeanEstimate]]) -> ChartSeries:
    found = [estimated for _, _, estimated in points]
    return ChartSeries(
        name,
        [[at for at, _, _ in points]],
        [e.mean for e in found],
        [e.low for e in found],
        [e.high for e in found],
        texts=[study.point_text(point) for _, point, _ in points],
    )


def _axis(name: str, labels: list[Any]) -> ChartAxis:
    if not is_numeric(labels):
        return ChartAxis(name, names=[format_label(label) for label in labels])
    numbers = [label if isinstance(label, int) else float(label) for label in labels]
    low, high = min(numbers), max(numbers)
    return ChartAxis(
        name, log=low > 0 and high / low >= LOG_FROM, ticks=numbers if len(numbers) <= MOST_TICKS else ()
    )


FILLED = "Filled: the interval excludes 0 (expected for 1 in 20 by chance)."


@study_section(30)
def differences_section(study: ReportStudy) -> Section | None:
    """Return the differences in each measure, or None if there is no baseline or no seed shared with it."""
    if not study.table.baseline:
        return None
    against = ", ".join(f"{name} {format_label(value)}" for name, value in study.table.baseline.items())
    found: dict[str, Block] = {}
    for quantity in study.charted:
        every = differences_to_baseline(study.table, quantity)
        largest = sorted(every, key=lambda d: -abs(d.estimate.mean))[:MOST_SPANS]
        lines = [d for d in every if d in largest]
        if lines:
            spans = [
                IntervalMark(study.point_text(d.point), d.estimate.mean, d.estimate.low, d.estimate.high)
                for d in lines
            ]
            seeds = describe_seeds(d.estimate.n for d in lines)
            title = f"{quantity.name_with_labels()}: difference from {against}, same seed and other values"
            note = f"95 % t-interval of the mean difference, {seeds}. {FILLED}"
            if len(lines) < len(every):
                note += f" The {len(lines)} largest of {len(every):,} differences; {IN_FILE}"
            found[quantity.name_with_labels()] = IntervalChart(
                title, spans, ("from", "difference", "to"), quantity.is_share, note, apart=True
            )
    return Section("Differences from the baseline", [block_or_choice("Measure", found)]) if found else None


PARETO_NOTE = (
    "Points further {right} and {lower} are better. Filled points are Pareto optimal and connected by a line; "
    "bars are 95 % t-intervals over seeds. Click a point to list its runs."
)


@study_section(40)
def pareto_section(study: ReportStudy) -> Section | None:
    """Return a chart per attack, or None if the study has no utility or no attack."""
    table = study.table
    try:
        utility = utility_quantity(table)
        attacks = [attack for attack in table.find_quantities("max_aac") if attack in study.charted]
    except LogError:  # the measure belongs to something else
        return None
    found: dict[str, Block] = {}
    for attack in attacks:
        if len(table.values[attack].keys() & table.values[utility].keys()) > 1:
            found[attack.name_with_labels()] = _pareto_chart(study, utility, attack)
    return Section("Utility against privacy", [block_or_choice("Attack", found)]) if found else None


def _pareto_chart(study: ReportStudy, utility: Quantity, attack: Quantity) -> Chart:
    spots, (up, down) = pareto_points(study.table, utility, attack), front_signs(utility, attack)
    best = [spot for spot in spots if spot.is_unbeaten]
    x, y = [spot.utility.mean for spot in best], [spot.attack.mean for spot in best]
    front = ChartSeries("Pareto optimal", [x], y, faint=True, mark="step")
    details = {
        study.point_text(spot.point): study.runs_table(spot.point, [utility, attack]) for spot in spots
    }
    x_axis, y_axis = (ChartAxis(of.unit, percent=of.is_share) for of in (utility, attack))
    return Chart(
        f"{attack.name_with_labels()} against {utility.name_with_labels()}",
        [x_axis],
        y_axis,
        [front, _dots(study, spots, (utility, attack))],
        "dot",
        PARETO_NOTE.format(right="right" if up > 0 else "left", lower="lower" if down > 0 else "higher"),
        details=details,
    )


def _dots(study: ReportStudy, spots: list[ParetoPoint], of: tuple[Quantity, Quantity]) -> ChartSeries:
    utility = [_possible(of[0], spot.utility) for spot in spots]
    attack = [_possible(of[1], spot.attack) for spot in spots]
    return ChartSeries(
        "combinations",
        [[u.mean for u in utility]],
        [a.mean for a in attack],
        [a.low for a in attack],
        [a.high for a in attack],
        [u.low for u in utility],
        [u.high for u in utility],
        [study.point_text(spot.point) for spot in spots],
        [not spot.is_unbeaten for spot in spots],
    )


RUNS_NOTE = "Run directories are in runs/ of the study folder; runs with a report are linked."


@study_section(50)
def runs_section(study: ReportStudy) -> Section | None:
    """Return the table of runs, or None if no run has ended."""
    table, quantities = study.table, study.measures
    if not table.runs:
        return None
    columns = [
        *text_columns(*table.axes),
        TableColumn("seed"),
        TableColumn("run", "link"),
        *quantity_columns(quantities),
    ]
    runs = [(point, seed, run) for point, seeds in table.runs.items() for seed, run in seeds.items()]
    rows = [
        [
            *map(format_label, point),
            seed,
            study.run_link(run),
            *(table.values[q].get(point, {}).get(seed) for q in quantities),
        ]
        for point, seed, run in runs[:MOST_ROWS]
    ]
    return Section("The runs", [TableBlock("Runs", columns, rows, RUNS_NOTE + _rows_note(len(runs)))])


MOST_FINDINGS = 4
"""Number of measures about which sentences are written."""
CHANCE = (
    "Intervals are 95 % t-intervals over seeds, each for itself: the largest of several differences is overstated, and "
    "one in twenty intervals excludes 0 by chance."
)


@study_section(5)
def answer_section(study: ReportStudy) -> Section | None:
    """Return the study's own picture and its findings, or None if no run is finished."""
    table = study.table
    if not table.values or not table.varying:
        return None
    blocks: list[Block] = []
    if table.picture:
        blocks.append(_picture_block(table))
    sentences = [*findings(study)]
    if sentences:
        blocks.append(TextParagraphs([*sentences, CHANCE], "Findings"))
    return Section("The answer", blocks) if blocks else None


def _picture_block(table: StudyTable) -> Block:
    try:
        header, rows, draw = own_picture(table)
    except LogError as error:  # the runs so far lack what the picture shows
        return TextParagraphs([f"The study's own picture cannot be drawn yet: {error}."])
    svg = base64.b64encode(picture_bytes(draw, ["svg"])["svg"]).decode()
    title = f"{table.picture.get('kind', 'lines')} of {', '.join(_picture_measures(table)) or 'all measures'}"
    cells = [["" if cell is None else cell for cell in row] for row in rows]
    columns = [
        TableColumn(name, "text" if any(isinstance(row[at], str) for row in cells) else "number")
        for at, name in enumerate(header)
    ]
    return Picture(title, svg, TableBlock(title, columns, cells))


def _picture_measures(table: StudyTable) -> list[str]:
    y = table.picture.get("y") or ()
    return [y] if isinstance(y, str) else [*y]


def findings(study: ReportStudy) -> Iterator[str]:
    """Yield sentences about the measures of the study's picture, or about the first attack and the first utility."""
    for quantity in _main_quantities(study.table)[:MOST_FINDINGS]:
        points = study.table.values[quantity]
        means = {point: mean_with_interval(seeds.values()) for point, seeds in points.items()}
        if len(means) < 2:
            continue
        high, low = (end(means, key=lambda point: means[point].mean) for end in (max, min))
        name = quantity.name_with_labels()
        if not difference(means[high].mean, means[low].mean):
            yield f"{name} is the same in all {len(means)} combinations: {_words(quantity, means[high])}."
            continue
        yield (
            f"{name} is highest with {study.point_text(high)}: {_words(quantity, means[high])}, and lowest with "
            f"{study.point_text(low)}: {_words(quantity, means[low])}.{_differences(study, quantity)}"
        )


def _main_quantities(table: StudyTable) -> list[Quantity]:
    """Return the quantities of the picture; without one, the first attack and the first utility."""
    found: list[Quantity] = []
    for text in _picture_measures(table):
        try:
            found += table.find_quantities(text)
        except LogError:
            continue
    if found:
        return found
    ordered = order_quantities(table)
    firsts = (
        next((q for q in ordered if q.name == "max_aac"), None),
        next((q for q in ordered if "@" in q.name), None),
    )
    return [quantity for quantity in firsts if quantity is not None] or ordered[:1]


def _differences(study: ReportStudy, quantity: Quantity) -> str:
    """Return a sentence about the differences from the baseline, or nothing if there are none."""
    lines = differences_to_baseline(study.table, quantity) if study.table.baseline else []
    lines = [line for line in lines if line.estimate.n > 1]
    if not lines:
        return ""
    against = ", ".join(f"{name} {format_label(value)}" for name, value in study.table.baseline.items())
    sure = [line for line in lines if line.estimate.low > 0 or line.estimate.high < 0]
    largest = max(sure or lines, key=lambda line: abs(line.estimate.mean))
    compared = f" Compared with {against} (same seed and other values),"
    if not sure:
        return f"{compared} no interval of a difference excludes 0."
    several = f"{len(sure)} of {len(lines)} combinations differ"
    return (
        f"{compared} {several if len(lines) > 1 else 'the other combination differs'} by an interval without 0; the "
        f"largest such difference is {_words(quantity, largest.estimate, sign='+', unit='points')} with "
        f"{study.point_text(largest.point)}."
    )


def _words(quantity: Quantity, found: MeanEstimate, sign: str = "", unit: str = "%") -> str:
    """Return a mean with its interval as text, such as ``12.3 % (11.0 to 13.6, n = 3)``."""
    scaled = found.scaled(quantity.picture_factor)
    end = f" {unit}" if quantity.is_share else ""
    form = f"{sign}.1f" if quantity.is_share else f"{sign}.4g"
    seeds = describe_seeds([found.n])
    if found.n < 2:
        return f"{scaled.mean:{form}}{end} (one seed)"
    return f"{scaled.mean:{form}}{end} ({scaled.low:{form}} to {scaled.high:{form}}, {seeds})"
