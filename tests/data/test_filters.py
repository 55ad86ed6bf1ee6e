"""Which interactions of data with ratings count, and which users stay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from small_data import dataset, interactions, pack, real

from gossiprec.base.errors import DataError
from gossiprec.data import load_split
from gossiprec.data.base import FilterOptions, apply_filters

ROWS = (
    ("1", "10", 5, 100),
    ("1", "30", 2, 101),
    ("2", "20", 3, 102),
    ("4", "30", 4, 103),
    ("4", "10", 3.5, 104),
    ("4", "50", 4.5, 105),
)
WRITTEN = {
    "file": ("a.tsv", "\t"),
    "movielens-1m": ("ratings.dat", "::"),
    "movielens-100k": ("u.data", "\t"),
}

STATED = {"file": {"columns": ["user", "item", "rating", "time"]}, "movielens-1m": {}, "movielens-100k": {}}


def written(folder, name, rows=ROWS):
    file, mark = WRITTEN[name]
    return pack(folder / file, "".join(mark.join(map(str, row)) + "\n" for row in rows))


def facts(data):
    columns = {"users": data.users, "items": data.items, "ratings": data.ratings, "times": data.times}
    return {name: values.tolist() for name, values in columns.items()} | {
        "sizes": (data.n_users, data.n_items),
        "names": (data.user_names, data.item_names),
    }


@pytest.mark.parametrize("name", WRITTEN)
def test_low_ratings_leave_with_the_users_and_items_that_have_no_other(tmp_path, name):
    found = dataset(name, **STATED[name], path=written(tmp_path, name), min_rating=4).load(1)
    assert facts(found) == {
        "users": [0, 1, 1],
        "items": [0, 1, 2],
        "ratings": [5, 4, 4.5],
        "times": [100, 103, 105],
        "sizes": (2, 3),
        "names": (("1", "4"), ("10", "30", "50")),
    }


@pytest.mark.parametrize("name", ["file", "movielens-1m"])
@given(rows=st.lists(st.tuples(*(st.integers(1, n) for n in (5, 6, 5, 9))), min_size=1, max_size=20))
@pytest.mark.cases(1)
def test_what_is_kept_is_what_a_file_of_these_lines_alone_holds(name, rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    high = [row for row in rows if row[2] >= 3]
    thinned = dataset(name, **STATED[name], path=written(folder, name, rows), min_rating=3)
    if not high:
        with pytest.raises(DataError, match=r"no rating is 3 or more; expected up to [12], the highest"):
            thinned.load(1)
        return
    found = facts(thinned.load(1))
    assert found == facts(dataset(name, **STATED[name], path=written(folder, name, high)).load(1))


def test_users_are_counted_by_the_different_items_that_they_have_left(tmp_path):
    rows = [*ROWS, ("1", "10", 5, 99)]
    found = dataset(
        "file", **STATED["file"], path=written(tmp_path, "file", rows), min_rating=4, min_items=2
    ).load(1)
    assert (found.user_names, found.item_names) == (("4",), ("30", "50"))


def test_users_need_the_larger_of_both_bounds_and_items_their_own():
    data = interactions([(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)])
    found = apply_filters(data, FilterOptions(min_interactions=2, min_items=3))
    assert (found.n_users, found.n_items) == (2, 3)
    assert found.items.tolist() == [0, 1, 2, 0, 1, 2]


def test_texts_and_places_go_with_their_items():
    data = replace(
        interactions([(0, 2), (1, 0), (1, 3)]),
        ratings=np.array([1, 5, 5], np.float32),
        item_texts=("a", "b", "c", "d"),
        coordinates=np.arange(8.0).reshape(4, 2),
    )
    found = apply_filters(data, FilterOptions(min_rating=5))
    assert found.item_texts == ("a", "d")
    assert found.coordinates.tolist() == [[0, 1], [6, 7]]


def test_texts_of_a_movie_are_those_of_the_items_that_stay(tmp_path):
    pack(tmp_path / "movies.dat", "10::Ten (1999)::Drama\n30::Thirty (2000)::Crime\n50::Fifty::War\n")
    found = dataset("movielens-1m", path=written(tmp_path, "movielens-1m"), min_rating=4.5).load(1)
    assert found.item_texts == ("ten drama", "fifty war")


def test_nothing_is_left_out_unless_it_is_said(tmp_path):
    path = written(tmp_path, "file")
    assert facts(dataset("file", **STATED["file"], path=path).load(1)) == facts(
        dataset("file", **STATED["file"], path=path, min_rating=2).load(1)
    )
    assert len(dataset("file", **STATED["file"], path=path).load(1).users) == len(ROWS)


def test_data_without_ratings_refuse_a_least_rating():
    with pytest.raises(DataError, match="tiny: has no ratings; expected data with ratings"):
        apply_filters(interactions([(0, 0)]), FilterOptions(min_rating=1))


def test_columns_without_a_rating_refuse_a_least_rating():
    with pytest.raises(
        ValidationError, match="expected columns with a rating; name it, or remove min_rating"
    ):
        dataset("file", path="a", columns=["user", "item"], min_rating=4)


@pytest.mark.parametrize("options", [{"min_rating": "nan"}, {"min_rating": "high"}, {"min_items": 0}])
@pytest.mark.parametrize("name", WRITTEN)
def test_impossible_bounds_are_refused(name, options):
    with pytest.raises(ValidationError):
        dataset(name, **STATED[name], path="a", **options)


@pytest.mark.parametrize("options", [{"min_rating": 1}, {"min_items": 2}, {"min_interactions": 2}])
def test_the_published_split_of_movielens_100k_needs_all_ratings(tmp_path, options):
    path = written(tmp_path, "movielens-100k", [(user, item, 5, 9) for user in (1, 2) for item in (1, 2, 3)])
    pack(tmp_path / "ua.base", "1\t1\n2\t2\n")
    pack(tmp_path / "ua.test", "1\t3\n2\t3\n")
    load_split("movielens-100k", {"path": path}, "published", {}, 1)
    with pytest.raises(
        DataError, match="expected with split published, which divides all ratings: None, 1, 1"
    ):
        load_split("movielens-100k", {"path": path, **options}, "published", {}, 1)


@pytest.mark.realdata
@pytest.mark.full
def test_every_kept_rating_of_movielens_1m_has_a_time_and_every_user_can_be_split():
    options = {"path": real("ml-1m"), "min_rating": 4, "min_items": 3}
    found = dataset("movielens-1m", **options).load(1)
    assert (found.n_users, found.n_items, len(found.users)) == (6035, 3533, 575_276)
    assert found.times.min() > 0
    split = load_split("movielens-1m", options, "leave_last_k", {"test": 1, "validation": 1}, 1)
    assert split.train.sizes.min() == 2


def core_by_definition(pairs, of_items, of_users):
    """Remove one user or item at a time, by sets: slow, and in no particular order."""
    pairs = {*pairs}
    while True:
        sides = [({u for u, _ in pairs}, 0, of_users), ({i for _, i in pairs}, 1, of_items)]
        poor = [(k, one) for ones, k, n in sides for one in ones if sum(p[k] == one for p in pairs) < n]
        if not poor:
            return pairs
        side, one = poor[-1]
        pairs = {pair for pair in pairs if pair[side] != one}


@given(
    pairs=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=40),
    k=st.integers(2, 4),
    least=st.integers(1, 4),
)
def test_the_core_is_what_is_left_when_nobody_has_less(pairs, k, least):
    left = core_by_definition(pairs, k, max(k, least))
    data = replace(interactions(pairs), user_names=tuple("abcdefg"), item_names=tuple("stuvwxy"))
    options = FilterOptions(min_interactions=k, min_items=least)
    if not left:
        with pytest.raises(DataError, match="lower min_interactions"):
            apply_filters(data, options)
        return
    found = apply_filters(data, options)
    names = zip(found.users.tolist(), found.items.tolist(), strict=True)
    assert {(found.user_names[u], found.item_names[i]) for u, i in names} == {
        ("abcdefg"[u], "stuvwxy"[i]) for u, i in left
    }
    assert (found.n_users, found.n_items) == (len({u for u, _ in left}), len({i for _, i in left}))


@pytest.mark.realdata
def test_amazon_beauty_is_its_own_five_core_as_s3_rec_publishes_it():
    path = real("amazon") / "Beauty.txt.gz"
    found = dataset("file", path=path, form="lists", min_interactions=5).load(1)
    assert (found.n_users, found.n_items, len(found.users)) == (22_363, 12_101, 198_502)
