"""The study of PDC-FRS on MovieLens-1M and Amazon Office, compared with the paper, and the leakage of contributions.

python -m analysis.pdc_frs --data ../shared/data --out study/

The report has the figures, and claims beyond the order of rows, also about contributed data.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from analysis.papers import comparison
from analysis.papers.comparison import LAST, experiment_name, reported_score
from analysis.papers.document import DocumentBlock, GridRow
from analysis.papers.figures import PaperFigure, drawable_figures, leakage_figure, sweep_figure, table_curves
from analysis.papers.report import PaperReport, format_mean, setting_tables, summary_cells
from analysis.papers.study import PaperStudyFile, StudyCommand
from analysis.papers.verdict import Runs

STUDY = PaperStudyFile(Path(__file__).with_name("pdc_frs") / "study.yaml")
PAPER = comparison.load_comparison(STUDY)
SETTINGS, TABLE_ROWS, ARMS = PAPER.settings, PAPER.rows, STUDY.plan["arms"]
WEIGHTS: dict[str, dict[float, str]] = ARMS["weights"]
"""Method by the paper's letter of an option and its value."""
LEAKAGE = PAPER.leakage


def methods_by_epsilon(setting: str) -> dict[str, dict[float, str]]:
    """Return the methods of a setting by similarity and budget of an item."""
    found: dict[str, dict[float, str]] = ARMS["epsilon"][setting]
    return found


@cache
def paper_figures() -> dict[str, PaperFigure]:
    """Return the figures by name, setting by setting."""
    found: dict[str, PaperFigure] = {}
    for setting in SETTINGS:
        by_epsilon = methods_by_epsilon(setting)
        sweeps = {
            f"{option}-{setting}": sweep_figure(
                PAPER,
                setting,
                f"PDC-FRS over {option}, the {words}, {setting}; also FedNCF, and orders without training.",
                option,
                by_epsilon if option == "epsilon" else {"PDC-FRS": WEIGHTS[option]},
                columns=tuple(PAPER.metrics),
                levels={"FedNCF": "fedncf"},
            )
            for option, words in STUDY.plan["labels"].items()
        }
        found[f"table1-{setting}"] = table_curves(PAPER, setting, PAPER.main_table(setting))
        found[f"epsilon-{setting}"] = sweeps.pop(f"epsilon-{setting}")
        found[f"leaks-{setting}"] = leakage_figure(
            PAPER,
            setting,
            f"Leakage of contributed data and of the auxiliary model over epsilon, {setting}: communities (CDA) and "
            "items of users (MIA); for comparison the values without them, by guessing or popularity.",
            "epsilon",
            by_epsilon,
            reference=lambda column: column.partition(", ")[2],
            look={"n_columns": 3},
        )
        found |= sweeps
    return drawable_figures(found, STUDY.experiments)


def leakage_tables(runs: Runs) -> Iterator[DocumentBlock]:
    """Yield, per setting, utility and leakage by similarity and budget."""
    rows = {setting: _leakage_rows(runs, setting) for setting in SETTINGS}
    titles = ("similarity", "epsilon", *PAPER.metrics, *LEAKAGE.columns)
    yield from setting_tables("Leakage of uploads", "leaks", LEAKAGE.about, titles, rows, 2)


def _leakage_rows(runs: Runs, setting: str) -> Iterator[GridRow]:
    """Yield the numbers of the reference, which contributes nothing, and of each similarity by budget."""
    methods = [("none: FedNCF", "–", PAPER.rows[PAPER.main][PAPER.reference])]
    methods += [
        (similarity, f"{epsilon:g}", method)
        for similarity, own in methods_by_epsilon(setting).items()
        for epsilon, method in own.items()
    ]
    for similarity, epsilon, method in methods:
        name = experiment_name(setting, method)
        if name in runs:
            scores = (reported_score(PAPER, runs, name, column, LAST) for column in PAPER.metrics)
            utility = map(format_mean, scores)
            yield [similarity, epsilon, *utility, *summary_cells(LEAKAGE, runs, name)]


REPORT = PaperReport(STUDY, PAPER, paper_figures(), leakage_tables, PAPER.setting_of)

if __name__ == "__main__":
    StudyCommand(STUDY, comparison.selectable_names(STUDY), REPORT).main()
