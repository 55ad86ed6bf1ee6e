"""The study of PDC-FRS on MovieLens-1M and Amazon Office, compared with the paper, and the leakage of contributions.

python -m analysis.pdc_frs --data ../shared/data --out study/

The report has the figures, and claims beyond the order of rows, also about contributed data.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from analysis.papers import comparison
from analysis.papers.document import DocumentBlock
from analysis.papers.figures import PaperFigure, drawable_figures, leakage_figure, sweep_figure, table_curves
from analysis.papers.report import PaperReport, leakage_tables
from analysis.papers.study import PaperStudyFile, StudyCommand
from analysis.papers.verdict import Runs

STUDY = PaperStudyFile(Path(__file__).with_name("pdc_frs") / "study.yaml")
PAPER = comparison.load_comparison(STUDY)
SETTINGS, TABLE_ROWS, ARMS = PAPER.settings, PAPER.rows, STUDY.plan["arms"]
WEIGHTS: dict[str, dict[float, str]] = ARMS["weights"]
"""Method by the paper's letter of an option and its value."""


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


def leakage_rows(setting: str) -> Iterator[tuple[str, str, str]]:
    """Yield the labels and the method of the reference, which contributes nothing, and of each similarity by budget."""
    yield "none: FedNCF", "–", PAPER.rows[PAPER.main][PAPER.reference]
    for similarity, own in methods_by_epsilon(setting).items():
        for epsilon, method in own.items():
            yield similarity, f"{epsilon:g}", method


def extra_sections(runs: Runs) -> Iterator[DocumentBlock]:
    """Yield, per setting, utility and leakage by similarity and budget."""
    return leakage_tables(PAPER, runs, ("similarity", "epsilon"), tuple(PAPER.metrics), leakage_rows)


REPORT = PaperReport(STUDY, PAPER, paper_figures(), extra_sections, PAPER.setting_of)

if __name__ == "__main__":
    StudyCommand(STUDY, comparison.selectable_names(STUDY), REPORT).main()
