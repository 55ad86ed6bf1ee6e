"""No file of a real format, whole or spoilt, is misread in silence: it is read as it is, or refused clearly."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from real_formats import EACH, formats, mutated
from small_data import dataset

from gossiprec.base.errors import DataError

FORMATS = formats()
CLEAR = re.compile(
    r"(?:line|row) \d+: found .+; expected .+|found .+; expected .+; .+|"
    r".*(?:cannot be read|not a readable zip archive).*; .+|"
    r"found no (?:row|line with an item); expected .+|from line \d+ on: .+; .+",
    re.DOTALL,
)
"""Refusals in three parts: what was found, what is expected, and the next step."""


def rows_of(data):
    """Return user, item, rating and exact time of each interaction."""
    whole = [None] * len(data.users) if data.times is None else data.times.tolist()
    parts = [0.0] * len(data.users) if data.fractions is None else data.fractions.tolist()
    times = [None if t is None else t + part for t, part in zip(whole, parts, strict=True)]
    ratings = [None] * len(data.users) if data.ratings is None else data.ratings.tolist()
    users, items = (data.user_names[u] for u in data.users), (data.item_names[i] for i in data.items)
    return list(zip(users, items, ratings, times, strict=True))


def outcome(made, path):
    """Return ``read`` or ``refused``, or a sentence that says what is wrong."""
    path = path.with_name(path.name + made.suffix)
    path.write_bytes(made.content)
    try:
        data = dataset("file", path=path, **made.options).load(1)
    except DataError as error:
        said = re.sub(rf"^{re.escape(str(path))}(?::\S+)?: ", "", str(error))
        is_clear = error.exit_code == 2 and CLEAR.match(said)
        return "refused" if is_clear else f"refused without three parts: {error}"
    found = rows_of(data)
    names = [(user, item) for user, item, *_ in made.rows or ()]
    if made.rows is None:
        return f"read what must be refused: {data.source_summary} {found[:3]}"
    if found == made.rows:
        return "read"
    if (
        "may be truncated" in data.source_summary
        and [row[:2] for row in found[:-1]] == names[: len(found) - 1]
    ):
        return "read up to the cut"
    if found == made.rows[: len(found)]:
        return "read up to a line end"
    return f"misread: {data.source_summary} {found[:3]}, not {made.rows[:3]}"


@pytest.mark.parametrize("name", FORMATS)
def test_a_real_format_is_read_or_refused(tmp_path, name):
    made = FORMATS[name]
    assert outcome(made, tmp_path / "whole") == ("refused" if made.rows is None else "read")


@pytest.mark.parametrize("name", FORMATS)
def test_no_mutated_file_is_misread(tmp_path, name):
    wrong = {}
    for number, (way, made) in enumerate(mutated(name, FORMATS[name])):
        found = outcome(made, tmp_path / f"a{number}")
        if found not in ("read", "refused") and not (way == "cut" and found.startswith("read up to")):
            wrong[way] = found
    assert not wrong


@pytest.mark.full
def test_both_ends_come_about_in_400_files(tmp_path):
    counts: Counter[str] = Counter()
    for name, made in FORMATS.items():
        for number, (_, file) in enumerate(mutated(name, made)):
            counts[outcome(file, tmp_path / f"{len(counts)}{number}")] += 1
    print(dict(counts))
    assert sum(counts.values()) == EACH * len(FORMATS) >= 400
    assert min(counts["read"], counts["refused"]) > 100
