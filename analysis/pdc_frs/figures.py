"""The figures of the study: curves by epoch with printed values, utility over options, leakage over epsilon."""

from __future__ import annotations

from functools import cache

from analysis.papers.figures import LeakageFigure, PaperFigure, SweepFigures, drawable_figures, table_curves
from analysis.pdc_frs import LEAKAGE, PAPER, ROWS, SETTINGS, STUDY, WEIGHTS, methods_by_epsilon

WORDS = {
    "epsilon": "budget of a contributed item",
    "alpha": "items with soft labels",
    "lambda": "weight of the users' contrastive loss",
    "beta": "weight of the items' contrastive loss",
}
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
    sweeps = SweepFigures(PAPER, tuple(PAPER.metrics), ROWS.values(), {"FedNCF": "fedncf"})
    for setting in SETTINGS:
        by_epsilon = methods_by_epsilon(setting)
        found[f"table1-{setting}"] = table_curves(PAPER, setting, PAPER.main_table(setting))
        options = {"epsilon": by_epsilon, **{letter: {"PDC-FRS": own} for letter, own in WEIGHTS.items()}}
        drawn = {
            f"{option}-{setting}": sweeps.make_figure(
                setting,
                f"PDC-FRS over {option}, the {WORDS[option]}, {setting}; also FedNCF, and orders without training.",
                option,
                lines,
            )
            for option, lines in options.items()
        }
        found[f"epsilon-{setting}"] = drawn.pop(f"epsilon-{setting}")
        found[f"leaks-{setting}"] = LeakageFigure(
            LEAKAGE, LEAKS, by_epsilon, reference=lambda column: column.partition(", ")[2]
        ).make_figure(
            setting,
            f"Leakage of contributed data and of the auxiliary model over epsilon, {setting}: communities (CDA) and "
            "items of users (MIA); for comparison the values without them, by guessing or popularity.",
            "epsilon",
            {"n_columns": 3},
        )
        found |= drawn
    return drawable_figures(found, STUDY.experiments)
