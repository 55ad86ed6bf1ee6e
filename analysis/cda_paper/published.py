"""The numbers that the paper prints, from ``published.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from analysis.papers.verdict import Band, tolerance_band


@dataclass(frozen=True)
class PrintedCell:
    """One printed number.

    Attributes
    ----------
    table : str
        Name such as ``table4``, or ``text`` for numbers quoted in the text.
    dataset, row, column : str
        Labels of the number; for the text its place, id and quantity.
    value : float or str
        Percentages in percent; a string if the paper gives a range.
    note : str
        Fault of the printed number, if any.
    band : (float, float), optional
        Lowest and highest value that count as near, or None if the number is not judged.
    unjudged : str
        Why it is not judged.
    """

    table: str
    dataset: str
    row: str
    column: str
    value: float | str
    note: str = ""
    band: Band | None = None
    unjudged: str = ""

    @property
    def number(self) -> float | None:
        """The printed number, or None if the paper gives a range or nothing."""
        return None if isinstance(self.value, str) else self.value


@cache
def table_titles() -> dict[str, str]:
    """Return the title of each table, in the order of the paper."""
    return {**{table: own["title"] for table, own in _tables().items()}, "text": "Numbers quoted in the text"}


@cache
def table_notes() -> dict[str, str]:
    """Return the faults of printed tables, by table."""
    return {table: own["note"] for table, own in _tables().items() if "note" in own}


@cache
def printed_numbers() -> tuple[PrintedCell, ...]:
    """Return every printed number, in the order of the paper."""
    cells = [
        PrintedCell(table, dataset, row, column, value, "", *_judging(value, _kind(own, row, column)))
        for table, own in _tables().items()
        for dataset, row, *values in own["rows"]
        for column, value in zip(own["columns"], values, strict=True)
        if value is not None
    ]
    quoted = [
        PrintedCell(
            "text", one["where"], one["id"], one["quantity"], one["value"], one.get("note", ""),
            *_judging(one["value"], one.get("band", "percent")),
        )
        for one in _content()["text"]
    ]  # fmt: skip
    return (*cells, *quoted)


def _kind(table: Mapping[str, Any], row: str, column: str) -> str:
    """Return the kind of band of a cell."""
    own = table.get("row_bands", {}).get(row, table["band"])
    return str(own[column] if isinstance(own, dict) else own)


def _judging(value: float | str, kind: str | list[float]) -> tuple[Band | None, str]:
    """Return the band of a printed number, and the reason if it has none."""
    if isinstance(value, str):
        return None, "the text gives a range"
    if isinstance(kind, list):
        return (kind[0], kind[1]), ""
    rule = _content()["bands"][kind]
    return (None, rule["unjudged"]) if "unjudged" in rule else (tolerance_band(value, **rule), "")


def _tables() -> dict[str, Any]:
    tables: dict[str, Any] = _content()["tables"]
    return tables


@cache
def _content() -> Any:
    return yaml.safe_load(Path(__file__).with_name("published.yaml").read_text(encoding="utf-8"))
