"""Claims of a paper with verdicts and evidence: the printed orders of its rows, and others declared in the plan."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from analysis.papers.comparison import (
    BEST,
    LAST,
    Comparison,
    baseline_score,
    experiment_name,
    has_converged,
    reported_score,
    seed_differences,
    table_title,
)
from analysis.papers.document import DocumentBlock, GridCell, GridRow, Heading, ParagraphBlock, make_grid
from analysis.papers.verdict import PerSeed, Runs, Verdict, confidence_half_width, mean
from gossiprec.base.rounding import difference

HELD, NOT_HELD, UNDECIDED, NOT_MEASURED = "held", "not held", "undecided", "not measured"
MARKS = {HELD: Verdict.WITHIN, NOT_HELD: Verdict.OUTSIDE}
"""The marks of a claim's verdicts; all others get the mark of numbers that were not run."""
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


OrderMargins = Mapping[str, Mapping[PrintedOrder, PerSeed]]
"""The lead of the first row of each printed order, by seed, at each reporting point with measurements."""


def order_margins(paper: Comparison, runs: Runs, setting: str) -> OrderMargins:
    """Return the leads of all printed orders of a setting."""
    orders = printed_orders(paper, setting)
    found = {
        look: {order: order.margins(paper, runs, setting, look) for order in orders}
        for look in paper.reporting_points
    }
    return {look: own for look, own in found.items() if any(own.values())}


def count_verdicts(margins: Iterable[PerSeed]) -> dict[str, int]:
    """Return the number of comparisons per verdict."""
    found = [judge_margins(own) for own in margins]
    return {verdict: found.count(verdict) for verdict in (HELD, NOT_HELD, UNDECIDED, NOT_MEASURED)}


def order_tables(paper: Comparison, runs: Runs) -> Iterator[DocumentBlock]:
    """Yield, per setting with runs, the verdict on each printed order at each reporting point."""
    yield Heading(2, "Printed orders", "orders")
    yield ParagraphBlock(_ABOUT.format(page=paper.page))
    found = {setting: order_margins(paper, runs, setting) for setting in paper.judged_settings}
    if not paper.tables:  # otherwise two settings have no order in common
        yield from _over_settings(paper, found)
    for setting, by_look in found.items():
        rows: list[GridRow] = []
        for order in printed_orders(paper, setting):
            margins = [own[order] for own in by_look.values()]
            if any(margins):
                rows.append(
                    [order.text, GridCell(f"{order.by:+.5f}", kind="printed"), *map(_margin, margins)]
                )
        if rows:
            titles = ("printed order", "printed difference", *by_look)
            lines = [f"- *{look}*: {_describe_counts(own.values())}" for look, own in by_look.items()]
            yield Heading(3, f"Setting {setting}", f"orders-{setting}")
            yield ParagraphBlock("\n".join(lines))
            yield make_grid(f"Printed orders, {setting}", titles, rows)


def _describe_counts(margins: Iterable[PerSeed]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in count_verdicts(margins).items() if count)


def _over_settings(paper: Comparison, found: Mapping[str, OrderMargins]) -> Iterator[DocumentBlock]:
    """Yield, per reporting point, the orders on which all settings that were run agree."""
    for look in paper.reporting_points:
        shown = {setting: by_look[look] for setting, by_look in found.items() if look in by_look}
        verdicts: dict[str, set[str]] = {}
        for own in shown.values():
            for order, margins in own.items():
                verdicts.setdefault(order.text, set()).add(judge_margins(margins))
        if shown:
            names = ", ".join(f"`{setting}`" for setting in shown)
            text = f"**{look[0].upper()}{look[1:]}**, equal in all of {names}:\n"
            for verdict in (HELD, NOT_HELD):
                equal = [words for words, own in verdicts.items() if own - {NOT_MEASURED} == {verdict}]
                text += f"\n- {verdict}: {'; '.join(equal) or 'none'}"
            yield ParagraphBlock(text)


def _margin(margins: PerSeed) -> GridCell:
    verdict = judge_margins(margins)
    if verdict == NOT_MEASURED:
        return GridCell("–", kind=Verdict.NOT_RUN.word)
    look = MARKS.get(verdict, Verdict.UNJUDGED)
    return GridCell(f"{mean(margins):+z.{DIGITS}f}", (f"n = {len(margins)}",), mark=look.mark, kind=look.word)


