"""The leakage of contributed data and the auxiliary model, as numbers of runs and as a table with utility."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from analysis.papers.comparison import LAST, experiment_name
from analysis.papers.curves import reported_score
from analysis.papers.document import DocumentBlock, Grid, GridCell, GridColumn, Heading, ParagraphBlock
from analysis.papers.tables import format_mean
from analysis.papers.verdict import PerSeed, Runs
from analysis.pdc_frs.plan import PAPER, SETTINGS, methods_by_epsilon

COLUMNS = {
    "kept": ("kept",),
    "budget of a user": ("epsilon_set_mean",),
    "CDA, contributed": ("leaks", "cda"),
    "CDA, auxiliary": ("leaks", "auxiliary_cda"),
    "CDA, guessing": ("leaks", "cda_random"),
    "MIA, contributed": ("leaks", "mia_auc"),
    "MIA, auxiliary": ("leaks", "auxiliary_mia_auc"),
    "MIA, popularity": ("leaks", "mia_auc_popularity"),
}
"""Keys of each column's number below ``contribution`` in ``summary.json``."""
DIGITS = {"budget of a user": 1}
"""Number of decimals, if it is not four."""
_ABOUT = (
    "Recall@20 and NDCG@20 at the last epoch beside what the coordinator learns of users. *Kept*: share of "
    "training items that were contributed as they are. *Budget of a user*: epsilon times its items, the mean. "
    "*CDA*: accuracy of the 50 most similar contributed sets, or of the 50 users whom the auxiliary model scores "
    "highest on a user's items, as guesses at the 50 most similar users. *MIA*: how often an item of a user ranks "
    "above one that the same user has not (AUC), by the posterior given the contributed set, or by the auxiliary "
    "model's score; knowing popularity alone finds that much, too. Users taken to be public count like all "
    "others."
)


def leakage_number(runs: Runs, experiment: str, column: str) -> PerSeed:
    """Return a number of the contribution, by seed, for runs that report it."""
    found = {seed: _below(run.summary or {}, column) for seed, run in runs.get(experiment, {}).items()}
    return {seed: float(value) for seed, value in found.items() if value is not None}


def _below(summary: Mapping[str, Any], column: str) -> Any:
    value: Any = summary.get("contribution")
    for key in COLUMNS[column]:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def leakage_tables(runs: Runs) -> Iterator[DocumentBlock]:
    """Yield, per setting, utility and leakage by similarity and budget."""
    found = {setting: list(_rows(runs, setting)) for setting in SETTINGS}
    if not any(found.values()):
        return
    yield Heading(2, "Leakage of uploads", "leaks")
    yield ParagraphBlock(_ABOUT)
    titles = ("similarity", "epsilon", *PAPER.metrics, *COLUMNS)
    for setting, rows in found.items():
        if rows:
            yield Heading(3, f"Setting {setting}", f"leaks-{setting}")
            yield Grid(f"Leakage of uploads, {setting}", [GridColumn(title) for title in titles], rows, 2)


def _rows(runs: Runs, setting: str) -> Iterator[list[GridCell]]:
    """Yield the utility of runs without contribution, and each similarity's numbers by budget."""
    without = experiment_name(setting, PAPER.rows[PAPER.main][PAPER.reference])
    if without in runs:
        yield _row(runs, without, "none: FedNCF", "–")
    for similarity, methods in methods_by_epsilon(setting).items():
        for epsilon, method in methods.items():
            if experiment_name(setting, method) in runs:
                yield _row(runs, experiment_name(setting, method), similarity, f"{epsilon:g}")


def _row(runs: Runs, experiment: str, similarity: str, epsilon: str) -> list[GridCell]:
    utility = [format_mean(reported_score(PAPER, runs, experiment, column, LAST)) for column in PAPER.metrics]
    return [
        GridCell(similarity),
        GridCell(epsilon),
        *utility,
        *(
            format_mean(leakage_number(runs, experiment, column), digits=DIGITS.get(column, 4))
            for column in COLUMNS
        ),
    ]
