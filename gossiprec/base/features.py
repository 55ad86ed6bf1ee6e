"""Attributes of users or items: columns of numbers or labels, and options of the tables that a scenario names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F32, F64, I64, Bools
from gossiprec.base.errors import DataError, did_you_mean
from gossiprec.base.options import Options
from gossiprec.base.ragged import Ragged, row_entries


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """A column of numbers.

    Attributes
    ----------
    values : ndarray of float64, shape (n_rows,)
        NaN if unknown.
    """

    values: F64

    @property
    def known(self) -> Bools:
        """Which rows have a value, shape (n_rows,)."""
        return ~np.isnan(self.values)

    def take(self, rows: I64) -> NumberColumn:
        """Return some rows; -1 gives an unknown value."""
        values = np.full(len(rows), np.nan)
        values[rows >= 0] = self.values[rows[rows >= 0]]
        return NumberColumn(values)


@dataclass(frozen=True, eq=False)
class LabelColumn:
    """A column of labels, of which a row has none, one or several.

    Attributes
    ----------
    labels : tuple of str
        The labels that occur, sorted.
    codes : Ragged of int32, one row per user or item
        Positions in `labels`, ascending; empty if unknown.
    """

    labels: tuple[str, ...]
    codes: Ragged

    @property
    def known(self) -> Bools:
        """Which rows have a label, shape (n_rows,)."""
        return self.codes.sizes > 0

    def take(self, rows: I64) -> LabelColumn:
        """Return some rows; -1 gives an unknown value."""
        there = np.flatnonzero(rows >= 0)
        sizes = np.zeros(len(rows), np.int64)
        sizes[there] = self.codes.sizes[rows[there]]
        entries, _ = row_entries(self.codes.offsets, rows[there])
        return LabelColumn(self.labels, Ragged.from_sizes(sizes, self.codes.values[entries]))

    def shares(self) -> F32:
        """Return the share of each label in each row, shape (n_rows, n_labels): 1/n for n labels, 0 if unknown."""
        found = np.zeros((len(self.codes), len(self.labels)), np.float32)
        found[self.codes.row_of_each_value, self.codes.values] = np.repeat(
            1 / np.maximum(self.codes.sizes, 1), self.codes.sizes
        )
        return found


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """The attributes of all users, or of all items.

    Attributes
    ----------
    names : tuple of str
    columns : tuple of NumberColumn or LabelColumn
        In the order of `names`; each has a row per user or item.
    source_summary : str
        The file that they were read from, for messages.
    """

    names: tuple[str, ...]
    columns: tuple[NumberColumn | LabelColumn, ...]
    source_summary: str = ""

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self.names)

    def __getitem__(self, name: str) -> NumberColumn | LabelColumn:
        """Return a column.

        Raises
        ------
        DataError
            If there is none with this name; the message names those that exist.
        """
        if name not in self.names:
            raise DataError(
                f"{self.source_summary}: found no column {name!r}; expected one of: "
                f"{', '.join(self.names)}{did_you_mean(name, self.names)}"
            )
        return self.columns[self.names.index(name)]

    def labels(self, name: str) -> LabelColumn:
        """Return a column of labels.

        Raises
        ------
        DataError
            If there is none with this name.
        """
        column = self[name]
        if not isinstance(column, LabelColumn):
            raise DataError(
                f"{self.source_summary}: column {name} has numbers; expected labels; choose another column, or set "
                f"kinds: {{{name}: label}} for the table"
            )
        return column

    def numbers(self, name: str) -> NumberColumn:
        """Return a column of numbers.

        Raises
        ------
        DataError
            If there is none with this name.
        """
        column = self[name]
        if not isinstance(column, NumberColumn):
            raise DataError(
                f"{self.source_summary}: column {name} has labels; expected numbers; choose another column"
            )
        return column

    def take(self, rows: I64) -> FeatureTable:
        """Return some rows; -1 gives a row of unknown values."""
        return FeatureTable(
            self.names, tuple(column.take(rows) for column in self.columns), self.source_summary
        )


Kind = Literal["number", "label", "labels"]


class FeatureFile(Options):
    """A table of attributes, with a header: the name of a user or an item, then its attributes."""

    path: Path
    """Delimited text, plain, .gz or .zip; the first column has the names that the data use."""
    kinds: dict[str, Kind] = Field(default_factory=dict)
    """Kinds of columns: number; label; labels (several in a cell, separated by |); others are detected."""
    unlisted: Literal["refuse", "skip"] = "refuse"
    """How to treat lines about users or items that the data lack."""


@dataclass(frozen=True)
class FeatureFiles:
    """The tables that a scenario names; the data set's own files are read if it names none."""

    users: FeatureFile | None = None
    items: FeatureFile | None = None
