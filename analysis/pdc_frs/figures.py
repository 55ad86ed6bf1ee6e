"""The figures of the study: curves by epoch with printed values, utility over options, leakage over epsilon."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

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
from analysis.papers.verdict import Runs, mean
from analysis.pdc_frs.contribution_leakage import leakage_number
from analysis.pdc_frs.plan import PAPER, ROWS, SETTINGS, STUDY, WEIGHTS, methods_by_epsilon
from gossiprec.figures.panels import Axis

WORDS = {"epsilon": "budget of a contributed item", "alpha": "items with soft labels", "lambda": "weight of the users' "
    "contrastive loss", "beta": "weight of the items' contrastive loss"}  # fmt: skip
LEAKS = {
    "kept": ("kept", ""),
    "CDA, contributed sets": ("CDA, contributed", "CDA, guessing"),
    "CDA, auxiliary model": ("CDA, auxiliary", "CDA, guessing"),
    "MIA (AUC), contributed sets": ("MIA, contributed", "MIA, popularity"),
    "MIA (AUC), auxiliary model": ("MIA, auxiliary", "MIA, popularity"),
}
"""The number shown in each panel, and its value without the contribution."""


@cache
def paper_figures() -> dict[str, PaperFigure]:
    """Return the figures by name, setting by setting."""
    found: dict[str, PaperFigure] = {}
    for setting in SETTINGS:
        found[f"table1-{setting}"] = table_curves(PAPER, setting, PAPER.main_in(setting))
        found[f"epsilon-{setting}"] = _sweep(setting, "epsilon", methods_by_epsilon(setting))
        found[f"leaks-{setting}"] = _leaks(setting)
        for letter, methods in WEIGHTS.items():
            found[f"{letter}-{setting}"] = _sweep(setting, letter, {"PDC-FRS": methods})
    return drawable_figures(found, STUDY.experiments)


def _sweep(setting: str, letter: str, lines: Mapping[str, Mapping[float, str]]) -> PaperFigure:
    """Return utility over the values of an option, at the last epoch and at the best."""
    methods = tuple(method for own in lines.values() for method in own.values())
    ends = (min(min(own) for own in lines.values()), max(max(own) for own in lines.values()))

    def panels(runs: Runs) -> dict[str, list[SeedLine]]:
        return {
            f"{column}, {look}": [
                *(sweep_series(PAPER, runs, setting, column, look, name, own) for name, own in lines.items()),
                *_fedncf(runs, setting, column, look, ends),
                *baseline_series(PAPER, runs, setting, column, ends),
            ]
            for look in (LAST, BEST)
            for column in PAPER.metrics
        }

    return PaperFigure(
        f"PDC-FRS over {letter}, the {WORDS[letter]}, {setting}; also FedNCF, and orders without training.",
        setting,
        methods,
        tuple(method for method in methods if method not in ROWS.values()),
        panels,
        Axis(letter, (0.0, None)),
        Axis("%"),
    )


def _fedncf(runs: Runs, setting: str, column: str, look: str, ends: tuple[float, float]) -> list[SeedLine]:
    own = reported_score(PAPER, runs, experiment_name(setting, "fedncf"), column, look)
    return [SeedLine("FedNCF", ends, (100 * mean(own),) * 2, kind="level")] if own else []


def _leaks(setting: str) -> PaperFigure:
    """Return the leakage over epsilon, by similarity."""
    lines = methods_by_epsilon(setting)
    methods = tuple(method for own in lines.values() for method in own.values())

    def over(runs: Runs, name: str, own: Mapping[float, str], column: str) -> SeedLine:
        return seed_line(
            name,
            {x: leakage_number(runs, experiment_name(setting, method), column) for x, method in own.items()},
        )

    def panels(runs: Runs) -> dict[str, list[SeedLine]]:
        found = {}
        for title, (column, without) in LEAKS.items():
            found[title] = [over(runs, name, own, column) for name, own in lines.items()]
            if without:
                found[title].append(_known_without(runs, setting, without))
        return found

    return PaperFigure(
        f"What contributed data and the auxiliary model give away over epsilon, {setting}: communities (CDA) and who "
        "has what (MIA); beside it what is known without them: guessing, or popularity.",
        setting,
        methods,
        methods,
        panels,
        Axis("epsilon", (0.0, None)),
        Axis("%", (0.0, 102.0)),
        {"n_columns": 3},
    )


def _known_without(runs: Runs, setting: str, column: str) -> SeedLine:
    """Return a number that is equal for all budgets as a line, from the first run of each seed that reports it."""
    own: dict[int, float] = {}
    for methods in methods_by_epsilon(setting).values():
        for method in methods.values():
            own = {**leakage_number(runs, experiment_name(setting, method), column), **own}
    name = column.partition(", ")[2]
    return SeedLine(name, (1, 30), (100 * mean(own),) * 2, kind="level") if own else SeedLine(name, (), ())
