"""The cells of the report: each printed number, with the readings of ``readings.yaml`` or the reason for none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from analysis.cda_paper.experiments import PUBLISHED
from analysis.cda_paper.measures import MAIN_RULE, AttackNumber, RunNumber, read_number
from analysis.papers.comparison import PrintedNumber

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
    for number in PUBLISHED.printed:
        entry = next(one for one in _plan()["readings"] if _applies(one, number))
        if "why_not" in entry:
            cells.append(ReportCell(number, why_not=entry["why_not"]))
            continue
        own = list(_cells(number, entry["read"]))
        cells += own
        if (
            number.column == "best10"
        ):  # a printed 60.3 % is no multiple of 1/K, so it cannot be a least accuracy
            also = PrintedNumber(**{**vars(number), "column": "best10_mean"})
            cells += [cell for cell in _cells(also, entry["read"]) if cell.attack]
    for entry in _plan()["unprinted"]:
        cells += _cells(PrintedNumber(**entry["number"], value=""), entry["read"])
    return tuple(cells)


def _cells(number: PrintedNumber, readings: list[dict[str, Any]]) -> Iterator[ReportCell]:
    """Yield a cell per reading and relevance rule; a number that uses no rule has one cell."""
    plan = _plan()
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
        for rule in one.get("rules", (MAIN_RULE,)) if measure.uses_rule else (MAIN_RULE,):
            own_note = "; ".join(part for part in (one.get("note"), OTHER_RULES.get(rule)) if part)
            note = "\n".join(part for part in (own_note, *remarks) if part)
            yield ReportCell(number, one.get("setting", ""), measure, rule=rule, note=note)


def _applies(entry: Mapping[str, Any], number: PrintedNumber) -> bool:
    """Return whether an entry applies to a printed number; labels that it does not list do not matter."""
    return all(getattr(number, label) in entry[key] for key, label in _LABELS.items() if key in entry)


@cache
def _plan() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(
        Path(__file__).with_name("readings.yaml").read_text(encoding="utf-8")
    )
    return found
