"""The figures of the study: curves by epoch with printed values, exposure, sensitivity, and item vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

import numpy as np

from analysis.cl4fedrec import (
    ATTACKS,
    PAPER,
    SETTINGS,
    STEPS,
    STEPS_ATTACKED,
    STUDY,
    SYNTHETIC_USERS,
    TABLE_ROWS,
    defence_methods,
    uniformity,
)
from analysis.papers.comparison import LAST, experiment_name
from analysis.papers.figures import (
    PaperFigure,
    SeedLine,
    drawable_figures,
    method_curves,
    sweep_series,
    table_curves,
)
from analysis.papers.verdict import Runs
from gossiprec.figures.panels import Axis

N_BINS = 40
EXPOSURE = Axis("users shown it (%)", (-2.0, 102.0))


@cache
def paper_figures() -> dict[str, PaperFigure]:
    """Return the figures by name, setting by setting."""
    found: dict[str, PaperFigure] = {}
    for setting in SETTINGS:
        for table in TABLE_ROWS:
            found[f"{table}-{setting}"] = table_curves(PAPER, setting, table)
        for attack, words in ATTACKS.items():
            methods = defence_methods(attack)
            found[f"exposure-{attack}-{setting}"] = method_curves(
                setting,
                f"{words}, a thousandth of the clients poison: exposure of the least popular item by epoch, {setting}. "
                "Rules and regulariser are combined with CL4FedRec; Original and CL4FedRec have no defence.",
                methods,
                {f"ER@{k}": f"er@{k}" for k in (5, 10, 20)},
                EXPOSURE,
                order=list(methods),
                n_columns=3,
            )
        found[f"sensitivity-users-{setting}"] = _sensitivity(
            setting, "Synthetic users", "synthetic users", SYNTHETIC_USERS, {}
        )
        found[f"sensitivity-steps-{setting}"] = _sensitivity(
            setting, "Steps of the regulariser at the end of an epoch", "steps", STEPS, STEPS_ATTACKED
        )
        found[f"uniformity-{setting}"] = _uniformity(setting)
    return drawable_figures(found, STUDY.experiments)


def _sensitivity(
    setting: str, title: str, label: str, methods: Mapping[float, str], attacked: Mapping[float, str]
) -> PaperFigure:
    def panels(runs: Runs) -> dict[str, list[SeedLine]]:
        def over(column: str, own: Mapping[float, str]) -> SeedLine:
            return sweep_series(PAPER, runs, setting, column, LAST, "rCL4FedRec", own)

        found = {f"{column}, last epoch": [over(column, methods)] for column in PAPER.metrics}
        if attacked:
            found["ER@5 under A-hum, last epoch"] = [over("er@5", attacked)]
        return found

    return PaperFigure(
        f"{title}: rCL4FedRec at the last epoch, {setting}.",
        setting,
        (*methods.values(), *attacked.values()),
        tuple(method for method in methods.values() if method != "rcl4fedrec"),
        panels,
        Axis(label, (0.0, None)),
        Axis("%"),
        {"n_columns": 3},
    )


def _uniformity(setting: str) -> PaperFigure:
    rows = TABLE_ROWS["table2"]

    def panels(runs: Runs) -> dict[str, list[SeedLine]]:
        return {
            row: list(_cosine_lines(runs, experiment_name(setting, method))) for row, method in rows.items()
        }

    return PaperFigure(
        f"Item vectors at the end: cosines of pairs, first seed, {setting}. A peak at 1 is a narrow cone.",
        setting,
        tuple(rows.values()),
        tuple(rows.values()),
        panels,
        Axis("cosine of two items", (-1.0, 1.0)),
        Axis("density"),
        {"n_columns": 3, "dress": lambda axes: axes.set_xticks((-1, 0, 1), ("−1", "0", "1"))},
    )


def _cosine_lines(runs: Runs, experiment: str) -> Iterator[SeedLine]:
    kept = next((run.version for run in runs.get(experiment, {}).values()), {})
    if not kept:
        return
    edges = np.linspace(-1, 1, N_BINS + 1)
    for name, cosines in uniformity.cosines_by_group(kept["items"], kept["popularity"]).items():
        density, _ = np.histogram(cosines, bins=edges, density=True)
        yield SeedLine(name, ((edges[:-1] + edges[1:]) / 2).tolist(), density.tolist())
