"""Users whose data a run leaves out: their rows are empty, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.errors import DataError
from gossiprec.base.features import FeatureFile, FeatureFiles
from gossiprec.data import load_split

CITY = {"users": 8, "items": 30, "checkins": 160, "communities": 2}
RULE = ("leave_last_k", {"test": 1, "validation": 1}, 3)


def city(**more):
    return load_split("synthetic-checkins", CITY, *RULE, **more)


def rows(table, user):
    return table[user].tolist()


def test_only_the_rows_of_these_users_are_emptied():
    whole, cut = city(), city(without=[0, 5])
    assert (cut.n_users, cut.n_items) == (whole.n_users, whole.n_items)
    for name in ("train", "validation", "test", "sequences"):
        before, after = getattr(whole, name), getattr(cut, name)
        for user in range(8):
            assert rows(after, user) == ([] if user in (0, 5) else rows(before, user))
    for part in ("train", "test"):
        before, after = getattr(whole.check_ins, part), getattr(cut.check_ins, part)
        kept = ~np.isin(before.items.row_of_each_value, [0, 5])
        assert after.items.values.tolist() == before.items.values[kept].tolist()
        assert after.items.row_of_each_value.tolist() == before.items.row_of_each_value[kept].tolist()
        assert after.previous.tolist() == before.previous[kept].tolist()
        np.testing.assert_array_equal(after.gap_minutes, before.gap_minutes[kept])


@pytest.fixture
def named(tmp_path):
    lines = [f"{user},i{item},{item}" for user in ("7", "ann", "bob") for item in range(4)]
    (tmp_path / "views.csv").write_text("\n".join(["user,item,time", *lines, ""]))
    (tmp_path / "users.csv").write_text("user,gender\n7,f\nann,m\nbob,f\n")

    def load(*without):
        return load_split(
            "file", {"path": str(tmp_path / "views.csv")}, "leave_last_k", {"test": 1}, 1,
            features=FeatureFiles(FeatureFile(path=tmp_path / "users.csv"), None), without=without,
        )  # fmt: skip

    return load


def test_users_are_named_as_in_the_data_and_lose_their_attributes(named):
    cut = named("ann", 2)
    assert cut.user_names == named().user_names == ("7", "ann", "bob")
    assert cut.train.sizes.tolist() == [3, 0, 0]
    assert cut.user_features.labels("gender").known.tolist() == [True, False, False]
    assert named("7").train.sizes.tolist() == [0, 3, 3]


@pytest.mark.parametrize(
    ("without", "words"),
    [
        (["anna"], "no user named 'anna'; did you mean 'ann'"),
        ([7], "found user 7; expected a node id from 0 to 2; a name in the data must be quoted: '7'"),
        ([0, "ann", 2], "found all 3 users"),
    ],
)
def test_unknown_users_and_all_users_are_refused(named, without, words):
    with pytest.raises(DataError, match=f"^dataset.without: .*{words}"):
        named(*without)


def test_names_need_data_with_names():
    with pytest.raises(DataError, match=r"'3', but the users of .* have no names"):
        city(without=["3"])
