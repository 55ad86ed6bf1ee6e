"""The figures of the study: curves by epoch with the print marked, exposure, sensitivity, and how item vectors lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis.cl4fedrec import uniformity
from analysis.cl4fedrec.curves import LAST, LEVELS, METRICS, level, over_seeds, score
from analysis.cl4fedrec.drawing import Drawing, Line, line_of
from analysis.cl4fedrec.experiments import (
    ATTACKS,
    SETTINGS,
    STEPS,
    STEPS_ATTACKED,
    SYNTHETIC_USERS,
    TABLE_ROWS,
    experiments,
    exposures,
    name_of,
)
from analysis.cl4fedrec.published import printed, titles
from analysis.papers.seeds import Runs, mean
from gossiprec.figures.panels import Axis

N_BINS = 40
MAIN = "table2"
"""The table whose methods the others take up."""
EPOCH = Axis("epoch")
EXPOSURE = Axis("users shown it (%)", (-2.0, 102.0))


@cache
def drawings() -> dict[str, Drawing]:
    """Return the figures by name, setting by setting."""
    found: dict[str, Drawing] = {}
    for setting in SETTINGS:
        for table, rows in TABLE_ROWS.items():
            found[f"{table}-{setting}"] = _table_curves(setting, table, rows)
        for attack, words in ATTACKS.items():
            found[f"exposure-{attack}-{setting}"] = _exposure(setting, attack, words)
        found[f"sensitivity-users-{setting}"] = _sensitivity(
            setting, "Synthetic users", "synthetic users", SYNTHETIC_USERS, {}
        )
        found[f"sensitivity-steps-{setting}"] = _sensitivity(
            setting, "Steps of the regulariser at the end of an epoch", "steps", STEPS, STEPS_ATTACKED
        )
        found[f"uniformity-{setting}"] = _uniformity(setting)
    there = experiments()
    return {name: one for name, one in found.items() if set(one.experiments) <= there.keys()}


def _whole_epochs(axes: Axes) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))


def draw_figures(runs: Runs, folder: Path) -> dict[str, list[Path]]:
    """Draw every figure for which there are runs; return the files of each."""
    found = {name: drawing.draw(runs, folder / name) for name, drawing in drawings().items()}
    return {name: paths for name, paths in found.items() if paths}


def _by_epoch(runs: Runs, name: str, experiment: str, metric: str) -> Line:
    return line_of(name, {float(epoch): own for epoch, own in over_seeds(runs, experiment, metric).items()})


def _table_curves(setting: str, table: str, rows: Mapping[str, str]) -> Drawing:
    def panels(runs: Runs) -> dict[str, list[Line]]:
        return {column: _with_levels(runs, setting, table, column, rows) for column in METRICS}

    return Drawing(
        f"{table.replace('table', 'Table ')} by epoch ({titles()[table].lower()}), {setting}. Thin dotted: what is "
        "printed, in the colour of its method; and the orders that nobody learns.",
        setting,
        tuple(rows.values()),
        tuple(method for method in rows.values() if table == MAIN or method not in TABLE_ROWS[MAIN].values()),
        panels,
        EPOCH,
        Axis("%"),
        {"order": [*rows, *LEVELS], "dress": _whole_epochs},
    )


def _with_levels(runs: Runs, setting: str, table: str, column: str, rows: Mapping[str, str]) -> list[Line]:
    lines = [_by_epoch(runs, row, name_of(setting, method), METRICS[column]) for row, method in rows.items()]
    last = max((float(one.x[-1]) for one in lines if len(one.x)), default=1.0)
    ends = (1.0, max(last, 1.5))
    told = [
        Line(one.row, ends, (100 * one.value,) * 2, kind="print")
        for one in printed()
        if (one.table, one.column) == (table, column)
    ]
    for order in LEVELS:
        own = level(runs, setting, column, order)
        if own:
            told.append(Line(order, ends, (100 * mean(own),) * 2, kind="level"))
    return lines + told


def _exposure(setting: str, attack: str, words: str) -> Drawing:
    methods = exposures(attack)

    def panels(runs: Runs) -> dict[str, list[Line]]:
        return {
            f"ER@{k}": [
                _by_epoch(runs, name, name_of(setting, own), f"er@{k}") for name, own in methods.items()
            ]
            for k in (5, 10, 20)
        }

    return Drawing(
        f"{words}, a thousandth of the clients poison: exposure of the least popular item by epoch, {setting}. "
        "Rules and regulariser stand beside CL4FedRec; Original and CL4FedRec have none.",
        setting,
        tuple(methods.values()),
        tuple(methods.values()),
        panels,
        EPOCH,
        EXPOSURE,
        {"order": list(methods), "n_columns": 3, "dress": _whole_epochs},
    )


def _sensitivity(
    setting: str, title: str, label: str, methods: Mapping[int, str], attacked: Mapping[int, str]
) -> Drawing:
    def panels(runs: Runs) -> dict[str, list[Line]]:
        def over(column: str, own: Mapping[int, str]) -> Line:
            values = {
                float(x): score(runs, name_of(setting, method), column, LAST) for x, method in own.items()
            }
            return line_of("rCL4FedRec", values)

        found = {f"{column}, last epoch": [over(column, methods)] for column in METRICS}
        if attacked:
            found["ER@5 under A-hum, last epoch"] = [over("er@5", attacked)]
        return found

    return Drawing(
        f"{title}: rCL4FedRec at the last epoch, {setting}.",
        setting,
        (*methods.values(), *attacked.values()),
        tuple(method for method in methods.values() if method != "rcl4fedrec"),
        panels,
        Axis(label, (0.0, None)),
        Axis("%"),
        {"n_columns": 3},
    )


def _uniformity(setting: str) -> Drawing:
    rows = TABLE_ROWS["table2"]

    def panels(runs: Runs) -> dict[str, list[Line]]:
        return {row: list(_cosine_lines(runs, name_of(setting, method))) for row, method in rows.items()}

    return Drawing(
        f"How item vectors lie at the end: cosines of pairs, first seed, {setting}. A peak at 1 is a narrow cone.",
        setting,
        tuple(rows.values()),
        tuple(rows.values()),
        panels,
        Axis("cosine of two items", (-1.0, 1.0)),
        Axis("density"),
        {"n_columns": 3, "dress": lambda axes: axes.set_xticks((-1, 0, 1), ("−1", "0", "1"))},
    )


def _cosine_lines(runs: Runs, experiment: str) -> Iterator[Line]:
    kept = next((run.version for run in runs.get(experiment, {}).values()), {})
    if not kept:
        return
    edges = np.linspace(-1, 1, N_BINS + 1)
    for name, cosines in uniformity.cosines_by_group(kept["items"], kept["popularity"]).items():
        density, _ = np.histogram(cosines, bins=edges, density=True)
        yield Line(name, ((edges[:-1] + edges[1:]) / 2).tolist(), density.tolist())
