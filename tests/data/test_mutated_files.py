"""Files of one's own are read as they are meant, or refused: none is understood wrongly in silence."""

from __future__ import annotations

import re

import pytest
from mutated_files import MUTATIONS, own_file
from small_data import dataset

from gossiprec.base.errors import DataError

FILES = 200
REFUSED = r"line \d+: found .+; expected |found .+; expected .+; .+|cannot be read: |found no row"


def rows_of(data):
    """Return what was read: user, item, rating, time of each line; None where there is no such column."""
    ratings = [None] * len(data.users) if data.ratings is None else data.ratings.tolist()
    times = [None] * len(data.users) if data.times is None else data.times.tolist()
    users, items = (data.user_names[u] for u in data.users), (data.item_names[i] for i in data.items)
    return list(zip(users, items, ratings, times, strict=True))


def outcome(file, path):
    """Return what was read and what was said of it, or no rows and the refusal."""
    path.write_bytes(file.content)
    try:
        data = dataset("file", path=path, **file.options).load(0)
    except DataError as error:
        return None, str(error)
    return rows_of(data), data.source_summary


@pytest.mark.parametrize("number", range(FILES))
def test_a_file_is_read_as_it_is_meant_or_refused(number, tmp_path):
    file, path = own_file(number), tmp_path / "own"
    path = path.with_suffix(file.suffix)
    rows, said = outcome(file, path)
    about = (file.what, file.options, said, file.content)
    if rows is None:
        assert re.match(rf"{re.escape(str(path))}: (?:{REFUSED})", said), about
        assert file.rows is None or file.cut, about
    elif file.cut:
        assert rows[:-1] == file.rows[: len(rows) - 1], about
        assert rows == file.rows[: len(rows)] or "may be truncated" in said, about
    else:
        assert rows == file.rows, about


def test_every_mutation_is_among_the_files_and_both_ends_come_about(tmp_path):
    assert len(MUTATIONS) * 6 <= FILES
    ends = [outcome(own_file(n), tmp_path / f"own{own_file(n).suffix}")[0] is None for n in range(FILES)]
    assert 60 < sum(ends) < FILES - 60
