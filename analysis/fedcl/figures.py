"""The figures of the study: curves by round with printed values, utility over options, leakage over epsilon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from math import isfinite

from analysis.fedcl.plan import (
    EPSILON,
    MODELS,
    PAPER,
    SETTINGS,
    SPREAD,
    STUDY,
    SWEEPS,
    TABLE_ROWS,
    WAYS,
    WHOLE,
)
from analysis.fedcl.user_vector_leakage import UTILITY, leakage_number
from analysis.papers.comparison import BEST, LAST, experiment_name
from analysis.papers.curves import reported_score
from analysis.papers.figures import (
    PaperFigure,
    SeedLine,
    baseline_series,
    drawable_figures,
    seed_line,
    sweep_series,
    table_curves,
)
from analysis.papers.verdict import PerSeed, Runs, mean
from gossiprec.figures.panels import Axis

WORDS = {
    "clusters": "number of clusters",
    "share": "R: fraction of the items from which semi-hard negatives are drawn (%)",
    "semi-hard": "T: semi-hard negatives",
    "local": "K: local negatives",
    "epsilon": "epsilon of an uploaded vector",
    "spread": "weight of what spreads items out",
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
    for option, methods in SWEEPS.items():
        found[f"{option}-beauty"] = _sweep(option, WHOLE, methods)
    found["epsilon-beauty"] = _sweep("epsilon", WHOLE, _finite(EPSILON))
    found["spread-beauty"] = _sweep("spread", "GRU4Rec+BIL", SPREAD)
    found["leaks-beauty"] = _leaks()
    return drawable_figures(found, STUDY.experiments)


def _finite(methods: Mapping[float, str]) -> dict[float, str]:
    return {value: method for value, method in methods.items() if isfinite(value)}


def _of_model(setting: str, model: str) -> PaperFigure:
    """Return the federated rows of a model by round, with the best value of its centralised row as a level."""
    table = PAPER.main_in(setting)
    some = {row: method for row, method in TABLE_ROWS[table].items() if row.startswith(f"{model}+")}
    drawing, words = table_curves(PAPER, setting, table, some), f"{model}, centralised"

    def panels(runs: Runs) -> dict[str, list[SeedLine]]:
        found = {column: list(lines) for column, lines in drawing.panels(runs).items()}
        for column, lines in found.items():
            own = reported_score(PAPER, runs, experiment_name(setting, MODELS[model]), column, BEST)
            ends = max((one.x[-1] for one in lines if len(one.x)), default=1.5)
            if own:
                lines.append(SeedLine(words, (1.0, ends), (100 * mean(own),) * 2, kind="level"))
        return found

    caption = f"{drawing.caption} Centralised {model} at its best validation report stands beside them."
    return replace(
        drawing,
        caption=caption,
        panels=panels,
        look={"order": [*some, words, *drawing.look["order"][len(WAYS) :]]},
    )


def _sweep(option: str, name: str, methods: Mapping[float, str]) -> PaperFigure:
    """Return utility over the values of an option, at the last round and at the best report."""
    ends = (min(methods), max(methods))

    def panels(runs: Runs) -> dict[str, list[SeedLine]]:
        return {
            f"{column}, {look}": [
                sweep_series(PAPER, runs, "beauty", column, look, name, methods),
                *baseline_series(PAPER, runs, "beauty", column, ends),
            ]
            for look in (LAST, BEST)
            for column in UTILITY
        }

    rows = [*TABLE_ROWS["table2"].values(), *TABLE_ROWS["ablations"].values()]
    return PaperFigure(
        f"{name} over the {WORDS[option]}, beauty; beside it the orders that need no training.",
        "beauty",
        tuple(methods.values()),
        tuple(method for method in methods.values() if method not in rows),
        panels,
        Axis(WORDS[option], (0.0, None)),
        Axis("%"),
    )


def _leaks() -> PaperFigure:
    """Return the leakage of user uploads over epsilon."""
    methods = _finite(EPSILON)
    ends = (min(methods), max(methods))

    def of(runs: Runs, method: str, column: str) -> PerSeed:
        return leakage_number(runs, experiment_name("beauty", method), column)

    def level(name: str, own: PerSeed) -> list[SeedLine]:
        return [SeedLine(name, ends, (100 * mean(own),) * 2, kind="level")] if own else []

    def panels(runs: Runs) -> dict[str, list[SeedLine]]:
        found = {}
        for title, (column, guess) in LEAKS.items():
            lines = [seed_line(WHOLE, {x: of(runs, method, column) for x, method in methods.items()})]
            lines += level(NO_NOISE, of(runs, "no-noise", column))
            known = [of(runs, method, guess) for method in EPSILON.values()]
            lines += level("guessing", next((own for own in known if own), {}))
            found[title] = lines
        return found

    return PaperFigure(
        "Leakage of uploaded vectors over epsilon, beauty: their users, by last vectors and by means over all uploads, "
        "and similar users (CDA); for comparison without noise, and guessing.",
        "beauty",
        tuple(EPSILON.values()),
        tuple(EPSILON.values()),
        panels,
        Axis(WORDS["epsilon"], (0.0, None)),
        Axis("%", (0.0, 102.0)),
        {"n_columns": 3, "order": [WHOLE, NO_NOISE, "guessing"]},
    )
