"""The price of federation: each federated row beside the centralised one with its model, and what is left."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.papers.comparison import BEST, name_of
from analysis.papers.curves import chosen_epochs, score
from analysis.papers.document import Block, Column, Entry, Grid, Heading, Text
from analysis.papers.seeds import PerSeed, Runs
from analysis.papers.tables import DASH, measured
from analysis.papers.verdict import Verdict
from analysis.perfedrec_pp.experiments import (
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


def kept(runs: Runs, setting: str, row: str, column: str) -> PerSeed:
    """Return what a federated row keeps of its centralised counterpart, in percent, by seed."""
    ours = score(PAPER, runs, name_of(setting, FEDERATED[row]), column, BEST)
    central = central_score(runs, COUNTERPARTS[row], column)
    return {seed: 100 * value / central[seed] for seed, value in ours.items() if central.get(seed)}


def central_score(runs: Runs, row: str, column: str) -> PerSeed:
    """Return a number of a centralised row at its best validation epoch, by seed."""
    return score(PAPER, runs, name_of(CENTRAL_SETTING, CENTRAL[row]), column, BEST)


def printed_kept(row: str, column: str) -> float:
    """Return the same of the printed numbers."""
    ours, central = (PAPER.published.value_of(PAPER.main, one, column) for one in (row, COUNTERPARTS[row]))
    return 100 * ours / central


def has_converged(runs: Runs, setting: str, row: str) -> bool:
    """Say whether every seed's best validation epoch comes before its last."""
    name = name_of(setting, FEDERATED[row])
    best, last = (chosen_epochs(PAPER, runs, name, look) for look in (BEST, PAPER.looks[0]))
    return bool(best) and all(epoch < last[seed] for seed, epoch in best.items())


def price_tables(runs: Runs) -> Iterator[Block]:
    """Yield, for each setting of which there are runs, what federated rows keep."""
    found = {setting: list(_rows(runs, setting)) for setting in SETTINGS}
    if not any(found.values()):
        return
    yield Heading(2, "The price of federation", "price")
    yield Text(_ABOUT)
    parts = ("federated", "centralised", "kept, %", "kept in print, %")
    columns = [
        Column("row"),
        Column("centralised row"),
        Column("best is last"),
        *(Column(c, parts) for c in PAPER.metrics),
    ]
    for setting, rows in found.items():
        if rows:
            yield Heading(3, f"Setting {setting}", f"price-{setting}")
            yield Grid(f"The price of federation, {setting}", columns, rows, 2)


def _rows(runs: Runs, setting: str) -> Iterator[list[Entry]]:
    for row, central in COUNTERPARTS.items():
        if name_of(setting, FEDERATED[row]) in runs:
            said = "no" if has_converged(runs, setting, row) else "yes"
            yield [Entry(row), Entry(central), Entry(said), *_numbers(runs, setting, row)]


def _numbers(runs: Runs, setting: str, row: str) -> Iterator[Entry]:
    for column in PAPER.metrics:
        yield measured(score(PAPER, runs, name_of(setting, FEDERATED[row]), column, BEST))
        yield measured(central_score(runs, COUNTERPARTS[row], column))
        left = kept(runs, setting, row, column)
        yield measured(left, digits=0) if left else Entry(DASH, kind=Verdict.NOT_RUN.word)
        yield Entry(f"{printed_kept(row, column):.0f}", kind="printed")
