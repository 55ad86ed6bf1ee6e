"""What every registered similarity keeps to; and that the contract catches those that do not."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.rules.similarities import SIMILARITIES, Similarity
from gossiprec.testing import check_similarity
from tests.contracts.broken import told

OPTIONS = {"titles": {}, "co-occurrence": {"public_users": 0.5}, "word-vectors": {"path": "words.txt"}}


@pytest.mark.parametrize("name", list(SIMILARITIES))
def test_a_similarity_keeps_its_contract(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.txt").write_text("red 1 0.5\nhouse 0 1\nnight -1 1\n")
    check_similarity(SIMILARITIES[name], OPTIONS[name])


class Near(Similarity):
    """Items of near numbers are alike."""

    sensitivity = 5.0

    def fit(self, split, *, seed):
        self.n_items = split.n_items
        return self

    def rows(self, items):
        return -np.abs(items[:, None] - np.arange(self.n_items)).astype(np.float32)


class InDoubles(Near):
    def rows(self, items):
        return super().rows(items).astype(np.float64)


class Unknown(Near):
    def rows(self, items):
        return super().rows(items) * np.float32("inf")


class ByCompany(Near):
    def rows(self, items):
        return super().rows(items) * np.float32(len(items))


class LikesOthers(Near):
    sensitivity = None

    def rows(self, items):
        return -super().rows(items)


class SaysTooLittle(Near):
    sensitivity = 1.0


BROKEN = {
    InDoubles: "Return finite float32.* Found float64",
    Unknown: r"Return finite float32.* Found (nan|-inf)",
    ByCompany: "Return a bit-identical row.* The row of item 4 differs among",
    LikesOthers: "no higher similarity of an item to another.* Found 5 for item 0, and -?0 with itself",
    SaysTooLittle: "differ by no more than `sensitivity`.* They differ by 5, but the sensitivity is 1",
}


def test_a_similarity_need_not_be_registered():
    check_similarity(Near)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("similarity", BROKEN, ids=lambda similarity: similarity.__name__)
def test_a_similarity_that_breaks_the_contract_is_told_which_claim(similarity):
    with told(similarity, BROKEN[similarity], kind="similarity"):
        check_similarity(similarity)
