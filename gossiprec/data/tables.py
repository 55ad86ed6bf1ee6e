"""Delimited text of users and items to interactions under dense ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gossiprec.arrays import F32, I64
from gossiprec.data.blocks import Layout
from gossiprec.data.cells import RATING, TIME, Codes
from gossiprec.data.columns import Convert, read_columns
from gossiprec.data.sources import Source
from gossiprec.data.split import Interactions

MEANINGS = ("user", "item", "rating", "time")
"""Column names that are read; any other name is skipped."""


@dataclass(frozen=True)
class Table:
    """A table read: names of users and items by dense id, and one entry per row."""

    user_names: tuple[str, ...]
    item_names: tuple[str, ...]
    users: I64
    items: I64
    ratings: F32 | None
    times: I64 | None


def read_table(source: Source, layout: Layout) -> Table:
    """Read a whole table; blank lines are skipped.

    Raises
    ------
    DataError
        If the source is damaged or empty, a line has the wrong number of columns, a user or an item has no
        name, a rating is no number, or a time neither a number nor a date.
    """
    users, items = Codes(), Codes()
    readers: dict[str, Convert] = {
        "user": users.reader("user"),
        "item": items.reader("item"),
        "rating": RATING,
        "time": TIME,
    }
    named = {name: read for name, read in readers.items() if name in layout.columns}
    arrays = read_columns(source, layout, named)
    return Table(
        tuple(users.ids),
        tuple(items.ids),
        arrays["user"],
        arrays["item"],
        arrays.get("rating"),
        arrays.get("time"),
    )


def interactions_from(table: Table, name: str) -> Interactions:
    """Number users and items by their sorted names, so that the order of the lines does not matter."""
    return Interactions(
        name=name,
        users=ranks(table.user_names)[table.users],
        items=ranks(table.item_names)[table.items],
        n_users=len(table.user_names),
        n_items=len(table.item_names),
        ratings=table.ratings,
        times=table.times,
    )


def ranks(names: Sequence[str]) -> I64:
    """Return the place of each name in sorted order: whole numbers by value, then words."""
    order = sorted(range(len(names)), key=lambda i: (not _is_number(names[i]), _number(names[i]), names[i]))
    ranks = np.empty(len(names), np.int64)
    ranks[order] = np.arange(len(names))
    return ranks


def _is_number(name: str) -> bool:
    return len(name) <= 18 and name.isascii() and name.isdigit()


def _number(name: str) -> int:
    return int(name) if _is_number(name) else 0
