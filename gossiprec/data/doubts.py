"""What a table says that nobody can have meant: refused, although it could be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gossiprec.data.columns import Table, is_number

MISSING = ("nan", "null", "none", "na", "n/a", "nil", "<na>")
"""How programs write a cell that has no value."""
LIKE_TIMES = 1e8
"""Ratings are below, and times in seconds above: this one was in 1973."""

Doubt = tuple[int, str, str]
"""A row from 0, what was found in it, and what is allowed."""


def doubts(table: Table, header: Sequence[str] = ()) -> Iterator[Doubt]:
    """Yield what cannot be meant.

    Parameters
    ----------
    table : Table
    header : sequence of str
        What it calls the column of users and that of items; nothing without a header.
    """
    both = ("user", table.user_names, table.users), ("item", table.item_names, table.items)
    for kind, names, codes in both:
        absent = [name for name in names if name.lower() in MISSING]
        if absent and len(absent) < len(names) and all(is_number(name) for name in {*names} - {*absent}):
            row = int(np.argmax(codes == names.index(absent[0])))
            yield (
                row,
                f"{absent[0]!r} as {kind}, where all others are numbers",
                "lines that name both; drop others",
            )
    if header and all(name in names for name, (_, names, _) in zip(header, both, strict=True)):
        again = np.all(
            [codes == names.index(name) for name, (_, names, codes) in zip(header, both, strict=True)], 0
        )
        if again.any():
            yield int(np.argmax(again)), "the header again", "one header, before all rows"
    if table.ratings is not None and table.times is not None:
        rating, time = float(table.ratings.min()), int(table.times.max())
        if rating >= LIKE_TIMES > time:
            yield (
                0,
                f"ratings from {rating:g} and times up to {time}",
                "the other way round; exchange them in columns",
            )