Evidence = Iterable[tuple[str, PerSeed]]
"""Comparisons as text, each with the margin of the claim by seed: positive if the claim holds."""


@dataclass(frozen=True)
class ClaimVerdict:
    """A claim, its verdict, and a line of evidence per comparison.

    A claim is held if every measured comparison holds, not held if one does not, and otherwise undecided.
    """

    claim: str
    verdict: str
    evidence: tuple[str, ...]


def judge_claim(claim: str, evidence: Evidence, digits: int = 1) -> ClaimVerdict:
    """Return the verdict on a claim."""
    found = list(evidence)
    known = {judge_margins(margins) for _, margins in found} - {NOT_MEASURED}
    verdict = next((one for one in (NOT_HELD, UNDECIDED, HELD) if one in known), NOT_MEASURED)
    lines = [
        f"{words}; {describe_margin(margins, digits)}" if margins else f"{words}: {NOT_MEASURED}"
        for words, margins in found
    ]
    return ClaimVerdict(claim, verdict, tuple(lines) or (NOT_MEASURED,))


def judge_margins(margins: PerSeed) -> str:
    """Return the verdict of paired differences over seeds, which are positive if the claim holds."""
    if not margins:
        return NOT_MEASURED
    low, high = confidence_half_width(margins)  # NaN with one seed, which decides nothing
    return HELD if low > 0 else NOT_HELD if high < 0 else UNDECIDED


def describe_margin(margins: PerSeed, digits: int = 1) -> str:
    """Return the mean paired difference with its interval and the verdict."""
    low, high = confidence_half_width(margins)
    several = f"[{low:+.{digits}f}, {high:+.{digits}f}] over {len(margins)} seeds"
    between = several if len(margins) > 1 else "one seed"
    return f"margin {mean(margins):+.{digits}f}, {between}: {judge_margins(margins)}"


def claim_blocks(
    claims: Sequence[ClaimVerdict], title: str = "What the paper claims"
) -> Iterator[DocumentBlock]:
    """Yield each claim with its verdict and evidence."""
    yield Heading(2, title)
    for claim in claims:
        look = MARKS.get(claim.verdict, Verdict.NOT_RUN)
        evidence = "\n".join(f"- {line}" for line in claim.evidence)
        yield ParagraphBlock(f"{look.mark} **{claim.claim}: {claim.verdict}.**\n\n{evidence}")


SettingEvidence = Callable[[Runs, str], Evidence]
"""The evidence of the runs in a setting."""


def judge_in_settings(
    paper: Comparison, runs: Runs, claims: Mapping[str, SettingEvidence]
) -> list[ClaimVerdict]:
    """Return the verdicts on claims, each over all settings with evidence."""
    return [
        judge_claim(
            claim,
            (
                (f"{setting}: {words}", margins)
                for setting in paper.settings
                for words, margins in evidence(runs, setting)
                if margins
            ),
            DIGITS,
        )
        for claim, evidence in claims.items()
    ]


def declared_claims(paper: Comparison) -> dict[str, SettingEvidence]:
    """Return the claim on popularity and those that the plan declares, in its order, with their evidence."""
    return {
        "Methods recommend better than the most popular items": partial(_leads_over_popularity, paper),
        **{one["claim"]: _declared_evidence(paper, one) for one in paper.claims},
    }


def _declared_evidence(paper: Comparison, entry: Mapping[str, Any]) -> SettingEvidence:
    """Return the evidence that an entry of a plan declares: of ``rankings``, or of a ``number`` of summaries."""
    return RankingEvidence(paper, entry) if "rankings" in entry else _limit_evidence(paper, entry)


def _leads_over_popularity(paper: Comparison, runs: Runs, setting: str) -> Evidence:
    """Yield the lead of each method of the main table over the most popular items."""
    popular = baseline_score(paper, runs, setting, paper.leading, "popularity")
    for row, method in paper.rows[paper.main_table(setting)].items():
        ours = reported_score(paper, runs, experiment_name(setting, method), paper.leading, LAST)
        words = f"{row}, {paper.leading} {mean(ours):.{DIGITS}f} at the last epoch"
        yield f"{words}, popularity {mean(popular):.{DIGITS}f}", seed_differences(ours, popular)


