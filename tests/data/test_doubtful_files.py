"""Files that programs spoil in ways that look like a table are refused by name, not read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from small_data import dataset, load, pack, refusal

from gossiprec.base.errors import DataError

HEAD = "user_id,item_id,rating,timestamp\n"
ROWS = [(1 + k % 8, 1 + k * 7 % 15, 1 + k % 5, 1_370_000_000 + k) for k in range(40)]


def table(form="{},{},{},{}", head=HEAD):
    return head + "".join(f"{form.format(*row)}\n" for row in ROWS)


def lists(form, n=12, sep=" "):
    of = [[str(2 + (5 * k + 3 * u) % 37) for k in range(3 + u * 5 % 7)] for u in range(n)]
    return "".join(
        form.format(u=u + 1, n=len(held), items=sep.join(held)) + "\n" for u, held in enumerate(of)
    )


@pytest.mark.parametrize(
    "name",
    [
        "-1",
        "unknown",
        "n.a.",
        "#NUM!",
        "<null>",
        "[null]",
        "Total",
        "inf",
        "…",
        "'1",
        '"=""1"""',
        "#",
        "user",
        "1.4e+09",
    ],
)
@pytest.mark.parametrize("place", [0, 1])
def test_a_word_for_no_value_among_numbers_is_refused(tmp_path, name, place):
    row = ["3", "3", "4", "1370000001"]
    row[place] = name
    path = pack(tmp_path / "a.csv", table() + ",".join(row) + "\n")
    assert "line 42: found" in refusal(path)
    assert load(path, doubtful_names="keep").user_names


def test_names_with_digits_and_few_names_are_no_doubt(tmp_path):
    assert load(pack(tmp_path / "a.csv", table() + "3,043935806X,4,1370000001\n")).n_items == 16
    assert load(pack(tmp_path / "b.csv", "user,item\n1,2\n2,3\nann,4\n")).n_users == 3


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("{},{},{},1.37E+09", "found '1.37E\\+09'; .* write all digits"),
        ("{0},{1},{2},2010101910{0:02}00", "found '20101019100100'; .* write the date with hyphens"),
        ("{0},{1},{2},20101019{0:02}", "dates without hyphens"),
        ("{0},{1},{2},20101019{0:02}30", "dates without hyphens"),
    ],
)
def test_times_that_lost_digits_or_hyphens_are_refused(tmp_path, form, words):
    with pytest.raises(DataError, match=words):
        load(pack(tmp_path / "a.csv", table(form)))


def test_a_date_after_a_blank_is_a_date(tmp_path):
    assert load(pack(tmp_path / "a.csv", table("{0}, {1}, {2}, 2010-10-0{0}"))).times.min() == 1_285_891_200


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("V1,V2,V3,V4\n" + table("u{},i{},{},{}", ""), "which may be a header"),
        ("_c0,_c1\n" + table("u{},i{}", ""), "which may be a header"),
        ("8 15\n" + table("{} {}", ""), "the numbers of users and items, 8 and 15"),
        ("15 8\n" + table("{} {}", ""), "the numbers of users and items"),
        (
            "user,item,x\n" + "".join(f"{u},{i},{'1' if r > 2 else ''}\n" for u, i, r, _ in ROWS),
            "the column 'x'",
        ),
        ("head_id:token\ttail_id:token\na\tb\n", "the header of a RecBole atomic file"),
        ("user_id:token\tage:float\n1\t24\n2\t30\n", "the header of a RecBole atomic file"),
        ("movie7:\nann,3,2005-09-06\n", "as in the Netflix Prize data"),
        ("1:\n30878\n2647871\n10:\n1952305\n", "as in the Netflix Prize data"),
        ("1:\r1488844,3,2005-09-06\r", "as in the Netflix Prize data"),
    ],
)
def test_tables_of_other_programs_are_refused_by_name(tmp_path, text, words):
    assert words in refusal(pack(tmp_path / "a.txt", text))


def test_a_stated_column_of_sequences_is_refused(tmp_path):
    path = pack(tmp_path / "a.inter", "user_id:token\titem_id_list:token_seq\n1\t3\n2\t4 5\n3\t6\n")
    for columns in ({"user": "user_id:token", "item": "item_id_list:token_seq"}, ["user", "item"]):
        assert "a list of values in one cell" in refusal(path, columns=columns, header=True)


