"""The price of federation: each federated row compared with the centralised row of the same model."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.papers.comparison import BEST, experiment_name
from analysis.papers.curves import reported_epochs, reported_score
from analysis.papers.document import DocumentBlock, Grid, GridCell, GridColumn, Heading, ParagraphBlock
from analysis.papers.tables import DASH, format_mean
from analysis.papers.verdict import PerSeed, Runs, Verdict
from analysis.perfedrec_pp.plan import (
    CENTRAL,
    CENTRAL_SETTING,
    COUNTERPARTS,
    FEDERATED,
    PAPER,
    SETTINGS,
)

_ABOUT = (
    "Each federated row at its best validation epoch, beside the centralised row whose model its clients have, at "
    "its own. *Kept*: the one divided by the other, in percent, ours and of the printed numbers; with several seeds "
    "seed by seed. A row whose best epoch is its last may not have converged."
)


def utility_kept(runs: Runs, setting: str, row: str, column: str) -> PerSeed:
    """Return the utility of a federated row in percent of its centralised counterpart, by seed."""
    ours = reported_score(PAPER, runs, experiment_name(setting, FEDERATED[row]), column, BEST)
    central = central_score(runs, COUNTERPARTS[row], column)
    return {seed: 100 * value / central[seed] for seed, value in ours.items() if central.get(seed)}


def central_score(runs: Runs, row: str, column: str) -> PerSeed:
    """Return a number of a centralised row at its best validation epoch, by seed."""
    return reported_score(PAPER, runs, experiment_name(CENTRAL_SETTING, CENTRAL[row]), column, BEST)


def printed_utility_kept(row: str, column: str) -> float:
    """Return the utility kept according to the printed numbers, in percent."""
    ours, central = (PAPER.published.value_of(PAPER.main, one, column) for one in (row, COUNTERPARTS[row]))
    return 100 * ours / central


def has_converged(runs: Runs, setting: str, row: str) -> bool:
    """Return whether every seed's best validation epoch comes before its last."""
    name = experiment_name(setting, FEDERATED[row])
    best, last = (reported_epochs(PAPER, runs, name, look) for look in (BEST, PAPER.looks[0]))
    return bool(best) and all(epoch < last[seed] for seed, epoch in best.items())


def federation_cost_tables(runs: Runs) -> Iterator[DocumentBlock]:
    """Yield, per setting with runs, the utility that federated rows keep."""
    found = {setting: list(_rows(runs, setting)) for setting in SETTINGS}
    if not any(found.values()):
        return
    yield Heading(2, "The price of federation", "price")
    yield ParagraphBlock(_ABOUT)
    parts = ("federated", "centralised", "kept, %", "kept in print, %")
    columns = [
        GridColumn("row"),
        GridColumn("centralised row"),
        GridColumn("best is last"),
        *(GridColumn(c, parts) for c in PAPER.metrics),
    ]
    for setting, rows in found.items():
        if rows:
            yield Heading(3, f"Setting {setting}", f"price-{setting}")
            yield Grid(f"The price of federation, {setting}", columns, rows, 2)


def _rows(runs: Runs, setting: str) -> Iterator[list[GridCell]]:
    for row, central in COUNTERPARTS.items():
        if experiment_name(setting, FEDERATED[row]) in runs:
            said = "no" if has_converged(runs, setting, row) else "yes"
            yield [GridCell(row), GridCell(central), GridCell(said), *_numbers(runs, setting, row)]


def _numbers(runs: Runs, setting: str, row: str) -> Iterator[GridCell]:
    for column in PAPER.metrics:
        yield format_mean(reported_score(PAPER, runs, experiment_name(setting, FEDERATED[row]), column, BEST))
        yield format_mean(central_score(runs, COUNTERPARTS[row], column))
        left = utility_kept(runs, setting, row, column)
        yield format_mean(left, digits=0) if left else GridCell(DASH, kind=Verdict.NOT_RUN.word)
        yield GridCell(f"{printed_utility_kept(row, column):.0f}", kind="printed")
