"""The figures of the study: curves by round with printed values, utility over options, leakage over epsilon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from math import isfinite

from analysis.fedcl import (
    EPSILON,
    LEAKAGE,
    MODELS,
    PAPER,
    SETTINGS,
    SPREAD,
    STUDY,
    SWEEPS,
    TABLE_ROWS,
    UTILITY,
    WAYS,
    WHOLE,
)
from analysis.papers.comparison import BEST, experiment_name
from analysis.papers.curves import reported_score
from analysis.papers.figures import (
    LeakageFigure,
    PaperFigure,
    SweepFigures,
    drawable_figures,
    table_curves,
    with_levels,
)
from analysis.papers.verdict import PerSeed, Runs

WORDS = {
    "clusters": "number of clusters",
    "share": "R: fraction of the items from which semi-hard negatives are drawn (%)",
    "semi-hard": "T: semi-hard negatives",
    "local": "K: local negatives",
    "epsilon": "epsilon of an uploaded vector",
    "spread": "weight of the term that spreads items out",
}
LEAKS = {
    "re-identified": ("re-identified", "guessing"),
    "own vector first": ("own vector first", "first, guessing"),
    "own vector first, means": ("of means", "first, guessing"),
    "CDA": ("CDA", "CDA, guessing"),
    "CDA, means": ("CDA of means", "CDA, guessing"),
}
"""The number shown in each panel, and its value for guessing."""
NO_NOISE = "no noise"


@cache
def paper_figures() -> dict[str, PaperFigure]:
    """Return the figures by name, setting by setting."""
    found: dict[str, PaperFigure] = {}
    for setting in SETTINGS:
        for model in MODELS:
            found[f"{MODELS[model]}-{setting}"] = _of_model(setting, model)
    found["ablations-beauty"] = table_curves(PAPER, "beauty", "ablations")
    epsilon = {value: method for value, method in EPSILON.items() if isfinite(value)}
    for option, methods in {**SWEEPS, "epsilon": epsilon}.items():
        found[f"{option}-beauty"] = _sweep(option, WHOLE, methods)
    found["spread-beauty"] = _sweep("spread", "GRU4Rec+BIL", SPREAD)
    levels, look = {NO_NOISE: "no-noise"}, {"n_columns": 3, "order": [WHOLE, NO_NOISE, "guessing"]}
    found["leaks-beauty"] = LeakageFigure(
        LEAKAGE, LEAKS, {WHOLE: epsilon}, levels, lambda column: "guessing"
    ).make_figure(
        "beauty",
        "Leakage of uploaded vectors over epsilon, beauty: re-identified users, by last vectors and by means over all "
        "uploads, and similar users (CDA); for comparison without noise, and guessing.",
        WORDS["epsilon"],
        look,
    )
    return drawable_figures(found, STUDY.experiments)


def _of_model(setting: str, model: str) -> PaperFigure:
    """Return the federated rows of a model by round, with the best value of its centralised row as a level."""
    table, words = PAPER.main_table(setting), f"{model}, centralised"
    some = {row: method for row, method in TABLE_ROWS[table].items() if row.startswith(f"{model}+")}

    def levels(runs: Runs, column: str) -> dict[str, PerSeed]:
        return {words: reported_score(PAPER, runs, experiment_name(setting, MODELS[model]), column, BEST)}

    drawing = with_levels(table_curves(PAPER, setting, table, some), levels)
    caption = f"{drawing.caption} Level line: centralised {model} at its best validation report."
    look = {"order": [*some, words, *drawing.look["order"][len(WAYS) :]]}
    return replace(drawing, caption=caption, look=look)


def _sweep(option: str, name: str, methods: Mapping[float, str]) -> PaperFigure:
    """Return utility over the values of an option, at the last round and at the best report."""
    drawn = [*TABLE_ROWS["table2"].values(), *TABLE_ROWS["ablations"].values()]
    caption = f"{name} over the {WORDS[option]}, beauty; for comparison orders without training."
    return SweepFigures(PAPER, UTILITY, drawn).make_figure("beauty", caption, WORDS[option], {name: methods})
