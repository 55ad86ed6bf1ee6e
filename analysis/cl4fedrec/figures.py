"""The figures of the study: curves by epoch with the print marked, exposure, sensitivity, and how item vectors lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

import numpy as np

from analysis.cl4fedrec import uniformity
from analysis.cl4fedrec.experiments import (
    ATTACKS,
    PAPER,
    SETTINGS,
    STEPS,
    STEPS_ATTACKED,
    SYNTHETIC_USERS,
    TABLE_ROWS,
    experiments,
    exposures,
)
from analysis.papers.comparison import LAST, name_of
from analysis.papers.curve_figures import EPOCH, by_epoch, drawable, over_option, table_curves, whole_epochs
from analysis.papers.drawing import Drawing, Line
from analysis.papers.seeds import Runs
from gossiprec.figures.panels import Axis

N_BINS = 40
EXPOSURE = Axis("users shown it (%)", (-2.0, 102.0))


@cache
def drawings() -> dict[str, Drawing]:
    """Return the figures by name, setting by setting."""
    found: dict[str, Drawing] = {}
    for setting in SETTINGS:
        for table in TABLE_ROWS:
            found[f"{table}-{setting}"] = table_curves(PAPER, setting, table)
        for attack, words in ATTACKS.items():
            found[f"exposure-{attack}-{setting}"] = _exposure(setting, attack, words)
        found[f"sensitivity-users-{setting}"] = _sensitivity(
            setting, "Synthetic users", "synthetic users", SYNTHETIC_USERS, {}
        )
        found[f"sensitivity-steps-{setting}"] = _sensitivity(
            setting, "Steps of the regulariser at the end of an epoch", "steps", STEPS, STEPS_ATTACKED
        )
        found[f"uniformity-{setting}"] = _uniformity(setting)
    return drawable(found, experiments())


def _exposure(setting: str, attack: str, words: str) -> Drawing:
    methods = exposures(attack)

    def panels(runs: Runs) -> dict[str, list[Line]]:
        return {
            f"ER@{k}": [
                by_epoch(runs, name, name_of(setting, own), f"er@{k}") for name, own in methods.items()
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
        {"order": list(methods), "n_columns": 3, "dress": whole_epochs},
    )


def _sensitivity(
    setting: str, title: str, label: str, methods: Mapping[float, str], attacked: Mapping[float, str]
) -> Drawing:
    def panels(runs: Runs) -> dict[str, list[Line]]:
        def over(column: str, own: Mapping[float, str]) -> Line:
            return over_option(PAPER, runs, setting, column, LAST, "rCL4FedRec", own)

        found = {f"{column}, last epoch": [over(column, methods)] for column in PAPER.metrics}
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
