"""Pseudo items: which pairs they replace, and by what law they are drawn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from gossiprec.federated.user_vectors import add_pseudo_items, complement_by_rank

N_ITEMS = 12
POSITIVES = np.array([0, 3, 4, 7, 11], np.int32)
OTHERS = [1, 2, 5, 6, 8, 9, 10]
CHANCE = 1e-4
"""Of a law that holds to be refused by chi-squared; draws are fixed."""


def pairs(positives=POSITIVES, each=1, negative=1):
    items = np.repeat(positives, each).astype(np.int32)
    return {"items": items, "negatives": np.full(len(items), negative, np.int32)}


def replaced(samples=None, *, share=0.1, seed=0, positives=POSITIVES, n_items=N_ITEMS):
    return add_pseudo_items(
        pairs(positives) if samples is None else samples,
        n_items=n_items,
        share=share,
        draw=np.random.default_rng(seed),
        positives=positives,
    )


def same(found, samples):
    return all(found[name].tolist() == samples[name].tolist() for name in samples)


def is_uniform(counts):
    mean = np.sum(counts) / np.size(counts)
    return np.sum((np.asarray(counts) - mean) ** 2) / mean < chi2.ppf(1 - CHANCE, np.size(counts) - 1)


def test_numbers_outside_are_those_that_are_not_taken_in_order():
    assert complement_by_rank(POSITIVES, np.arange(len(OTHERS))).tolist() == OTHERS
    assert complement_by_rank(POSITIVES[:0], np.array([4, 0])).tolist() == [4, 0]
    assert complement_by_rank(np.arange(3), np.array([[0], [5]])).tolist() == [[3], [8]]


def test_a_pseudo_item_and_its_negative_are_uniform_over_what_the_user_has_not_taken():
    found = replaced(pairs(each=4000), share=1.0)
    counts = np.zeros((N_ITEMS, N_ITEMS))
    np.add.at(counts, (found["items"], found["negatives"]), 1)
    among = np.zeros((N_ITEMS, N_ITEMS), bool)
    among[np.ix_(OTHERS, OTHERS)] = True
    np.fill_diagonal(among, False)
    assert counts[~among].sum() == 0
    assert counts.sum() == 20_000
    assert is_uniform(counts[among])  # 42 ordered pairs, about 476 each


def test_every_pair_is_as_likely_to_go():
    samples = pairs(each=2, negative=2)
    gone = np.zeros(10)
    for seed in range(4000):
        gone += replaced(samples, share=0.2, seed=seed)["items"] != samples["items"]
    assert gone.sum() == 8000
    assert is_uniform(gone)


@pytest.mark.parametrize(
    ("n_pairs", "share", "number"),
    [(10, 0.1, 1), (19, 0.1, 1), (20, 0.1, 2), (2, 0.1, 1), (10, 0.5, 5), (10, 1.0, 10), (4, 0.0, 0)],
)
def test_a_share_of_the_pairs_is_replaced_and_at_least_one(n_pairs, share, number):
    samples = pairs(np.resize(POSITIVES, n_pairs))
    found = replaced(samples, share=share)
    changed = ~np.isin(found["items"], POSITIVES)
    assert changed.sum() == number
    assert (found["items"][~changed] == samples["items"][~changed]).all()
    assert (found["negatives"][~changed] == samples["negatives"][~changed]).all()


def test_of_a_positive_with_several_negatives_some_pairs_may_stay():
    positives = np.array([2, 5], np.int32)
    kept = [
        int(
            (
                replaced(pairs(positives, each=4), share=0.25, seed=seed, positives=positives)["items"] == 2
            ).sum()
        )
        for seed in range(50)
    ]
    assert set(kept) == {2, 3, 4}


@pytest.mark.parametrize("each", [1, 5])
def test_users_of_a_single_item_keep_their_pairs_however_many_negatives_it_has(each):
    only = np.array([6], np.int32)
    for seed in range(20):
        assert same(replaced(pairs(only, each), share=1.0, seed=seed, positives=only), pairs(only, each))


@pytest.mark.parametrize("lacking", [0, 1])
def test_users_who_lack_less_than_two_items_keep_their_pairs(lacking):
    most = np.arange(N_ITEMS - lacking, dtype=np.int32)
    assert same(replaced(pairs(most), share=1.0, positives=most), pairs(most))


def test_users_who_lack_two_items_have_one_against_the_other():
    most = np.delete(np.arange(N_ITEMS, dtype=np.int32), [4, 9])
    found = replaced(pairs(most), share=1.0, positives=most)
    both = set(zip(found["items"].tolist(), found["negatives"].tolist(), strict=True))
    assert both == {(4, 9), (9, 4)}


def test_nothing_to_replace_is_left_as_it_is():
    assert replaced(pairs()).keys() == {"items", "negatives"}
    assert len(replaced(pairs(POSITIVES[:0]))["items"]) == 0


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_what_is_returned_is_new_and_of_the_same_types(share):
    samples = {**pairs(), "weights": np.arange(5, dtype=np.float32)}
    before = {name: column.copy() for name, column in samples.items()}
    found = replaced(samples, share=share)
    assert same(samples, before)
    assert found["weights"].tolist() == before["weights"].tolist()
    for name, column in found.items():
        assert column.dtype == samples[name].dtype
        assert not np.shares_memory(column, samples[name])


def test_the_same_draw_replaces_alike_and_another_otherwise():
    samples = pairs(each=10)
    assert same(replaced(samples, seed=3), replaced(samples, seed=3))
    assert not same(replaced(samples, seed=3), replaced(samples, seed=4))