@dataclass(frozen=True)
class RankingEvidence:
    """The evidence for a claim that methods recommend better than others.

    A plan declares ``rankings``, each a list of methods, the best first: of the measured ones each is compared with the
    next. A method is a method of the setting, or the name of an experiment of another setting. ``columns`` are the
    metrics, by default all; ``looks`` are the reporting points, ``best`` (the default), ``last`` or both.
    """

    paper: Comparison
    entry: Mapping[str, Any]

    def __call__(self, runs: Runs, setting: str) -> Evidence:
        """Yield the lead of each method over the next one of its ranking."""
        columns = self.entry.get("columns", tuple(self.paper.metrics))
        looks = [{"last": LAST, "best": BEST}[look] for look in self.entry.get("looks", ("best",))]
        for ranking, column, look in itertools.product(self.entry["rankings"], columns, looks):
            scores = {
                method: reported_score(self.paper, runs, self._experiment(setting, method), column, look)
                for method in ranking
            }
            for pair in itertools.pairwise(method for method, own in scores.items() if own):
                remarks = [look] if len(looks) > 1 else []
                remarks += self._rising(runs, setting, pair) if look == BEST else []
                remark = f" ({'; '.join(remarks)})" if remarks else ""
                words = f"{self._words(setting, column, scores, pair)}{remark}"
                yield words, seed_differences(*(scores[method] for method in pair))

    def _experiment(self, setting: str, method: str) -> str:
        is_experiment = any(method.startswith(f"{other}-") for other in self.paper.settings)
        return method if is_experiment else experiment_name(setting, method)

    def _words(
        self, setting: str, column: str, scores: Mapping[str, PerSeed], methods: tuple[str, str]
    ) -> str:
        """Return both numbers and their ratio as text, with the printed ratio if both methods are printed."""
        first, second = (mean(scores[method]) for method in methods)
        words = f"{column}: {methods[0]} {first:.{DIGITS}f}, {methods[1]} {second:.{DIGITS}f}"
        table = self.paper.main_table(setting)
        numbers = {
            row: one.value
            for (row, of), one in self.paper.printed_numbers_in(setting, table).items()
            if of == column
        }
        printed = {method: numbers[row] for row, method in self.paper.rows[table].items() if numbers.get(row)}
        gains = [f"{100 * (first / second - 1):+.1f} %"] if second else []
        if all(method in printed for method in methods):
            gains.append(f"printed {100 * (printed[methods[0]] / printed[methods[1]] - 1):+.1f} %")
        return f"{words} ({', '.join(gains)})" if gains else words

    def _rising(self, runs: Runs, setting: str, methods: tuple[str, str]) -> list[str]:
        """Return a remark on the methods that still improve at their best report, if there are any."""
        rising = [
            method
            for method in methods
            if not has_converged(self.paper, runs, self._experiment(setting, method))
        ]
        return [f"{' and '.join(rising)} best at the last report: perhaps not converged"] if rising else []


def _limit_evidence(paper: Comparison, entry: Mapping[str, Any]) -> SettingEvidence:
    """Return the evidence that a number of summaries is large, or hardly exceeds another.

    A plan declares ``number``, a column of its ``leakage``; either ``above``, a value, or ``reference``, a column that
    the number exceeds by at most ``tolerance``; and ``methods``, by setting and label.
    """
    number = entry["number"]

    def evidence(runs: Runs, setting: str) -> Evidence:
        for label, method in entry["methods"].get(setting, {}).items():
            read = partial(paper.leakage.values_by_seed, runs, experiment_name(setting, method))
            found = read(number)
            if "above" in entry:
                margins = {seed: difference(value, entry["above"]) for seed, value in found.items()}
                yield f"{label}, {number} {mean(found):.3f}", margins
            else:
                reference = read(entry["reference"])
                excess = seed_differences(found, reference)
                margins = {seed: difference(entry["tolerance"], by) for seed, by in excess.items()}
                values = (
                    f"{number} {mean(found):.{DIGITS}f}, {entry['reference']} {mean(reference):.{DIGITS}f}"
                )
                yield f"{label}: {values}", margins

    return evidence
