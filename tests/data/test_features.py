"""Attributes of users and items: what is read, by whose names, and which tables are refused."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from small_data import real

from gossiprec.base.errors import DataError
from gossiprec.base.features import FeatureFile, FeatureFiles, FeatureTable, LabelColumn, NumberColumn
from gossiprec.data import load_split
from gossiprec.data.features import label_column
from gossiprec.data.split import data_fingerprint

ROWS = "ann\tred\t5\nbob\tred\t3\nbob\tblue\t4\ncat\tgreen\t5\ncat\tred\t1\nann\tblue\t2\n"
USERS = "name,age,sex,likes\nbob,31,m,a|b\nann,,f,b\ncat,7.5,,\n"


def loaded(folder, users=None, items=None, features=True, **more):
    """Return the split of three users and three items with attributes."""
    (folder / "rows.tsv").write_text(ROWS)
    found = {}
    for key, text in (("users", users), ("items", items)):
        if text is not None:
            (folder / f"{key}.csv").write_text(text)
            found[key] = FeatureFile(path=folder / f"{key}.csv", **more)
    options = {"path": folder / "rows.tsv", "columns": ["user", "item", "rating"]}
    rule = ("random", {"test": 0.4, "validation": 0})
    return load_split("file", options, *rule, 1, features=FeatureFiles(**found) if features else None)


def texts(column):
    return [
        [column.labels[code] for code in row] for row in (column.codes[n] for n in range(len(column.codes)))
    ]


def test_columns_are_in_the_order_of_the_data_and_their_kinds_are_detected(tmp_path):
    table = loaded(tmp_path, USERS).user_features
    assert table.names == ("age", "sex", "likes")
    assert table.numbers("age").values.tolist()[1:] == [31.0, 7.5]
    assert table["age"].known.tolist() == [False, True, True]
    assert texts(table.labels("sex")) == [["f"], ["m"], []]
    assert texts(table.labels("likes")) == [["b"], ["a", "b"], []]
    assert table.labels("likes").shares().tolist() == [[0, 1], [0.5, 0.5], [0, 0]]


def test_a_user_without_a_line_has_unknown_values(tmp_path):
    table = loaded(tmp_path, "user\tsex\nbob\tm\n").user_features
    assert texts(table.labels("sex")) == [[], ["m"], []]


def test_kinds_may_be_stated(tmp_path):
    table = loaded(tmp_path, "user,zip\nann,12\nbob,7\n", kinds={"zip": "label"}).user_features
    assert table.labels("zip").labels == ("12", "7")
    with pytest.raises(DataError, match=r"users.csv: line 3: found 'x'; expected a finite number as zip"):
        loaded(tmp_path, "user,zip\nann,12\nbob,x\n", kinds={"zip": "number"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user,sex\nann,f\nbob,m\nann,m\n", "users.csv: line 4: found user 'ann' again; expected one line for each"),
        ("user,sex\nann,f\nzoe,f\n", "users.csv: line 3: found user 'zoe'; expected .*unlisted: skip"),
        ("user,sex\nzoe,f\n", "found attributes of 1 users, such as 'zoe'; expected those of the data, such as 'ann'"),
        ("user,sex\nann,f,1\n", "users.csv: line 2: found 3 columns; expected 2"),
        ("user\nann\n", "users.csv: line 1: found the header user; expected user, then the name of each attribute"),
        ("user,sex,sex\nann,f,f\n", "users.csv: line 1: found the header user, sex, sex"),
        ("user,sex\n", "users.csv: found no row"),
    ],
)  # fmt: skip
def test_a_bad_table_is_refused_with_its_line(text, message, tmp_path):
    with pytest.raises(DataError, match=message):
        loaded(tmp_path, text)


def test_unknown_items_are_refused_or_skipped(tmp_path):
    text = "item,colour\nred,r\npink,p\nblue,b\ngreen,g\n"
    with pytest.raises(DataError, match=r"items.csv: line 3: found item 'pink'; expected items of the data"):
        loaded(tmp_path, items=text)
    found = loaded(tmp_path, items=text, unlisted="skip").item_features
    assert texts(found.labels("colour")) == [["b"], ["g"], ["r"]]


def test_a_kind_of_a_column_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(
        DataError, match=r"line 1: found no column 'ages', which kinds names; expected .*: age"
    ):
        loaded(tmp_path, "user,age\nann,3\n", kinds={"ages": "label"})


def test_a_column_that_does_not_exist_is_named_with_those_that_do():
    table = FeatureTable(
        ("age", "sex"), (NumberColumn(np.zeros(2)), label_column([["f"], ["m"]])), "users.csv"
    )
    with pytest.raises(
        DataError, match=r"users.csv: found no column 'sec'; expected one of: age, sex.*'sex'"
    ):
        table["sec"]
    with pytest.raises(DataError, match="column age has numbers; expected labels"):
        table.labels("age")
    with pytest.raises(DataError, match="column sex has labels; expected numbers"):
        table.numbers("sex")


def test_rows_are_taken_and_minus_one_is_unknown():
    table = FeatureTable(
        ("age", "sex"), (NumberColumn(np.array([1.0, 2.0])), label_column([["f"], ["m", "x"]]))
    )
    found = table.take(np.array([1, -1, 0]))
    assert texts(found.labels("sex")) == [["m", "x"], [], ["f"]]
    np.testing.assert_array_equal(found.numbers("age").values, [2.0, np.nan, 1.0])
    assert isinstance(found["sex"], LabelColumn)


def test_only_data_with_attributes_have_another_fingerprint(tmp_path):
    plain, some = loaded(tmp_path, features=False), loaded(tmp_path, USERS)
    assert plain.user_features is None
    assert data_fingerprint(plain) == data_fingerprint(replace(some, user_features=None))
    prints = {data_fingerprint(loaded(tmp_path, text)) for text in (USERS, USERS.replace("31", "32"))}
    assert len(prints | {data_fingerprint(plain)}) == 3
    swapped = replace(some.user_features, names=("sex", "age", "likes"))
    assert data_fingerprint(replace(some, user_features=swapped)) not in prints


def test_models_get_the_columns_of_users_and_only_feeds_their_rows(tmp_path):
    split = loaded(tmp_path, USERS, "item,colour\nred,r\nblue,b\ngreen,g\n")
    public, own = split.training_data(), split.training_data(for_feed=True)
    assert public.user_features.labels("sex").labels == ("f", "m")
    assert (
        len(public.user_features.labels("sex").codes) == len(public.user_features.numbers("age").values) == 0
    )
    assert texts(own.user_features.labels("sex")) == [["f"], ["m"], []]
    assert texts(public.item_features.labels("colour")) == [["b"], ["g"], ["r"]]


@pytest.mark.realdata
@pytest.mark.parametrize("name", ["movielens-100k", "movielens-1m"])
@pytest.mark.full
def test_movielens_has_its_own_attributes(name):
    folder = real({"movielens-100k": "ml-100k", "movielens-1m": "ml-1m"}[name])
    rule = ("leave_last_k", {"test": 1})
    split = load_split(name, {"path": folder}, *rule, 1, features=FeatureFiles(), limit_users=50)
    people, movies = split.user_features, split.item_features
    assert people["gender"].known.all()
    assert len(people.labels("gender").codes) == 50
    genres = movies.labels("genres")
    assert len(genres.labels) == 18
    assert len(genres.codes) == split.n_items
    first = {
        "movielens-100k": ["Animation", "Children's", "Comedy"],
        "movielens-1m": ["Animation", "Children's", "Comedy"],
    }
    assert texts(genres)[0] == first[name]
    ages = people.numbers("age").values
    assert (ages[0], ages[1]) == {"movielens-100k": (24, 53), "movielens-1m": (1, 56)}[name]
    assert os.path.basename(people.source_summary) in ("u.user", "users.dat")
