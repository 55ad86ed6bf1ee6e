"""The cells of the report: printed numbers, their readings (``readings.yaml``), results, and rows of ``cells.csv``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from analysis.cda_paper import PUBLISHED, STUDY
from analysis.cda_paper.measures import MAIN_RULE, RULES, AttackNumber, RunNumber, read_number
from analysis.papers.comparison import PrintedNumber
from analysis.papers.verdict import PerSeed, Runs, Verdict, judge_agreement

COLUMNS = {
    "max_aac": "Max AAC %",
    "best10": "Best 10 % AAC, least %",
    "best10_mean": "Best 10 % AAC, mean %",
    "bound": "%",
    "without_momentum": "Max AAC % without momentum",
    "with_momentum": "Max AAC % with momentum",
    "full": "Max AAC % full models",
    "share_less": "Max AAC % Share less",
    "random": "random guess %",
    "accuracy": "MIA accuracy",
    "precision": "MIA precision",
    "recall": "MIA recall",
    "seconds": "time s",
}
OTHER_RULES = {"mean_score": "the paper's rule, eq. 4", "ndcg": "the rule of the published code"}
_LABELS = {"tables": "table", "datasets": "dataset", "rows": "row", "columns": "column"}
_NOT_OF_NUMBER = ("setting", "note", "rules", "rows")


@dataclass(frozen=True)
class ReportCell:
    """A number of the report: the printed number, with its measure or the reason for none.

    Attributes
    ----------
    variant : str
        The reading of the paper that was run, such as users and K; empty if there is only one.
    rule : str
        The relevance rule that is compared with the printed number.
    note : str
        Why it differs, or cannot be reproduced: one sentence per line.
    """

    printed: PrintedNumber
    variant: str = ""
    measure: RunNumber | None = None
    why_not: str = ""
    rule: str = MAIN_RULE
    note: str = ""

    @property
    def column(self) -> str:
        """Its column heading."""
        return COLUMNS.get(self.printed.column, self.printed.column)

    @property
    def attack(self) -> AttackNumber | None:
        """The attack behind it, which has bounds, or None for other numbers."""
        return self.measure if isinstance(self.measure, AttackNumber) else None


@cache
def report_cells() -> tuple[ReportCell, ...]:
    """Return the cells in the order of the paper: for every printed number, the setting compared first, then others."""
    cells: list[ReportCell] = []
    for number in PUBLISHED.printed_numbers:
        entry = next(one for one in STUDY.read("readings")["readings"] if _applies(one, number))
        if "why_not" in entry:
            cells.append(ReportCell(number, why_not=entry["why_not"]))
            continue
        own = list(_cells(number, entry["read"]))
        cells += own
        if number.column == "best10":
            # a printed 60.3 % is no multiple of 1/K, so it cannot be a least accuracy
            also = PrintedNumber(**{**vars(number), "column": "best10_mean"})
            cells += [cell for cell in _cells(also, entry["read"]) if cell.attack]
    for entry in STUDY.read("readings")["unprinted"]:
        cells += _cells(PrintedNumber(**entry["number"], value=""), entry["read"])
    return tuple(cells)


def _cells(number: PrintedNumber, readings: list[dict[str, Any]]) -> Iterator[ReportCell]:
    """Yield a cell per reading and relevance rule; a number that uses no rule has one cell."""
    plan = STUDY.read("readings")
    remarks = [one["text"] for one in plan["remarks"] if _applies(one, number)]
    for one in readings:
        if number.row not in one.get("rows", (number.row,)):
            continue
        facts = [plan["columns"].get(number.column, {}), plan["rows"].get(number.row, {})]
        own = {key: value for key, value in one.items() if key not in _NOT_OF_NUMBER}
        spec: dict[str, Any] = {}
        for part in (*facts, own, one.get("rows", {}).get(number.row, {})):
            spec |= part
        measure = read_number(spec)
        for rule in one.get("rules", (MAIN_RULE,)) if measure.uses_relevance_rule else (MAIN_RULE,):
            own_note = "; ".join(part for part in (one.get("note"), OTHER_RULES.get(rule)) if part)
            note = "\n".join(part for part in (own_note, *remarks) if part)
            yield ReportCell(number, one.get("setting", ""), measure, rule=rule, note=note)


def _applies(entry: Mapping[str, Any], number: PrintedNumber) -> bool:
    """Return whether an entry applies to a printed number; labels that it does not list do not matter."""
    return all(getattr(number, label) in entry[key] for key, label in _LABELS.items() if key in entry)


@dataclass(frozen=True)
class CellResult:
    """A cell and its result from the runs."""

    cell: ReportCell
    values: PerSeed
    verdict: Verdict

    @property
    def setting(self) -> str:
        """The setting that was run, with the relevance rule if that matters."""
        parts = [self.cell.variant] if self.cell.variant else []
        if self.cell.measure and self.cell.measure.uses_relevance_rule:
            parts.append(self.cell.rule)
        return "; ".join(parts)


@dataclass(frozen=True)
class NumberResults:
    """A number of the paper with the result of each setting, the setting compared first at the front."""

    printed: PrintedNumber
    results: tuple[CellResult, ...]

    @property
    def first(self) -> CellResult:
        """The result of the setting compared first."""
        return self.results[0]

    @cached_property
    def nearest(self) -> CellResult:
        """The result nearest to the printed number; on ties, the first."""
        return min(self.results, key=lambda result: result.verdict)

    @property
    def first_with_run(self) -> CellResult:
        """The first result with a run, or the first of all if there is none."""
        return next((result for result in self.results if result.values), self.first)


def collect_number_results(runs: Runs) -> list[NumberResults]:
    """Return every number of the report, in the order of the paper."""
    found: dict[PrintedNumber, list[CellResult]] = {}
    for cell in report_cells():
        found.setdefault(cell.printed, []).append(compute_cell_result(cell, runs))
    return [NumberResults(number, tuple(results)) for number, results in found.items()]


def compute_cell_result(cell: ReportCell, runs: Runs) -> CellResult:
    """Return the result of a cell from the runs."""
    values = cell.measure.values_by_seed(runs, cell.rule) if cell.measure else {}
    verdict = judge_agreement(cell.printed.band, values) if cell.measure else Verdict.UNJUDGED
    return CellResult(cell, values, verdict)


def select_printed_results(found: Iterable[NumberResults]) -> list[NumberResults]:
    """Return the groups of printed numbers, each once, without second readings and unprinted numbers."""
    wanted = set(PUBLISHED.printed_numbers)
    return [group for group in found if group.printed in wanted]


def count_verdicts(results: Iterable[CellResult]) -> list[int]:
    """Return the number of results per verdict, in the order of the verdicts."""
    counted = Counter(result.verdict for result in results)
    return [counted[verdict] for verdict in Verdict]


CSV_HEADER = (
    "table", "dataset", "row", "column", "published", "band_low", "band_high",
    "variant", "place", "rule", "verdict", "relevance", "seed", "measured",
)  # fmt: skip
Row = list[str | int | float | None]


def csv_rows(found: Sequence[NumberResults], runs: Runs) -> Iterator[Row]:
    """Yield a row for each seed and relevance rule.

    ``variant`` is the setting, and ``place`` is 1 for the setting compared first. ``rule`` is the relevance rule that
    is compared with the printed number, and ``verdict`` the result over all seeds. ``relevance`` is the rule of the
    number itself. Attacks also have rows for the rules that no setting compares.
    """
    for group in found:
        number = group.printed
        low, high = number.band or (None, None)
        about: Row = [number.table, number.dataset, number.row, number.column, number.value, low, high]
        for place, result in enumerate(group.results, start=1):
            cell, measure = result.cell, result.cell.measure
            if measure is None:
                continue
            rule = cell.rule if measure.uses_relevance_rule else ""
            for relevance in (rule, *_others(group, cell)) if rule else ("",):
                for seed, value in measure.values_by_seed(runs, relevance or cell.rule).items():
                    own: Row = [cell.variant, place, rule, result.verdict.word, relevance, seed, value]
                    yield [*about, *own]


def _others(group: NumberResults, cell: ReportCell) -> list[str]:
    """Return the further rules for which a cell's numbers are written: those without a cell of their own."""
    if cell.attack is None:
        return []
    same = [one.cell for one in group.results if one.cell.measure == cell.measure]
    compared = {one.rule for one in same}
    return [rule for rule in RULES if rule not in compared] if cell is same[0] else []
