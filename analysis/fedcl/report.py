"""The report of the study, and claims beyond the order of rows, also about user uploads."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.fedcl import (
    EPSILON,
    LEAKAGE,
    MODELS,
    PAPER,
    PRICE,
    SETTINGS,
    STUDY,
    SWEPT,
    UTILITY,
    methods_with_uploads,
)
from analysis.fedcl.figures import paper_figures
from analysis.papers.claims import judge_claim, judge_declared, no_more_than
from analysis.papers.comparison import LAST, experiment_name
from analysis.papers.curves import reported_score
from analysis.papers.document import DocumentBlock, GridCell
from analysis.papers.report import PaperReport
from analysis.papers.sections import setting_tables
from analysis.papers.tables import format_mean
from analysis.papers.verdict import ClaimVerdict, Runs

TOLERANCE = 0.01
"""Margin over guessing that counts as none."""
_LEAKS = {
    "the last upload of a user does not match its earlier uploads": ("re-identified", "guessing"),
    "uploaded vectors do not reveal similar users (CDA)": ("CDA", "CDA, guessing"),
    "means over all uploads of a user do not reveal similar users": ("CDA of means", "CDA, guessing"),
}
"""Columns of a number and its reference, by the claim that the first does not exceed the second."""
_PRICE = (
    "Each federated row at its best validation report, next to the centralised row of the same model at its own best "
    "report. *Kept*: federated divided by centralised, in percent, here and as published; with several seeds, seed by "
    "seed. Centralised NCF is an MLP with cross-entropy; in the federated rows it is two towers. A row whose best "
    "report is its last may not have converged."
)


def judge_claims(runs: Runs) -> list[ClaimVerdict]:
    """Return the verdicts on the claims beyond the tables' orders, in both settings."""
    found = judge_declared(PAPER, runs)
    for words, columns in _LEAKS.items():
        claim = f"Not in the paper: with epsilon 4 {words} (at most {TOLERANCE} more often than guessing)"
        evidence = no_more_than(LEAKAGE, _default_uploads, columns, TOLERANCE)
        found.append(judge_claim(PAPER, claim, evidence, runs))
    return found


def _default_uploads(setting: str) -> dict[str, str]:
    """Return the methods with uploads at the default epsilon, by label."""
    others = {method for method in EPSILON.values() if method != SWEPT}
    return {label: own for label, own in methods_with_uploads(setting).items() if own not in others}


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
    yield from PRICE.tables(
        runs, UTILITY, title="Comparison with centralised training", name="central", about=_PRICE
    )
    rows = {setting: _leakage_rows(runs, setting) for setting in SETTINGS}
    titles = ("method", *UTILITY, *LEAKAGE.columns)
    yield from setting_tables("Leakage of uploads", "leaks", LEAKAGE.about, titles, rows)


def _leakage_rows(runs: Runs, setting: str) -> Iterator[list[GridCell]]:
    for label, method in methods_with_uploads(setting).items():
        name = experiment_name(setting, method)
        if LEAKAGE.values_by_seed(runs, name, "uploads per user"):
            utility = [format_mean(reported_score(PAPER, runs, name, column, LAST)) for column in UTILITY]
            yield [GridCell(label), *utility, *LEAKAGE.make_cells(runs, name)]


REPORT = PaperReport(STUDY, PAPER, paper_figures(), extra_sections, judge_claims, timing_group)
