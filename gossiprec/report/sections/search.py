"""Section: the trials of a search, their parallel coordinates, and the importance of each axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gossiprec.figures.study.quantity import format_label
from gossiprec.report import (
    Block,
    Chart,
    ChartAxis,
    ChartSeries,
    Section,
    TableBlock,
    TableColumn,
    TextParagraphs,
)
from gossiprec.report.sections import study_section
from gossiprec.report.sources import ReportStudy
from gossiprec.runs.search_record import AxisRecord, SearchRecord, TrialRecord, read_search

MOST = 60
"""Number of trials of a group that the picture shows."""
NOTE = (
    "A line is a trial: its position on each axis, from the low end of the range at the bottom to the high end at the "
    "top, and at the right its objective between the lowest and the highest one."
)


@study_section(15)
def search_section(study: ReportStudy) -> Section | None:
    """Return the result of a search, or None if the study is none."""
    found = read_search(study.table.path)
    if found is None:
        return None
    complete = [trial for trial in found["trials"] if trial["state"] == "complete"]
    blocks: list[Block] = [TextParagraphs([_sentence(found, complete)])]
    if complete:
        blocks.append(_coordinates(found, complete))
    if found["importances"]:
        shares = sorted(found["importances"].items(), key=lambda part: -part[1])
        columns = [TableColumn("axis", "text"), TableColumn("importance", "percent")]
        note = "Share of the variance of the objective over the ranges (fANOVA, by a forest over the complete trials)."
        blocks.append(TableBlock("Importance of the axes", columns, [list(row) for row in shares], note))
    names = [*found["axes"]]
    bounds = [TableColumn(f"{name} ({words})") for name, words in found["constraints"].items()]
    columns = [TableColumn("trial"), TableColumn("state", "text"), *(TableColumn(n, "text") for n in names)]
    rows = [
        [
            *(trial["number"], trial["state"], *(format_label(trial["labels"][name]) for name in names)),
            *(trial["value"], *(trial["bounded"].get(name) for name in found["constraints"])),
        ]
        for trial in found["trials"]
    ]
    blocks.append(TableBlock("Trials", [*columns, TableColumn(found["objective"]), *bounds], rows))
    return Section("The search", blocks)


def _sentence(found: SearchRecord, complete: list[TrialRecord]) -> str:
    aim = "highest" if found["maximize"] else "lowest"
    wanted = "".join(f", {name} {words}" for name, words in found["constraints"].items())
    text = f"{len(found['trials'])} trials for the {aim} {found['objective']}{wanted}."
    if found["best"] is None:
        return f"{text} No trial meets the constraints." if complete else f"{text} No trial is complete."
    best = found["trials"][found["best"]]
    values = ", ".join(f"{name} {format_label(value)}" for name, value in best["labels"].items())
    reached = "".join(f", {name} {value:.4g}" for name, value in best["bounded"].items())
    return (
        f"{text} Best: trial {best['number']} ({values}), {found['objective']} {best['value']:.4g}{reached}."
    )


def _coordinates(found: SearchRecord, complete: list[TrialRecord]) -> Chart:
    """Return the parallel coordinates of the complete trials."""
    values = [trial["value"] for trial in complete if trial["value"] is not None]
    low, high = min(values), max(values)
    axes: dict[str, AxisRecord] = {
        **found["axes"],
        found["objective"]: {"low": low, "high": high, "log": False},
    }
    best = [trial for trial in complete if trial["number"] == found["best"]]
    groups = {
        "outside the constraints": [t for t in complete if t["violation"] != 0],
        "within the constraints": [t for t in complete if t["violation"] == 0 and t not in best],
        "best": best,
    }
    series = [
        replace(_lines(name, trials[:MOST], axes, found["objective"]), faint=colour is None, colour=colour)
        for (name, trials), colour in zip(groups.items(), (None, 0, 1), strict=True)
        if trials
    ]
    return Chart(
        "Trials, axis by axis",
        [ChartAxis("", names=[*axes])],
        ChartAxis("position in the range"),
        series,
        note=NOTE,
    )


def _lines(
    name: str, trials: Iterable[TrialRecord], axes: Mapping[str, AxisRecord], objective: str
) -> ChartSeries:
    """Return trials as one line that runs to and fro, so that a group has one name and colour."""
    x: list[float] = []
    y: list[float] = []
    texts: list[str] = []
    for trial in trials:
        at = {**trial["labels"], objective: trial["value"]}
        places = [_place(at[axis], about) for axis, about in axes.items()]
        words = [f"trial {trial['number']}: {axis} {format_label(at[axis])}" for axis in axes]
        order = [*range(len(places)), *reversed(range(len(places)))]
        x += map(float, order)
        y += [places[n] for n in order]
        texts += [words[n] for n in order]
    return ChartSeries(name, [x], y, texts=texts)


def _place(value: Any, axis: AxisRecord) -> float:
    """Return the position of a value on an axis, from 0 to 1."""
    labels = axis.get("labels")
    if labels is not None:
        return float(labels.index(value) / max(len(labels) - 1, 1))
    low, high = axis["low"], axis["high"]
    if axis["log"]:
        low, high, value = math.log(low), math.log(high), math.log(value)
    return float((value - low) / (high - low)) if high > low else 0.5
