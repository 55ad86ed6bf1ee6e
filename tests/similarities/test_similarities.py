"""What similarities say of items: their laws, what they read, and what they refuse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gossiprec.base.errors import DataError, ScenarioError
from gossiprec.base.options import build_registered
from gossiprec.base.ragged import Ragged
from gossiprec.rules.similarities import SIMILARITIES, rounded_unit_vectors, shifted_cosines
from gossiprec.testing.rules import TEXTS, tiny_split

EVERY = np.arange(len(TEXTS))
NO_TEXT = TEXTS.index("")
VECTORS = "red 1 0 0\nhouse 0 1 0\nblue -1 0 0\nnight 0 0 2\ntrain 0 0 1\ndrama 0 0 0\nthe 1 1 1\n"


def fitted(told, split=None, seed=1):
    return build_registered(SIMILARITIES, told).fit(split or tiny_split(), seed=seed)


def refusal(kind, told, split=None):
    with pytest.raises(kind) as caught:
        fitted(told, split)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


@pytest.fixture
def told(request, tmp_path):
    """Return what a scenario says of each similarity."""
    (tmp_path / "glove.txt").write_text(VECTORS)
    (tmp_path / "public.txt").write_text("a item-0 item-1\nb item-0\nb item-5\nc item-1 item-9\n")
    return {
        "titles": "titles",
        "few dimensions": {"name": "titles", "dim": 2},
        "word-vectors": {"name": "word-vectors", "path": tmp_path / "glove.txt"},
        "public file": {"name": "co-occurrence", "path": tmp_path / "public.txt"},
        "public users": {"name": "co-occurrence", "public_users": 0.6},
    }[request.param]


ALL = ("titles", "few dimensions", "word-vectors", "public file", "public users")


@pytest.mark.parametrize("told", ALL, indirect=True)
def test_a_similarity_is_symmetric_from_0_to_1_and_1_of_an_item_with_itself(told):
    rows = fitted(told).rows(EVERY)
    assert (rows == rows.T).all()
    assert (rows.diagonal() == 1).all()
    assert (rows >= 0).all()
    assert (rows <= 1).all()
    assert len(np.unique(rows)) > 3


@pytest.mark.parametrize("told", ["titles", "few dimensions", "word-vectors"], indirect=True)
def test_an_item_without_a_text_is_like_itself_alone(told):
    row = fitted(told).rows(np.array([NO_TEXT]))[0]
    assert row.tolist() == [float(item == NO_TEXT) for item in EVERY]


def test_titles_that_share_rarer_words_are_nearer():
    split = replace(
        tiny_split(), item_texts=("drama red", "drama blue", "crime red", "drama a", "drama b", "c d")
    )
    row = fitted("titles", split).rows(np.array([0]))[0]
    assert row[2] > row[1] > row[5] == pytest.approx(0.5, abs=1e-6)


def test_word_vectors_are_means_of_the_words_that_have_one(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text(VECTORS)
    rows = fitted({"name": "word-vectors", "path": path}).rows(EVERY)
    the_red_house, the_blue_house = np.array([2, 2, 1]), np.array([0, 2, 1])
    cosine = the_red_house @ the_blue_house / np.linalg.norm(the_red_house) / np.linalg.norm(the_blue_house)
    assert rows[0, 1] == pytest.approx((1 + cosine) / 2, abs=1e-4)
    assert rows[0, 5] == 0  # none of its words has a vector


def test_co_occurrence_is_the_cosine_of_who_has_what_in_public(tmp_path):
    path = tmp_path / "public.txt"
    path.write_text("a item-0 item-1\nb item-0\nb item-5\nc item-1 item-9\nd item-1\n")
    rows = fitted({"name": "co-occurrence", "path": path}).rows(EVERY)
    assert rows[0].tolist() == pytest.approx([1, 1 / np.sqrt(6), 0, 0, 0, 1 / np.sqrt(2)])
    assert rows[2].tolist() == [0, 0, 1, 0, 0, 0]


def test_items_go_by_their_numbers_where_data_name_none(tmp_path):
    path = tmp_path / "public.txt"
    path.write_text("a 0 1\n")
    rows = fitted({"name": "co-occurrence", "path": path}, replace(tiny_split(), item_names=None)).rows(EVERY)
    assert rows[0, 1] == 1


def test_only_public_users_count_and_the_seed_draws_them():
    split = tiny_split()
    half = {"name": "co-occurrence", "public_users": 0.5}
    drawn = {fitted(half, split, seed).rows(EVERY).tobytes() for seed in (1, 1, 2, 3)}
    assert len(drawn) == 3

    def changed(user):
        """Return whether it matters what a user has."""
        parts = [split.train[u] if u != user else np.setdiff1d(EVERY, split.train[u]) for u in range(8)]
        other = replace(split, train=Ragged.from_parts([part.astype(np.int32) for part in parts]))
        return (fitted(half, other).rows(EVERY) != fitted(half, split).rows(EVERY)).any()

    assert sum(changed(user) for user in range(8)) == 4


@pytest.mark.parametrize("told", ["titles", "word-vectors"], indirect=True)
def test_data_without_texts_are_refused(told):
    for texts in (None, ("",) * len(TEXTS), ("!",) * len(TEXTS)):
        message = refusal(ScenarioError, told, replace(tiny_split(), item_texts=texts))
        assert "compares item texts, but tiny has none; expected movielens-1m with movies.dat" in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("red 1 2\nhouse 1\n", "line 2: found 1 cells after the word; expected a word and 2 finite numbers"),
        (
            "red 1 2\nhouse 1 two\n",
            "line 2: found could not convert string to float: b'two'; expected a word and 2",
        ),
        ("red 1 2\nhouse 1 nan\n", "line 2: found a NaN or infinite number; expected a word and 2 finite"),
        (
            "rouge 1 2\n",
            "found no vector of a word in the item texts; expected text with a word and its numbers",
        ),
        ("", "found no vector of a word"),
    ],
)
def test_word_vectors_that_cannot_be_are_refused(tmp_path, text, words):
    path = tmp_path / "glove.txt"
    path.write_text(text)
    message = refusal(DataError, {"name": "word-vectors", "path": path})
    assert f"{path}: {words}" in message


def test_public_data_of_other_items_are_refused(tmp_path):
    path = tmp_path / "public.txt"
    path.write_text("a red blue\n")
    message = refusal(DataError, {"name": "co-occurrence", "path": path})
    assert "found none of the items of tiny" in message
    assert "such as item-0" in message


@pytest.mark.parametrize("options", [{}, {"path": "a.txt", "public_users": 0.5}])
def test_public_data_are_of_one_source(options):
    with pytest.raises(ValueError, match=r"found path .* and public_users .*; set exactly one of them"):
        build_registered(SIMILARITIES, {"name": "co-occurrence", **options})


def test_the_part_of_public_users_is_a_part():
    with pytest.raises(ValueError, match=r"co-occurrence: public_users: found 0, "):
        build_registered(SIMILARITIES, {"name": "co-occurrence", "public_users": 0})


def test_titles_keep_the_main_dimensions_of_tf_idf():
    """By numpy's whole decomposition of the weights as they are defined: smoothed idf, rows of length 1."""
    split = replace(tiny_split(), item_texts=("a b", "a c", "b c d", "d e a", "e e b", "c d"))
    counts = np.array([[text.split().count(word) for word in "abcde"] for text in split.item_texts], float)
    weights = counts * (np.log(7 / (1 + np.count_nonzero(counts, axis=0))) + 1)
    left, sizes, _ = np.linalg.svd(weights / np.linalg.norm(weights, axis=1, keepdims=True))
    kept = left[:, :2] * sizes[:2]
    kept /= np.linalg.norm(kept, axis=1, keepdims=True)
    found = fitted({"name": "titles", "dim": 2}, split).rows(EVERY)
    assert found == pytest.approx((1 + kept @ kept.T) / 2, abs=1e-4)


@pytest.mark.full
def test_cosines_are_the_same_to_the_bit_in_any_grouping_and_both_ways_round():
    unit = rounded_unit_vectors(np.random.default_rng(1).normal(size=(700, 64)))
    whole = shifted_cosines(unit, np.arange(700))
    assert (whole == whole.T).all()
    for size in (1, 3, 64, 500):
        parts = [
            shifted_cosines(unit, np.arange(start, min(start + size, 700))) for start in range(0, 700, size)
        ]
        assert (np.concatenate(parts) == whole).all()
    assert whole == pytest.approx((1 + unit @ unit.T) / 2, abs=1e-4)
