"""What every registered data set keeps to; and that the contract catches those that do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gossiprec.data import DATASETS
from gossiprec.testing import check_dataset
from tests.contracts.broken import told

PAIRS = [(user, item) for user in (1, 2) for item in (1, 2, 5, 4, 7)]
DRAWN = {
    "synthetic": {"users": 8, "items": 20, "interactions": 64},
    "synthetic-checkins": {"users": 8, "items": 30, "checkins": 160},
}
FILES = {
    "file": ("any.csv", "{0},{1}\n", {"columns": ["user", "item"], "delimiter": ","}),
    "movielens-100k": ("u.data", "{0}\t{1}\t5\t88125000{0}\n", {}),
    "movielens-1m": ("ratings.dat", "{0}::{1}::4::97830{0}760\n", {}),
    "foursquare-nyc": (
        "dataset_TSMC2014_NYC.txt",
        "{0}\tv{1}\tc\tCafé\t40.7{1}\t-74\t-240\tTue Apr 03 18:0{1}:00 +0000 2012\n",
        {},
    ),
    "gowalla": ("loc.txt", "{0}\t2010-10-1{1}T23:55:27Z\t40.7{1}\t-73.9\t22{1}\n", {"min_checkins": 1}),
}
"""The name of a file of each data set that reads one, a line of it, and other options."""


def options_of(name, folder):
    """Return options with which a data set is read or drawn."""
    if name == "files":
        for part, start in (("train", 0), ("test", 4)):
            some = PAIRS[start::5] if start else [pair for place, pair in enumerate(PAIRS) if place % 5 < 4]
            (folder / part).write_text("".join(f"{user}\t{item}\n" for user, item in some))
        return {part: str(folder / part) for part in ("train", "test")}
    if name not in FILES:
        return DRAWN.get(name, {})
    file, line, options = FILES[name]
    lines = [line.format(user, item) for user, item in PAIRS]
    (folder / file).write_text("".join(lines))
    if name == "movielens-100k":  # whose published split lies beside it
        (folder / "ua.base").write_text("".join(lines[:4] + lines[5:9]))
        (folder / "ua.test").write_text("".join(lines[4::5]))
    return {"path": str(folder / file), **options}


@pytest.mark.parametrize("name", list(DATASETS))
def test_a_data_set_keeps_its_contract(name, tmp_path):
    check_dataset(DATASETS[name], options_of(name, tmp_path))


class Toy(DATASETS["synthetic"]):
    """Drawn data, of which something is changed."""

    def load(self, seed):
        return self.changed(super().load(seed))

    def changed(self, data):
        return data


class CountsFromOne(Toy):
    def changed(self, data):
        return replace(data, users=data.users + 1)


class LacksAUser(Toy):
    def changed(self, data):
        return replace(data, n_users=data.n_users + 1)


class NamesTwoAlike(Toy):
    def changed(self, data):
        return replace(data, user_names=("ann", "bob", *map(str, range(5)), "ann"))


class ForgetsRatings(Toy):
    def changed(self, data):
        return replace(data, ratings=data.ratings[1:])


class SmallNumbers(Toy):
    def changed(self, data):
        return replace(data, items=data.items.astype(np.int16))


class LivesOnTheMoon(Toy):
    def changed(self, data):
        return replace(data, coordinates=np.full((data.n_items, 2), 384_400.0))


class DrawsAnew(Toy):
    def changed(self, data):
        return replace(data, times=data.times + np.random.default_rng().integers(1, 2**31))


class HoldsOutTwice(Toy):
    def published_split(self, interactions):
        split = super().published_split(interactions)
        return replace(split, test=split.train)


class TellsABoolean(Toy):
    def provenance(self):
        return {"drawn": True}


BROKEN = {
    CountsFromOne: "Number users and items from 0.* Found users 1 to 8, must be from 0 to 7",
    LacksAUser: r"have an interaction of every user. Users \[8\] have no interaction",
    NamesTwoAlike: "Number users and items from 0.* Found 7 names of 8 users",
    ForgetsRatings: r"one rating and one time.* Found ratings of shape \(63,\)",
    SmallNumbers: "one item per interaction.* Found items in int16, must be int64",
    LivesOnTheMoon: "latitude and longitude of every item.* not on the globe",
    DrawsAnew: "Return byte-identical data for the same seed. Two loads differ in times",
    HoldsOutTwice: "a published split into disjoint parts.* is in two parts",
    TellsABoolean: "Return its provenance as text. Found True",
}


def test_a_data_set_need_not_be_registered():
    check_dataset(Toy, DRAWN["synthetic"])


@pytest.mark.parametrize("dataset", BROKEN, ids=lambda dataset: dataset.__name__)
def test_a_data_set_that_breaks_the_contract_is_told_which_claim(dataset):
    with told(dataset, BROKEN[dataset], kind="data set"):
        check_dataset(dataset, DRAWN["synthetic"])
