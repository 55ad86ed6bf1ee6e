"""The leakage of user uploads, as numbers of runs and as a table with utility."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from analysis.fedcl.plan import PAPER, SETTINGS, methods_with_uploads
from analysis.papers.comparison import LAST, experiment_name
from analysis.papers.curves import reported_score
from analysis.papers.document import DocumentBlock, Grid, GridCell, GridColumn, Heading, ParagraphBlock
from analysis.papers.tables import format_mean
from analysis.papers.verdict import PerSeed, Runs

_LIKELIEST, _GUESSED = ("told_vectors", "leaks", "likeliest"), ("told_vectors", "leaks", "random")
COLUMNS = {
    "told, times": ("told_vectors", "received_mean"),
    "epsilon spent": ("privacy", "epsilon_max"),
    "re-identified": (*_LIKELIEST, "reidentified"),
    "guessing": (*_GUESSED, "reidentified"),
    "own vector first": (*_LIKELIEST, "own_first"),
    "of means": (*_LIKELIEST, "own_first_of_means"),
    "first, guessing": (*_GUESSED, "own_first"),
    "CDA": (*_LIKELIEST, "cda"),
    "CDA of means": (*_LIKELIEST, "cda_of_means"),
    "CDA, no noise": ("told_vectors", "leaks", "exact", "cda"),
    "CDA, guessing": (*_GUESSED, "cda"),
}
"""Keys of each column's number in ``summary.json``."""
DIGITS = {"told, times": 1, "epsilon spent": 0}
"""Number of decimals, if it is not four."""
UTILITY = ("HR@10", "nDCG@10")
_ABOUT = (
    "Utility at the last round beside what the coordinator learns of users by the vectors that they tell. *Told, "
    "times*: by a user, the mean. *Epsilon spent*: over all that a user told, the most of anybody. *Re-identified*: "
    "how often what a user told last fits best what it told before. *Own vector first*: how often what a user told "
    "last, or the mean of all that it told, fits its vector without noise best. *CDA*: accuracy of the 50 told vectors "
    "that fit a made-up user with a user's items best, as guesses at the 50 most similar users; of the last ones, of "
    "means, and of vectors without noise. What fits is judged by how much likelier a vector is than by the mean of "
    "all (docs/recommenders.md). Nobody has published these."
)


def leakage_number(runs: Runs, experiment: str, column: str) -> PerSeed:
    """Return a number of user uploads, by seed, for runs that report it."""
    found = {
        seed: _below(run.summary or {}, COLUMNS[column]) for seed, run in runs.get(experiment, {}).items()
    }
    return {seed: float(value) for seed, value in found.items() if value is not None}


def _below(summary: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    value: Any = summary
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def leakage_tables(runs: Runs) -> Iterator[DocumentBlock]:
    """Yield, per setting, utility and leakage by model and budget."""
    found = {setting: list(_rows(runs, setting)) for setting in SETTINGS}
    if not any(found.values()):
        return
    yield Heading(2, "Leakage of uploads", "leaks")
    yield ParagraphBlock(_ABOUT)
    titles = ("method", *UTILITY, *COLUMNS)
    for setting, rows in found.items():
        if rows:
            yield Heading(3, f"Setting {setting}", f"leaks-{setting}")
            yield Grid(f"Leakage of uploads, {setting}", [GridColumn(title) for title in titles], rows)


def _rows(runs: Runs, setting: str) -> Iterator[list[GridCell]]:
    for words, method in methods_with_uploads(setting).items():
        name = experiment_name(setting, method)
        if leakage_number(runs, name, "told, times"):
            utility = [format_mean(reported_score(PAPER, runs, name, column, LAST)) for column in UTILITY]
            numbers = [
                format_mean(leakage_number(runs, name, column), digits=DIGITS.get(column, 4))
                for column in COLUMNS
            ]
            yield [GridCell(words), *utility, *numbers]
