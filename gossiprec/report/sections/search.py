"""Section: the trials of a search and their parallel coordinates."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gossiprec.base.errors import ResourceError
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
    text_columns,
)
from gossiprec.report.sections import study_section
from gossiprec.report.sources import ReportStudy
from gossiprec.runs.search_record import STATES, best_trial, describe_trial, read_search

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

MOST = 60
"""Number of trials of a group that the picture shows."""
NOTE = (
    "A line is a trial: its position on each axis, from the low end of the range at the bottom to the high end at the "
    "top, and at the right its objective between the lowest and the highest one."
)


@study_section(15)
def search_section(study: ReportStudy) -> Section | None:
    """Return the result of a search, or None if the study is none."""
    try:
        found = read_search(study.table.path)
    except ResourceError as error:
        return Section("The search", [TextParagraphs([str(error)])])
    trials = [each for each in found.trials if each.state.is_finished() and each.user_attrs] if found else []
    if found is None or not trials:
        return None
    objective, best = found.user_attrs["objective"], best_trial(found)
    complete = [trial for trial in trials if trial.state.name == "COMPLETE"]
    text = f"{len(trials)} trials for the {found.direction.name.lower().removesuffix('imize')}imum of {objective}."
    text += f" Best: {describe_trial(best)}." if best else " No trial meets the constraints."
    blocks: list[Block] = [TextParagraphs([text])]
    if complete:
        blocks.append(_coordinates(complete, objective, best))
    names = [*trials[0].params]
    measures = list(dict.fromkeys(name for trial in trials for name in trial.user_attrs.get("results", {})))
    columns = [TableColumn("trial"), *text_columns("state", *names)]
    rows = [
        [
            *(trial.number, STATES[trial.state.name]),
            *(format_label(trial.user_attrs["labels"][name]) for name in names),
            *(trial.user_attrs.get("results", {}).get(name) for name in measures),
        ]
        for trial in trials
    ]
    blocks.append(TableBlock("Trials", [*columns, *map(TableColumn, measures)], rows))
    return Section("The search", blocks)


def _coordinates(complete: list[FrozenTrial], objective: str, best: FrozenTrial | None) -> Chart:
    """Return the parallel coordinates of the complete trials."""
    number = None if best is None else best.number
    groups = {
        "other trials": [trial for trial in complete if trial.number != number],
        "best": [trial for trial in complete if trial.number == number],
    }
    values = [trial.value for trial in complete if trial.value is not None]
    ends = min(values), max(values)
    series = [
        replace(_lines(name, trials[:MOST], objective, ends), faint=name != "best", colour=colour)
        for (name, trials), colour in zip(groups.items(), (None, 1), strict=True)
        if trials
    ]
    axes = [ChartAxis("", names=[*complete[0].params, objective])]
    return Chart("Trials, axis by axis", axes, ChartAxis("position in the range"), series, note=NOTE)


def _lines(
    name: str, trials: Iterable[FrozenTrial], objective: str, ends: tuple[float, float]
) -> ChartSeries:
    """Return trials as one line that runs to and fro, so that a group has one name and colour."""
    x: list[float] = []
    y: list[float] = []
    texts: list[str] = []
    for trial in trials:
        value, labels = trial.value or 0.0, {**trial.user_attrs["labels"], objective: trial.value}
        places = [_place(trial.params[axis], about) for axis, about in trial.distributions.items()]
        places.append((value - ends[0]) / (ends[1] - ends[0]) if ends[1] > ends[0] else 0.5)
        order = [*range(len(places)), *reversed(range(len(places)))]
        words = [f"trial {trial.number}: {axis} {format_label(label)}" for axis, label in labels.items()]
        x += map(float, order)
        y += [places[n] for n in order]
        texts += [words[n] for n in order]
    return ChartSeries(name, [x], y, texts=texts)


def _place(value: Any, axis: Any) -> float:
    """Return the position of a parameter in its range (a distribution of Optuna), from 0 to 1."""
    if hasattr(axis, "choices"):
        return float(value / max(len(axis.choices) - 1, 1))
    low, high = (math.log(end) if axis.log else end for end in (axis.low, axis.high))
    place = math.log(value) if axis.log else value
    return float((place - low) / (high - low)) if high > low else 0.5
