"""What the paper prints, as it stands in ``published.yaml``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
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
    return {table: content["title"] for table, content in _content()["tables"].items()} | {
        "text": "Numbers quoted in the text"
    }


@cache
def notes() -> dict[str, str]:
    """Return what is wrong with the print of a table, where something is."""
    return {table: content["note"] for table, content in _content()["tables"].items() if "note" in content}


@cache
def printed() -> tuple[Printed, ...]:
    """Return every printed number, in the order of the paper."""
    cells = [
        Printed(table, dataset, row, column, value)
        for table, content in _content()["tables"].items()
        for dataset, row, *values in content["rows"]
        for column, value in zip(content["columns"], values, strict=True)
        if value is not None
    ]
    quoted = [
        Printed("text", item["where"], item["id"], item["quantity"], item["value"], item.get("note", ""))
        for item in _content()["text"]
    ]
    return (*cells, *quoted)


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(
        (resources.files(__package__) / "published.yaml").read_text(encoding="utf-8")
    )
    return content
