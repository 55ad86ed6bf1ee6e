"""Parquet: the same tables as from text, with the row of what is wrong."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from pyarrow import parquet
from small_data import load, pack, refusal

from gossiprec.data import parquet as module

WHEN = datetime(2010, 10, 19, 23, 55, 27, 999_000, UTC)


def written(folder, columns, name="a.parquet"):
    parquet.write_table(pa.table(columns), folder / name, row_group_size=2)
    return folder / name


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ("user_id", "item_id", "stars", "ts")),
        ({"columns": ["user", "item", "rating", "time"]}, ("a", "b", "c", "d")),
        ({"columns": {"user": "b", "item": "a", "time": "d"}}, ("b", "a", "c", "d")),
    ],
)
def test_columns_are_found_by_what_they_are_called_by_place_and_by_name(tmp_path, options, names):
    cells = (["ann", "bob", "ann"], [7, 8, 10], [1.5, 2.0, 3.0], [5, 6, -1])
    found = load(written(tmp_path, dict(zip(names, cells, strict=True))), **options)
    assert (found.user_names, found.item_names) == (("ann", "bob"), ("7", "8", "10"))
    assert (found.users.tolist(), found.items.tolist(), found.times.tolist()) == (
        [0, 1, 0],
        [0, 1, 2],
        [5, 6, -1],
    )
    assert (found.ratings is None) == ("rating" not in options.get("columns", ["rating"]))
    assert "Parquet, user = " in found.source_summary


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        (pa.array([WHEN]), 1_287_532_527),
        (pa.array([WHEN.replace(tzinfo=None)], pa.timestamp("ns")), 1_287_532_527),
        (pa.array([date(2010, 10, 19)]), 1_287_446_400),
        (pa.array(["2010-10-19T23:55:27Z"]), 1_287_532_527),
        (pa.array([1_287_532_527.75]), 1_287_532_527),
    ],
)
def test_times_may_be_of_any_type(tmp_path, times, seconds):
    path = written(tmp_path, {"user": pa.array(["ann"]).dictionary_encode(), "item": [1], "time": times})
    assert load(path).times.tolist() == [seconds]


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({"user": [1, 2, None], "item": [1, 2, 3]}, {}, "row 3: found no value in user"),
        ({"user": [1, 2, 2], "item": [1, 2, 3], "time": [1, 2, -3]}, {}, "row 3: found '-3'"),
        ({"user": [1.0, 2.0, float("nan")], "item": [1, 2, 3]}, {}, "row 3: found 'nan' as user"),
        ({"user": [[1]], "item": [1]}, {}, "row 1: found list<"),
        ({"user": [1, 2, 3], "item": [4, 5, 6], "read": [0, 1, 1]}, {}, "found the column 'read', which may"),
        ({"user": [1, 2, 3], "item": [4, 5, 6], "seen": [True, False, True]}, {}, "found the column 'seen'"),
        ({"wer": [1], "was": [2]}, {}, "found columns wer, was; expected a column named like a user"),
        (
            {"item": [1], "user": [2]},
            {"columns": ["user", "item"]},
            "found columns item, user, and ['user', 'item']",
        ),
        ({"user": [1], "item": [2]}, {"columns": {"user": "user", "item": "itme"}}, "did you mean 'item'?"),
        (
            {"user": [1], "item": [2]},
            {"delimiter": ",", "header": True},
            "found a Parquet file and header, delimiter",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, columns, options, words):
    path = written(tmp_path, columns)
    message = refusal(path, **options)
    assert message.startswith(str(path))
    assert words in message


def test_batches_do_not_show(tmp_path, monkeypatch):
    path = written(tmp_path, {"user": [1, 2, 3, 1], "item": [1, 2, 3, 4], "time": [1, 2, 3, -9]})
    monkeypatch.setattr(module, "ROWS", 1)
    assert "row 4: found '-9'" in refusal(path)
    found = load(path, columns={"user": "user", "item": "item"})
    assert (found.users.tolist(), found.items.tolist()) == ([0, 1, 2, 0], [0, 1, 2, 3])


@pytest.mark.parametrize("end", [3, 40, -1])
def test_a_damaged_file_is_refused_also_under_another_name(tmp_path, end):
    path = written(tmp_path, {"user": [1, 2], "item": [3, 4]})
    whole = path.read_bytes()
    path.write_bytes(whole[:end])
    assert "cannot be read as Parquet" in refusal(path)
    other = tmp_path / "a.csv"
    other.write_bytes(whole)
    assert load(other).n_users == 2


def test_text_called_parquet_is_refused(tmp_path):
    assert "cannot be read as Parquet" in refusal(pack(tmp_path / "a.parquet", "user,item\n1,2\n"))


def test_a_pyarrow_without_parquet_is_met_with_what_to_do(tmp_path, monkeypatch):
    path = written(tmp_path, {"user": [1], "item": [2]})
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    monkeypatch.delattr(pa, "parquet", raising=False)
    assert "pip install --force-reinstall pyarrow" in refusal(path)


def test_messages_about_wide_tables_are_short(tmp_path):
    path = written(tmp_path, {f"column {k}": [1, 2] for k in range(500)})
    assert len(refusal(path).removeprefix(str(path))) < 700
    text = pack(tmp_path / "a.csv", ",".join(f"column {k}" for k in range(500)) + "\n" + "x," * 499 + "x\n")
    assert "a header of 'column 0'" in refusal(text)
    assert len(refusal(text).removeprefix(str(text))) < 700
