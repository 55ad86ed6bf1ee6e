"""Common names of the columns of users, items, ratings and times."""

from __future__ import annotations

import re
from collections.abc import Sequence

MEANINGS = ("user", "item", "rating", "time")
"""Meanings of a column; a column with any other meaning is skipped."""

PEOPLE = (
    "user",
    "customer",
    "reviewer",
    "member",
    "visitor",
    "account",
    "client",
    "person",
    "patient",
    "listener",
)
THINGS = (
    "item", "product", "movie", "article", "book", "song", "track", "artist", "venue", "business", "poi", "place",
    "location", "game", "anime", "recipe", "course", "restaurant", "video",
)  # fmt: skip
WORDS = {
    "user": {*PEOPLE, *(f"{word}id" for word in PEOPLE), "uid", "username", "users"},
    "item": {*THINGS, *(f"{word}id" for word in THINGS), "iid", "asin", "parentasin", "isbn", "sku", "items"},
    "rating": {"rating", "ratings", "score", "stars", "overall"},
    "time": {
        "time",
        "times",
        "timestamp",
        "unixtime",
        "datetime",
        "date",
        "ts",
        "unixreviewtime",
        "createdat",
    },
}
KIND = re.compile(r":(?:token|float)(?:_seq)?$")
"""Suffix with which the atomic files of RecBole give the type of a column."""


LABELS = {
    "label", "labels", "click", "clicks", "clicked", "isclick", "isclicked", "like", "likes", "liked", "islike",
    "isliked", "feedback", "target", "ispositive", "positive", "purchased", "ispurchased", "longview", "hate",
    "ishate", "follow", "isfollow", "finished", "iscompleted",
}  # fmt: skip
"""Names of columns that may mark by 0 and 1 which lines count."""


def is_label(name: str) -> bool:
    """Return whether a column, by its name, may mark which lines count."""
    return re.sub(r"[\W_]", "", KIND.sub("", name.strip().lower())) in LABELS


FLAGS = [
    {"0", "1"},
    {"-1", "1"},
    {"0.0", "1.0"},
    {"-1.0", "1.0"},
    {"true", "false"},
    {"yes", "no"},
    {"t", "f"},
    {"y", "n"},
]
"""Pairs of values of a column that may mark which lines count, in lower case."""


def are_flags(cells: Sequence[str]) -> bool:
    """Return whether cells may mark which lines count: two values, one of which is repeated."""
    return len(cells) > 2 and {cell.strip().lower() for cell in cells} in FLAGS


def column_role(name: str) -> str | None:
    """Return the meaning (one of :data:`MEANINGS`) that a column's name suggests, or None."""
    word = re.sub(r"[\W_]", "", KIND.sub("", name.strip().lower()))
    return next((meaning for meaning, words in WORDS.items() if word in words), None)


def column_roles(names: Sequence[str]) -> tuple[str, ...] | None:
    """Return the meaning of each column, ``-`` for none; None without one user and one item.

    Notes
    -----
    Two columns with the same meaning are ambiguous: the result is None, too.
    """
    found = tuple(column_role(name) or "-" for name in names)
    once = all(found.count(meaning) <= 1 for meaning in MEANINGS)
    return found if once and {"user", "item"} <= set(found) else None
