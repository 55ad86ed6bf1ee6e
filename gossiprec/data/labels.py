"""Columns without a meaning that may mark which rows count, such as clicks: they must not be skipped silently."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import yaml
from pyarrow import compute as pc

from gossiprec.data.column_parsers import FALSE, TRUE

LABELS = {
    "label", "labels", "click", "clicks", "clicked", "isclick", "isclicked", "like", "likes", "liked", "islike",
    "isliked", "feedback", "target", "ispositive", "positive", "purchased", "ispurchased", "longview", "hate",
    "ishate", "follow", "isfollow", "finished", "iscompleted",
}  # fmt: skip
"""Names of columns that may mark which lines count."""
FLAGS = [
    {"0", "1"}, {"-1", "1"}, {"0.0", "1.0"}, {"-1.0", "1.0"}, {"true", "false"}, {"yes", "no"}, {"t", "f"}, {"y", "n"},
    {"", "1"}, {"", "1.0"}, {"", "true"}, {"", "yes"}, {"like", "dislike"}, {"up", "down"}, {"positive", "negative"},
]  # fmt: skip
"""Pairs of values, in lower case, that may mark which lines count even if one of them is not repeated."""
MAX_SPELLINGS = 16
"""Number of texts that may be two values, which differ in case and blanks."""
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@dataclass(frozen=True)
class ValueCounts:
    """The number of rows with each value, in lower case, of columns that have two values at most.

    Attributes
    ----------
    counts : dict
        Counts by the name of a column; a column with a third value is removed.
    """

    counts: dict[str, Counter[str]]

    @classmethod
    def of(cls, names: Iterable[str]) -> ValueCounts:
        """Return the counts before the first row."""
        return cls({name: Counter() for name in names})

    def add(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Count the values of further rows, which have at least the columns that are still in `counts`."""
        for name in [*self.counts]:
            held, found = self.counts[name], pc.value_counts(rows[name])
            if len(found) <= MAX_SPELLINGS:
                for each in found.to_pylist():
                    value = each["values"]
                    held["" if value is None else str(value).strip().lower()] += each["counts"]
            if len(found) > MAX_SPELLINGS or len(held) > 2:
                del self.counts[name]

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the columns that may mark which rows count: with two values, both of which are repeated."""
        return tuple(
            name
            for name, held in self.counts.items()
            if len(held) == 2 and (min(held.values()) > 1 or (held.total() > 2 and {*held} in FLAGS))
        )


def label_message(
    name: str, values: Collection[str], columns: Mapping[str, str], rows: str = "lines"
) -> tuple[str, str]:
    """Return the two parts of the message about a column that may mark which rows count: found, expected.

    Parameters
    ----------
    name : str
    values : collection of str
        Values of the column.
    columns : mapping of str to str
        The names of the columns with a meaning.
    rows : str
    """
    found = f"the column {name!r}, which may mark the {rows} that count"
    least = _least_rating(values)
    if least is None:
        shown = " and ".join(map(repr, sorted(values)[:2]))
        keep = f"to keep only the {rows} with one value of {shown}, remove the others from the file first"
    else:
        which = "its ones" if least == "1" else f"the {rows} with at least {least}"
        rated = {**columns, "rating": name}
        in_order: dict[str, str] = {
            role: rated[role] for role in ("user", "item", "rating", "time") if role in rated
        }
        keep = f"to keep {which}, set columns: {flow(in_order)} and min_rating: {least}"
    return found, f"columns by name; {keep}; to keep all {rows}, set columns: {flow(columns)}"


def _least_rating(values: Collection[str]) -> str | None:
    """Return the lowest rating that a label may have to count, or None if the values are no ratings."""
    words = {value.strip().lower() for value in values}
    if words <= {*TRUE, *FALSE, "0", "1", "0.0", "1.0"}:
        return "1"
    if not all(map(NUMBER.fullmatch, words)):
        return None
    numbers = sorted(map(float, words))
    return f"{numbers[min(len(numbers) - 1, 1)]:g}"


def flow(columns: Mapping[str, str]) -> str:
    """Return names of columns as YAML in one line."""
    return yaml.safe_dump(
        dict(columns), default_flow_style=True, sort_keys=False, allow_unicode=True, width=float("inf")
    ).strip()
