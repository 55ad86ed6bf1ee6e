"""What the paper prints, as it stands in ``published.yaml``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True)
class Printed:
    """One printed number.

    Attributes
    ----------
    table : str
        Such as ``table4``, or ``text`` for numbers quoted in the text.
    dataset, row, column : str
        For the text: the place, the id and the quantity.
    value : float or str
        Percentages in percent; a string where the print gives a range.
    note : str
        What is wrong with it, if anything.
    """

    table: str
    dataset: str
    row: str
    column: str
    value: float | str
    note: str = ""


@cache
def titles() -> dict[str, str]:
    """Return the title of each table, in the order of the paper."""
    return {**{table: own["title"] for table, own in _tables().items()}, "text": "Numbers quoted in the text"}


@cache
def notes() -> dict[str, str]:
    """Return what is wrong with the print of a table, where something is."""
    return {table: own["note"] for table, own in _tables().items() if "note" in own}


@cache
def printed() -> tuple[Printed, ...]:
    """Return every printed number, in the order of the paper."""
    cells = [
        Printed(table, dataset, row, column, value)
        for table, own in _tables().items()
        for dataset, row, *values in own["rows"]
        for column, value in zip(own["columns"], values, strict=True)
        if value is not None
    ]
    quoted = [
        Printed("text", one["where"], one["id"], one["quantity"], one["value"], one.get("note", ""))
        for one in _content()["text"]
    ]
    return (*cells, *quoted)


def _tables() -> dict[str, Any]:
    tables: dict[str, Any] = _content()["tables"]
    return tables


@cache
def _content() -> Any:
    return yaml.safe_load(Path(__file__).with_name("published.yaml").read_text(encoding="utf-8"))
