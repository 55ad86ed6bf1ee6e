"""The study of FedCL on Amazon Beauty and MovieLens-1M, compared with the paper, and the leakage of user uploads.

python -m analysis.fedcl --data ../shared/data --out study/

The report has the figures, and claims beyond the order of rows, also about user uploads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from math import inf, isfinite
from pathlib import Path

from analysis.papers import comparison, figures, report
from analysis.papers.comparison import experiment_name
from analysis.papers.document import DocumentBlock
from analysis.papers.study import PaperStudyFile, StudyCommand
from analysis.papers.verdict import Runs

STUDY = PaperStudyFile(Path(__file__).with_name("fedcl") / "study.yaml")
PAPER = comparison.load_comparison(STUDY)
SETTINGS, TABLE_ROWS, ARMS = PAPER.settings, PAPER.rows, STUDY.plan["arms"]
MODELS = ARMS["models"]
WHOLE, SWEPT = "GRU4Rec+FedCL", "gru4rec-fedcl"
"""The row and the method with swept options, on Beauty."""
ABLATIONS = {row: method for row, method in TABLE_ROWS["ablations"].items() if row != WHOLE}
"""Method by the part that is left out or replaced."""
SWEEPS: dict[str, dict[float, str]] = ARMS["sweeps"]
"""Method by option of FedCL and its value, for GRU4Rec on Beauty."""
BEST_VALUES: dict[str, float] = ARMS["best_values"]
"""The best values according to the paper."""
EPSILON: dict[float, str] = ARMS["epsilon"]
"""Method by budget of a user upload."""
SPREAD: dict[float, str] = ARMS["spread"]
"""Method by weight of the term of BIL that spreads items out."""
UTILITY = ("HR@10", "nDCG@10")
"""The metrics shown next to leakage and to centralised training."""


def methods_with_uploads(setting: str) -> dict[str, str]:
    """Return the methods of a setting in which clients upload vectors, by label."""
    found = {f"{model}+FedCL": f"{own}-fedcl" for model, own in MODELS.items()}
    if setting == "beauty":
        found |= {f"{WHOLE}, {_budget(value)}": own for value, own in EPSILON.items() if own != SWEPT}
    return found


PRICE = report.FederationPrice(PAPER, **STUDY.plan["federation"])


def _budget(epsilon: float) -> str:
    return "no noise" if epsilon == inf else f"epsilon {epsilon:g}"


@cache
def paper_figures() -> dict[str, figures.PaperFigure]:
    """Return the figures by name, setting by setting."""
    found: dict[str, figures.PaperFigure] = {}
    for setting in SETTINGS:
        for model in MODELS:
            found[f"{MODELS[model]}-{setting}"] = _of_model(setting, model)
    found["ablations-beauty"] = figures.table_curves(PAPER, "beauty", "ablations")
    epsilon = {value: method for value, method in EPSILON.items() if isfinite(value)}
    for option, methods in {**SWEEPS, "epsilon": epsilon}.items():
        found[f"{option}-beauty"] = _sweep(option, WHOLE, methods)
    found["spread-beauty"] = _sweep("spread", "GRU4Rec+BIL", SPREAD)
    found["leaks-beauty"] = figures.leakage_figure(
        PAPER,
        "beauty",
        "Leakage of uploaded vectors over epsilon, beauty: re-identified users, by last vectors and by means over all "
        "uploads, and similar users (CDA); for comparison without noise, and guessing.",
        STUDY.plan["labels"]["epsilon"],
        {WHOLE: epsilon},
        levels={"no noise": "no-noise"},
        reference=lambda column: "guessing",
        look={"n_columns": 3, "order": [WHOLE, "no noise", "guessing"]},
    )
    return figures.drawable_figures(found, STUDY.experiments)


def _of_model(setting: str, model: str) -> figures.PaperFigure:
    """Return the federated rows of a model by round, with the best value of its centralised row as a level."""
    table, central = PAPER.main_table(setting), experiment_name(setting, MODELS[model])
    some = {row: method for row, method in TABLE_ROWS[table].items() if row.startswith(f"{model}+")}
    best = {f"{model}, centralised": central}
    drawing = figures.table_curves(PAPER, setting, table, some, best)
    caption = f"{drawing.caption} Level line: centralised {model} at its best validation report."
    return replace(drawing, caption=caption, look={"order": [*some, *best, *comparison.LEVELS]})


def _sweep(option: str, name: str, methods: Mapping[float, str]) -> figures.PaperFigure:
    """Return utility over the values of an option, at the last round and at the best report."""
    words = STUDY.plan["labels"][option]
    caption = f"{name} over the {words}, beauty; for comparison orders without training."
    return figures.sweep_figure(PAPER, "beauty", caption, words, {name: methods}, columns=UTILITY)


def timing_group(experiment: str) -> str:
    """Return the group of a run in the table of times."""
    setting = PAPER.setting_of(experiment)
    method = experiment.removeprefix(f"{setting}-")
    if PAPER.has_other_epochs(experiment):
        return f"{setting}, {method} centralised"
    model = method.partition("-")[0]
    return f"{setting}, {model if model in MODELS.values() else 'gru4rec'} federated"


def extra_sections(runs: Runs) -> Iterator[DocumentBlock]:
    """Yield the sections between figures and times."""
    yield from PRICE.tables(runs)
    yield from report.leakage_tables(
        PAPER, runs, ("method",), UTILITY, lambda setting: methods_with_uploads(setting).items()
    )


REPORT = report.PaperReport(STUDY, PAPER, paper_figures(), extra_sections, timing_group)

if __name__ == "__main__":
    StudyCommand(STUDY, comparison.selectable_names(STUDY), REPORT).main()
