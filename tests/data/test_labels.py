"""Columns that may mark which rows count are refused until they are named; words are ratings of 0 and 1."""

from __future__ import annotations

import pyarrow as pa
import pytest
import yaml
from pyarrow import parquet
from small_data import dataset, load, pack, refusal

from gossiprec.base.errors import DataError
from gossiprec.data import parquet as parquet_reader
from gossiprec.data import text_blocks

USERS, ITEMS = [f"u{k % 4}" for k in range(20)], [f"i{k % 7}" for k in range(20)]
NAMED = {"user": "user_id", "item": "item_id"}


def write(folder, name, values, kind):
    if kind == "parquet":
        table = {"user_id": USERS, "item_id": ITEMS, name: values}
        parquet.write_table(pa.table(table), folder / "a.parquet")
        return folder / "a.parquet"
    texts = ("" if value is None else str(value) for value in values)
    lines = (",".join(row) + "\n" for row in zip(USERS, ITEMS, texts, strict=True))
    return pack(folder / "a.csv", f"user_id,item_id,{name}\n" + "".join(lines))


def tips(message):
    """Return the options that a message names: to keep some lines, if it does so, and to keep all."""
    found = [yaml.safe_load(part.partition("}")[0] + "}") for part in message.split("set columns: ")[1:]]
    least = message.partition("min_rating: ")[2].partition(";")[0]
    return (
        [{"columns": found[0], "min_rating": float(least)}, {"columns": found[1]}]
        if least
        else [{"columns": found[0]}]
    )


PAIRS = {
    "bool": ([True, False], 10), "yes": (["yes", "No"], 10), "t": (["t", "f"], 10), "y": (["Y", "N"], 10),
    "words": (["TRUE", "false"], 10), "numbers": ([1, 0], 10), "signs": ([1, -1], 10), "floats": ([1.0, 0.0], 10),
    "empty": (["true", None], 10), "one": (["1", ""], 10), "stars": ([2, 1], 10),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("pair", PAIRS)
def test_the_tips_for_a_column_of_two_ratings_can_be_followed(pair, kind, tmp_path):
    values, kept = PAIRS[pair]
    path = write(tmp_path, "purchased" if pair != "stars" else "x", values * 10, kind)
    message = refusal(path)
    assert "which may mark the" in message
    some, every = tips(message)
    assert len(load(path, **some).users) == kept
    assert len(load(path, **every).users) == 20


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    "values",
    [
        ["like", "dislike"],
        ["up", "down"],
        ["view", "transaction"],
        ["M", "F"],
        ["x", None],
        ["A ", "b", "a", "B"],
    ],
)
def test_a_column_of_two_repeated_words_is_refused_until_it_is_named(values, kind, tmp_path):
    path = write(tmp_path, "reaction", values * (20 // len(values)), kind)
    message = refusal(path)
    assert "found the column 'reaction', which may mark the" in message
    (every,) = tips(message)
    assert len(load(path, **every).users) == 20
    one = write(tmp_path, "reaction", [values[0]] * 20, kind)  # "remove the others from the file first"
    assert len(load(one).users) == 20


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    "values",
    [
        ["a"] * 20,
        ["a"] * 19 + ["b"],
        [""] * 19 + ["great"],
        ["a", "b", "c", "a"] * 5,
        [1.5, 2, 3, 4] * 5,
        [*range(20)],
    ],
)
def test_a_column_with_another_number_of_repeated_values_is_skipped(values, kind, tmp_path):
    path = write(tmp_path, "x", [str(value) for value in values], kind)
    assert "skipped: x" in load(path).source_summary


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_one_dislike_among_many_likes_is_enough(kind, tmp_path):
    assert "'x', which may mark" in refusal(write(tmp_path, "x", ["like"] * 19 + ["dislike"], kind))


def test_the_second_value_may_come_late(tmp_path, monkeypatch):
    monkeypatch.setattr(text_blocks, "BLOCK", 1024)
    monkeypatch.setattr(parquet_reader, "ROWS", 64)
    rows = "".join(f"u{k % 9},i{k},{'like' if k < 600 else 'dislike'}\n" for k in range(610))
    path = pack(tmp_path / "a.csv", "user_id,item_id,x\n" + rows)
    assert "line 1: found the column 'x', which may mark the lines" in refusal(path)
    late = {"user_id": ["a"] * 300, "item_id": ["b"] * 300, "x": ["v"] * 290 + ["w"] * 10}
    parquet.write_table(pa.table(late | {"n": range(300)}), tmp_path / "a.parquet")
    assert "the column 'x', which may mark the rows" in refusal(tmp_path / "a.parquet")


def test_two_values_in_a_part_of_a_split_are_refused_until_columns_are_named(tmp_path):
    train = pack(tmp_path / "train", "".join(f"u{k % 3}\ti{k}\t{'ab'[k % 2]}\n" for k in range(8)))
    options = {"train": train, "test": pack(tmp_path / "test", "u0\ti1\ta\n")}
    with pytest.raises(DataError, match=r"column 3, which may mark .* columns: \[user, item, -\]"):
        dataset("files", **options).load(1)
    assert dataset("files", **options, columns=["user", "item", "-"]).load(1).n_users == 3


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_words_are_ratings_of_one_and_zero(kind, tmp_path):
    values = ["true", "Yes", "T", "y", "1", "1.0", "false", "NO", "f", "N", "", "0"] + [" true "] * 8
    path = write(tmp_path, "rating", values, kind)
    assert "ratings of 0 and 1 only" in refusal(path)
    assert load(path, min_rating=0).ratings.tolist() == [1.0] * 6 + [0.0] * 6 + [1.0] * 8


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([4, 5, None, 3] * 5, "3: found no rating among other ratings; expected a finite number"),
        (["4", "5", "yes", "3"] * 5, "3: found 'yes' among other ratings"),
        (["like"] * 20, "found 'like'; expected a finite number as rating"),
    ],
)
def test_among_other_ratings_a_word_or_an_empty_cell_is_refused(values, words, kind, tmp_path):
    line = int(words[0]) + 1 if words[0].isdigit() and kind == "csv" else words[0]
    assert f"{line}{words[1:]}" in refusal(write(tmp_path, "rating", values, kind))


def test_words_and_numbers_in_different_blocks_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text_blocks, "BLOCK", 1024)
    rows = "".join(f"u{k % 9},i{k},{'yes' if k < 300 else 4}\n" for k in range(400))
    path = pack(tmp_path / "a.csv", "user,item,rating\n" + rows)
    assert "line 302: found '4' among other ratings" in refusal(path)
