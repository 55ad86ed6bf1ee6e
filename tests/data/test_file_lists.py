"""Data set `file` with a user and its items on each line, in the order of time."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from small_data import dataset, pack, real, sets_of

from gossiprec.base.errors import DataError, ScenarioError
from gossiprec.data import load_split

LISTS = "bob 7 x 7 2\nann\n\ncid  x\t2 9\n"
# ids by sorted names: bob cid, and 2 7 9 x


def load(path, **options):
    return dataset("file", path=path, form="lists", **options).load(0)


def refusal(path, **options):
    with pytest.raises(DataError) as caught:
        load(path, **options)
    return str(caught.value)


@pytest.mark.parametrize("suffix", [".txt", ".gz", ".zip"])
def test_the_place_in_the_line_is_the_time(tmp_path, suffix):
    found = load(pack(tmp_path / f"a{suffix}", LISTS))
    assert found.users.tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert found.items.tolist() == [1, 3, 1, 0, 3, 0, 2]
    assert found.times.tolist() == [0, 1, 2, 3, 0, 1, 2]
    assert found.ratings is None
    assert (found.name, found.user_names, found.item_names) == ("a", ("bob", "cid"), ("2", "7", "9", "x"))


def test_the_order_of_lines_does_not_matter_and_that_of_items_does(tmp_path):
    lines = LISTS.splitlines(keepends=True)
    one, other = (load(pack(tmp_path / "a.txt", "".join(some))) for some in (lines, lines[::-1]))
    assert sorted(zip(one.users, one.items, one.times, strict=True)) == sorted(
        zip(other.users, other.items, other.times, strict=True)
    )
    turned = load(pack(tmp_path / "a.txt", LISTS.replace("x\t2 9", "9 2 x")))
    assert turned.items[turned.users == 1].tolist() == [2, 0, 3]


def test_the_ends_of_lines_are_held_out_and_an_item_counts_from_its_first_place(tmp_path):
    path = str(pack(tmp_path / "a.txt", "bob 7 x 7 2\ncid x 2 9\n"))
    split = load_split(
        "file", {"path": path, "form": "lists"}, "leave_last_k", {"test": 1, "validation": 1}, 1
    )
    assert [sets_of(part) for part in (split.train, split.validation, split.test)] == [
        [[1], [3]],
        [[3], [0]],
        [[0], [2]],
    ]


def test_lists_may_have_a_header_another_delimiter_and_another_encoding(tmp_path):
    path = pack(tmp_path / "a.csv", "who,what\nzoë,a b,c\n".encode("latin-1"))
    found = load(path, header=True, delimiter=",", encoding="latin-1")
    assert (found.user_names, found.item_names) == (("zoë",), ("a b", "c"))


def test_users_with_few_items_can_be_left_out_with_the_items_of_nobody_else(tmp_path):
    found = load(pack(tmp_path / "a.txt", "bob 7 8 7\ncid 9 7 3\n"), min_items=3)
    assert (found.user_names, found.item_names) == (("cid",), ("3", "7", "9"))
    assert (found.users.tolist(), found.items.tolist()) == ([0, 0, 0], [2, 1, 0])
    assert "no user has 4 distinct items; expected up to 3" in refusal(tmp_path / "a.txt", min_items=4)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "bob 1 2\ncid 3\n\nbob 4\n",
            "line 4: found user 'bob' again; expected one line for each user",
        ),
        ("", "found no line with an item"),
        ("bob\ncid\n", "found no line with an item"),
        ("bob 1\nc\0d 2\n", "line 2: found a zero byte"),
        (b"bob 1\nc\xffd 2\n", "line 2: found bytes that are not UTF-8 text"),
    ],
)
def test_damaged_lists_are_refused(tmp_path, text, words):
    assert words in refusal(pack(tmp_path / "a.txt", text))


def test_a_missing_name_is_refused(tmp_path):
    assert "line 2: found no name" in refusal(pack(tmp_path / "a.csv", "a,b\nc,,d\n"), delimiter=",")


@pytest.mark.parametrize(
    "options",
    [
        {"columns": ["user", "item"]},
        {"quote": "'"},
        {"item_texts": "texts.tsv"},
        {"min_rating": 4},
    ],
    ids=lambda options: next(iter(options)),
)
def test_what_belongs_to_pairs_is_refused_with_lists(options):
    (name,) = options
    with pytest.raises(ValidationError, match=f"found {name} with form: lists; expected only path, header"):
        dataset("file", path="a", form="lists", **options)
    dataset("file", path="a", form="pairs", **options)


def test_an_unknown_form_is_refused():
    with pytest.raises(ScenarioError, match="'pairs' or 'lists'"):
        load_split("file", {"path": "a", "form": "list"}, "random", {}, 1)


@pytest.mark.realdata
@pytest.mark.slow
def test_amazon_beauty_has_its_known_size_and_the_ends_of_its_lines_for_test():
    path = real("amazon") / "Beauty.txt.gz"
    found = load(path)
    assert (found.n_users, found.n_items, len(found.users)) == (22_363, 12_101, 198_502)
    assert found.times.max() == 203
    options = {"path": str(path), "form": "lists"}
    split = load_split("file", options, "leave_last_k", {"test": 1, "validation": 1}, 1)
    held = [split.item_names[part[0][0]] for part in (split.validation, split.test)]
    assert held == ["4", "5"]  # the file begins with 1 1 2 3 4 5
    assert [int(part.sizes.sum()) for part in (split.train, split.validation, split.test)] == [
        153_776,
        22_363,
        22_363,
    ]
