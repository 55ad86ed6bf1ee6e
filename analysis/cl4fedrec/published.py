"""What the paper prints, as it stands in ``published.yaml``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from analysis.papers.verdict import Band, band


@dataclass(frozen=True)
class Printed:
    """One printed number.

    Attributes
    ----------
    table : str
        Such as ``table2``.
    row, column : str
        A method and a metric, as the paper writes them.
    value : float
        A fraction, or a count.
    band : (float, float)
        Lowest and highest that count as near.
    """

    table: str
    row: str
    column: str
    value: float
    band: Band


@cache
def titles() -> dict[str, str]:
    """Return the title of each table, in the order of the paper."""
    return {table: own["title"] for table, own in _content()["tables"].items()}


@cache
def notes() -> dict[str, str]:
    """Return what is to be said of the print of a table, where something is."""
    return {table: own["note"] for table, own in _content()["tables"].items() if "note" in own}


@cache
def printed() -> tuple[Printed, ...]:
    """Return every printed number, in the order of the paper."""
    share = _content()["share"]
    return tuple(
        Printed(table, row, column, value, (value, value) if own.get("exact") else band(value, share=share))
        for table, own in _content()["tables"].items()
        for row, *values in own["rows"]
        for column, value in zip(own["columns"], values, strict=True)
    )


def value_of(table: str, row: str, column: str) -> float:
    """Return one printed number.

    Raises
    ------
    KeyError
        If it is not printed.
    """
    found = {(one.table, one.row, one.column): one.value for one in printed()}
    return found[table, row, column]


@cache
def _content() -> Any:
    return yaml.safe_load(Path(__file__).with_name("published.yaml").read_text(encoding="utf-8"))