@pytest.mark.parametrize(
    "content",
    [
        b"BM\x36\0\0\0\0\0",
        b"\0\0\1\0\1\0",
        b"8BPS\0\1",
        b"ID3\3\0\0",
        b"\0\0\0\x18ftypheic",
        b"\0\0\0\x18ftypmp42",
    ],
)
def test_pictures_and_films_are_to_be_exported(tmp_path, content):
    assert "; export the table as CSV" in refusal(pack(tmp_path / "a.csv", content))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (lists("{n} {items}")[:-4], "begins with the number of its items"),
        ("12 38\n" + lists("{n} {items}"), "begins with the number of its items"),
        (lists("{n}:{items}"), "begins with the number of its items"),
        (lists("{u} {n} {items}"), "has the number of its items after the user"),
        (lists("{u},{n},{items}", sep=","), "has the number of its items after the user"),
        (lists('{u},"{items}"', sep=","), "a part of quotes or brackets"),
        (lists("{u} [{items}]", sep=", ").replace(" 2", " 2"), "that a comma and blanks would split"),
        (lists("{u} ({items})"), "a part of quotes or brackets"),
        ("user_id item_ids\n" + lists("{u} {items}"), "which may be a header"),
        ("# a comment\n" + lists("{u} {items}"), "which may be a header"),
        ("".join(f"{u} {u + 9} {u + 11} 0 0 0\n" for u in range(1, 9)), "on every line, most of which repeat"),
        ("".join(f"{u} {u % 2} 1 0 {u % 3 % 2} 1\n" for u in range(9)), "on every line, most of which repeat"),
        ("".join(f"{u} {u + 9} 1370000{u}00 {u + 11} 1370000{u}01\n" for u in range(9)), "in every second place"),
        ("".join(f"{u} {3 * u + 9} {u % 5} {3 * u + 11} {1 + u % 4}\n" for u in range(30)), "in every second place"),
        ("".join(f"{u} -1 {u + 3} -1 {u + 5} -2\n" for u in range(1, 9)), "'-1' as item"),
    ],
)  # fmt: skip
def test_what_is_no_list_of_items_is_refused(tmp_path, text, words):
    assert words in refusal(pack(tmp_path / "a.txt", text), form="lists")


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_numbers_that_a_type_cannot_distinguish_are_refused(tmp_path, kind):
    large = 2.0 ** (np.finfo(kind).nmant + 1)
    columns = {"user_id": np.arange(5), "item_id": np.arange(5) + 3, "timestamp": np.arange(5).astype(kind)}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    assert load(tmp_path / "a.parquet").times.tolist() == [0, 1, 2, 3, 4]
    parquet.write_table(
        pa.table(columns | {"timestamp": columns["timestamp"] + np.dtype(kind).type(large)}),
        tmp_path / "a.parquet",
    )
    assert "such as int64" in refusal(tmp_path / "a.parquet")


def test_whole_times_of_type_float_have_all_digits(tmp_path):
    columns = {"user": [1, 2], "item": [3, 4], "time": [1.37e12, 1.3700000005e12]}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    found = load(tmp_path / "a.parquet", time_unit="ms")
    assert (found.times.tolist(), found.fractions.tolist()) == ([1_370_000_000] * 2, [0.0, 0.5])


@pytest.mark.parametrize("column", [[1.0, 0.0, 1.0], ["0", "1", "0"], ["no", "yes", "no"]])
def test_a_parquet_column_that_may_mark_rows_is_refused_whatever_its_type(tmp_path, column):
    columns = {"user_id": [1, 1, 2], "item_id": [3, 4, 5]}
    for x in (pa.array(column), pa.array(column).dictionary_encode()):
        parquet.write_table(pa.table(columns | {"x": x}), tmp_path / "a.parquet")
        assert "the column 'x', which may mark the rows" in refusal(tmp_path / "a.parquet")


PARTS = {
    "a word among numbers": ("1\t2\n2\t3\n3\t4\n4\t5\n5\t6\n6\t7\nnan\t4\n", "1\t9\n", {}),
    "a number in two ways": ("1\t2\n2\t3\n", "1\t02\n", {}),
    "several values": ("1 2\t4\n2 3\t5\n", "1 2\t6\n", {}),
    "a header": ("user\titem\n1\t2\n", "1\t3\n", {}),
    "marks": ("1\t2\t1\n1\t3\t0\n2\t3\t1\n", "1\t5\t1\n", {}),
    "counts": ("1 3 5 6 7\n2 2 8 9\n", "1 8\n", {"form": "lists"}),
    "quotes": ('1 "2 3"\n2 "4 5"\n', "1 6\n", {"form": "lists"}),
    "padding": ("1 2 3 0 0\n2 3 4 0 0\n", "1 6\n", {"form": "lists"}),
}


@pytest.mark.parametrize("name", PARTS)
def test_files_of_a_split_are_refused_for_the_same_reasons(tmp_path, name):
    train, test, options = PARTS[name]
    options |= {"train": pack(tmp_path / "train", train), "test": pack(tmp_path / "test", test)}
    with pytest.raises(DataError, match=r"line \d+: found .*; expected"):
        dataset("files", **options).load(1)
    if name in ("a word among numbers", "a number in two ways", "several values", "padding"):
        assert dataset("files", **options, doubtful_names="keep").load(1).n_users
