"""Which printed orders hold, in each setting and look."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from analysis.papers.claims import HELD, MARKS, NOT_HELD, NOT_MEASURED, UNDECIDED, decided
from analysis.papers.comparison import Comparison, name_of, table_in_words
from analysis.papers.curves import differences, score
from analysis.papers.document import Block, Column, Entry, Grid, Heading, Text
from analysis.papers.seeds import PerSeed, Runs, mean
from analysis.papers.verdict import Verdict

DIGITS = 4
_ABOUT = (
    "Rows that the paper prints side by side, two by two in the printed order of each metric: is the first ahead of "
    "the second? ✓: the 95 % interval of the paired difference over seeds lies above 0; ✗: below; ○: neither, or one "
    "seed, whose difference is shown all the same. {page} explains the looks."
)


@dataclass(frozen=True)
class Order:
    """Two rows of a table, the first of which is printed ahead of the second.

    Attributes
    ----------
    table, column : str
    first, second : str
    methods : (str, str)
        Those of both rows.
    by : float
        The printed difference.
    """

    table: str
    column: str
    first: str
    second: str
    methods: tuple[str, str]
    by: float

    def margins(self, paper: Comparison, runs: Runs, setting: str, look: str) -> PerSeed:
        """Return by how much the first is ahead in a setting and look, by seed."""
        if not all(paper.has_look(method, look) for method in self.methods):
            return {}
        one, other = (
            score(paper, runs, name_of(setting, method), self.column, look) for method in self.methods
        )
        return differences(one, other)

    @property
    def words(self) -> str:
        """What is printed."""
        return f"{table_in_words(self.table)}, {self.column}: {self.first} over {self.second}"


def orders(paper: Comparison, setting: str) -> tuple[Order, ...]:
    """Return the printed orders of a setting: neighbours in each column of its tables, each pair of methods once."""
    found: dict[tuple[str, str, str], Order] = {}
    for table in paper.tables_in(setting):
        rows = paper.rows[table]
        for column in paper.metrics:
            own = [one for one in paper.published.printed if (one.table, one.column) == (table, column)]
            ranked = sorted(own, key=lambda one: -one.value)
            for one, other in itertools.pairwise(ranked):
                methods = rows[one.row], rows[other.row]
                order = Order(table, column, one.row, other.row, methods, one.value - other.value)
                if methods[0] != methods[1]:
                    found.setdefault((column, *methods), order)
    return tuple(found.values())


def order_tables(paper: Comparison, runs: Runs) -> Iterator[Block]:
    """Yield, for each setting of which there are runs, what became of each printed order in each look."""
    yield Heading(2, "Printed orders", "orders")
    yield Text(_ABOUT.format(page=paper.page))
    if not paper.tables:  # else no two settings have an order in common
        yield from _over_settings(paper, runs)
    for setting in paper.judged:
        rows, looks = [], looks_of(paper, runs, setting)
        for order in orders(paper, setting):
            margins = {look: order.margins(paper, runs, setting, look) for look in looks}
            if any(margins.values()):
                fields = [_margin(own) for own in margins.values()]
                rows.append([Entry(order.words), Entry(f"{order.by:+.5f}", kind="printed"), *fields])
        if rows:
            titles = ("printed order", "printed difference", *looks)
            yield Heading(3, f"Setting {setting}", f"orders-{setting}")
            yield Text(tally_in_words(paper, runs, setting))
            yield Grid(f"Printed orders, {setting}", [Column(title) for title in titles], rows)


def _over_settings(paper: Comparison, runs: Runs) -> Iterator[Block]:
    """Yield, for each look, the orders that every setting that was run agrees on."""
    for look in paper.looks:
        settings = [setting for setting in paper.judged if look in looks_of(paper, runs, setting)]
        found: dict[str, list[str]] = {HELD: [], NOT_HELD: []}
        told: dict[str, set[str]] = {}
        for setting in settings:
            for order in orders(paper, setting):
                verdict = decided(order.margins(paper, runs, setting, look))
                told.setdefault(order.words, set()).add(verdict)
        for words, verdicts in told.items():
            known = verdicts - {NOT_MEASURED}
            if len(known) == 1 and (one := known.pop()) in found:
                found[one].append(words)
        if settings:
            lines = [f"- {verdict}: {'; '.join(own) or 'none'}" for verdict, own in found.items()]
            where = ", ".join(f"`{setting}`" for setting in settings)
            yield Text(f"**{look[0].upper()}{look[1:]}**, alike in all of {where}:\n\n" + "\n".join(lines))


def looks_of(paper: Comparison, runs: Runs, setting: str) -> list[str]:
    """Return the looks in which anything was measured in a setting."""
    number = len(orders(paper, setting))
    return [look for look in paper.looks if tally(paper, runs, setting, look)[NOT_MEASURED] < number]


def tally(paper: Comparison, runs: Runs, setting: str, look: str) -> dict[str, int]:
    """Return how many printed orders have each verdict."""
    found = [decided(order.margins(paper, runs, setting, look)) for order in orders(paper, setting)]
    return {verdict: found.count(verdict) for verdict in (HELD, NOT_HELD, UNDECIDED, NOT_MEASURED)}


def tally_in_words(paper: Comparison, runs: Runs, setting: str) -> str:
    """Return the same for all looks as a list."""
    lines = []
    for look in looks_of(paper, runs, setting):
        said = ", ".join(
            f"{count} {verdict}" for verdict, count in tally(paper, runs, setting, look).items() if count
        )
        lines.append(f"- *{look}*: {said}")
    return "\n".join(lines)


def _margin(margins: PerSeed) -> Entry:
    verdict = decided(margins)
    if verdict == NOT_MEASURED:
        return Entry("–", kind=Verdict.NOT_RUN.word)
    look = MARKS.get(verdict, Verdict.UNJUDGED)
    return Entry(f"{mean(margins):+z.{DIGITS}f}", (f"n = {len(margins)}",), mark=look.mark, kind=look.word)
