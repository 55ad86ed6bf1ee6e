"""The numbers that a paper prints, from the ``published.yaml`` of its study."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from analysis.papers.verdict import Band, tolerance_band


@dataclass(frozen=True)
class PrintedNumber:
    """One printed number.

    Attributes
    ----------
    table : str
        Name such as ``table2``.
    row, column : str
        A method and a metric, as the paper writes them.
    value : float
        A fraction, or a count.
    band : (float, float)
        Lowest and highest value that count as near.
    """

    table: str
    row: str
    column: str
    value: float
    band: Band


@dataclass(frozen=True)
class PublishedTables:
    """The printed tables of a paper, read from a file: titles, notes, and rows with a name and a value per column."""

    path: Path

    @cached_property
    def titles(self) -> dict[str, str]:
        """The title of each table, in the order of the paper."""
        return {table: own["title"] for table, own in self._content["tables"].items()}

    @cached_property
    def notes(self) -> dict[str, str]:
        """Remarks on printed tables, by table."""
        return {table: own["note"] for table, own in self._content["tables"].items() if "note" in own}

    @cached_property
    def printed(self) -> tuple[PrintedNumber, ...]:
        """Every printed number, in the order of the paper."""
        share = self._content["share"]
        return tuple(
            PrintedNumber(
                table,
                row,
                column,
                value,
                (value, value) if own.get("exact") else tolerance_band(value, share=share),
            )
            for table, own in self._content["tables"].items()
            for row, *values in own["rows"]
            for column, value in zip(own["columns"], values, strict=True)
        )

    def of_table(self, table: str) -> dict[tuple[str, str], PrintedNumber]:
        """Return the printed numbers of a table by row and column."""
        return {(one.row, one.column): one for one in self.printed if one.table == table}

    def value_of(self, table: str, row: str, column: str) -> float:
        """Return one printed number.

        Raises
        ------
        KeyError
            If it is not printed.
        """
        return self.of_table(table)[row, column].value

    @cached_property
    def _content(self) -> Any:
        return yaml.safe_load(self.path.read_text(encoding="utf-8"))
