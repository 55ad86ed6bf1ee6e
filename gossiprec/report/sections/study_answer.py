"""The section that opens the page of a study: the picture that the study names, and findings in sentences."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from gossiprec.base.errors import LogError
from gossiprec.figures.figure_files import picture_bytes
from gossiprec.figures.study.draw import own_picture
from gossiprec.figures.study.estimates import MeanEstimate, describe_seeds, mean_with_interval
from gossiprec.figures.study.paired_differences import differences_to_baseline
from gossiprec.figures.study.quantity import Quantity, format_label
from gossiprec.figures.study.table_reader import StudyTable, order_quantities
from gossiprec.report import Block, Picture, Section, TableBlock, TableColumn, TextParagraphs
from gossiprec.report.sections import study_section
from gossiprec.report.sources import ReportStudy

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
        high, low = (
            max(means, key=lambda point: means[point].mean),
            min(means, key=lambda point: means[point].mean),
        )
        name = quantity.name_with_labels()
        if means[high].mean == means[low].mean:
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
    count = (
        f"{len(sure)} of {len(lines)} combinations differ"
        if len(lines) > 1
        else "the other combination differs"
    )
    if not sure:
        return (
            f" Compared with {against} (same seed and other values), no interval of a difference excludes 0."
        )
    return (
        f" Compared with {against} (same seed and other values), {count} by an interval without 0; the largest such "
        f"difference is {_words(quantity, largest.estimate, sign='+', unit='points')} with "
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
