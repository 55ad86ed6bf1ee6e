"""The printed orders of a paper's rows, each with its verdicts over settings and reporting points."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from analysis.papers.comparison import Comparison, experiment_name, table_title
from analysis.papers.curves import reported_score, seed_differences
from analysis.papers.document import DocumentBlock, Grid, GridCell, GridColumn, Heading, ParagraphBlock
from analysis.papers.verdict import (
    HELD,
    MARKS,
    NOT_HELD,
    NOT_MEASURED,
    UNDECIDED,
    PerSeed,
    Runs,
    Verdict,
    judge_margins,
    mean,
)

DIGITS = 4
_ABOUT = (
    "Pairs of rows that are neighbours in the printed order of a metric: is the first ahead of the second? ✓: the 95 % "
    "interval of the paired difference over seeds is above 0; ✗: it is below 0; ○: neither, or there is only one seed, "
    "of which the difference is shown. {page} explains the reporting points."
)


@dataclass(frozen=True)
class PrintedOrder:
    """Two rows of a table, the first of which is printed ahead of the second.

    Attributes
    ----------
    table, column : str
    first, second : str
    methods : (str, str)
        Methods of both rows.
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
        """Return the lead of the first row in a setting and at a reporting point, by seed."""
        if not all(paper.is_compared_at(method, look) for method in self.methods):
            return {}
        one, other = (
            reported_score(paper, runs, experiment_name(setting, method), self.column, look)
            for method in self.methods
        )
        return seed_differences(one, other)

    @property
    def text(self) -> str:
        """The printed order as text."""
        return f"{table_title(self.table)}, {self.column}: {self.first} over {self.second}"


def printed_orders(paper: Comparison, setting: str) -> tuple[PrintedOrder, ...]:
    """Return the printed orders of a setting: neighbours in each column of its tables, each pair of methods once."""
    found: dict[tuple[str, str, str], PrintedOrder] = {}
    for table in paper.tables_of_setting(setting):
        rows = paper.rows[table]
        for column in paper.metrics:
            own = [
                one for one in paper.published.printed_numbers if (one.table, one.column) == (table, column)
            ]
            ranked = sorted(own, key=lambda one: -one.value)
            for one, other in itertools.pairwise(ranked):
                methods = rows[one.row], rows[other.row]
                order = PrintedOrder(table, column, one.row, other.row, methods, one.value - other.value)
                if methods[0] != methods[1]:
                    found.setdefault((column, *methods), order)
    return tuple(found.values())


def order_tables(paper: Comparison, runs: Runs) -> Iterator[DocumentBlock]:
    """Yield, per setting with runs, the verdict on each printed order at each reporting point."""
    yield Heading(2, "Printed orders", "orders")
    yield ParagraphBlock(_ABOUT.format(page=paper.page))
    if not paper.tables:  # otherwise two settings have no order in common
        yield from _over_settings(paper, runs)
    for setting in paper.judged_settings:
        rows, looks = [], measured_reporting_points(paper, runs, setting)
        for order in printed_orders(paper, setting):
            margins = {look: order.margins(paper, runs, setting, look) for look in looks}
            if any(margins.values()):
                fields = [_margin(own) for own in margins.values()]
                rows.append([GridCell(order.text), GridCell(f"{order.by:+.5f}", kind="printed"), *fields])
        if rows:
            titles = ("printed order", "printed difference", *looks)
            yield Heading(3, f"Setting {setting}", f"orders-{setting}")
            yield ParagraphBlock(describe_verdict_counts(paper, runs, setting))
            yield Grid(f"Printed orders, {setting}", [GridColumn(title) for title in titles], rows)


def _over_settings(paper: Comparison, runs: Runs) -> Iterator[DocumentBlock]:
    """Yield, per reporting point, the orders on which all settings that were run agree."""
    for look in paper.reporting_points:
        settings = [
            setting
            for setting in paper.judged_settings
            if look in measured_reporting_points(paper, runs, setting)
        ]
        found: dict[str, list[str]] = {HELD: [], NOT_HELD: []}
        by_order: dict[str, set[str]] = {}
        for setting in settings:
            for order in printed_orders(paper, setting):
                verdict = judge_margins(order.margins(paper, runs, setting, look))
                by_order.setdefault(order.text, set()).add(verdict)
        for words, verdicts in by_order.items():
            known = verdicts - {NOT_MEASURED}
            if len(known) == 1 and (one := known.pop()) in found:
                found[one].append(words)
        if settings:
            lines = [f"- {verdict}: {'; '.join(own) or 'none'}" for verdict, own in found.items()]
            names = ", ".join(f"`{setting}`" for setting in settings)
            yield ParagraphBlock(
                f"**{look[0].upper()}{look[1:]}**, equal in all of {names}:\n\n" + "\n".join(lines)
            )


def measured_reporting_points(paper: Comparison, runs: Runs, setting: str) -> list[str]:
    """Return the reporting points with measurements in a setting."""
    number = len(printed_orders(paper, setting))
    return [
        look
        for look in paper.reporting_points
        if count_order_verdicts(paper, runs, setting, look)[NOT_MEASURED] < number
    ]


def count_order_verdicts(paper: Comparison, runs: Runs, setting: str, look: str) -> dict[str, int]:
    """Return the number of printed orders per verdict."""
    found = [
        judge_margins(order.margins(paper, runs, setting, look)) for order in printed_orders(paper, setting)
    ]
    return {verdict: found.count(verdict) for verdict in (HELD, NOT_HELD, UNDECIDED, NOT_MEASURED)}


def describe_verdict_counts(paper: Comparison, runs: Runs, setting: str) -> str:
    """Return the counts at all reporting points as a list in text."""
    lines = []
    for look in measured_reporting_points(paper, runs, setting):
        counts = ", ".join(
            f"{count} {verdict}"
            for verdict, count in count_order_verdicts(paper, runs, setting, look).items()
            if count
        )
        lines.append(f"- *{look}*: {counts}")
    return "\n".join(lines)


def _margin(margins: PerSeed) -> GridCell:
    verdict = judge_margins(margins)
    if verdict == NOT_MEASURED:
        return GridCell("–", kind=Verdict.NOT_RUN.word)
    look = MARKS.get(verdict, Verdict.UNJUDGED)
    return GridCell(f"{mean(margins):+z.{DIGITS}f}", (f"n = {len(margins)}",), mark=look.mark, kind=look.word)
