"""Measures of rankings with ties, compared with the mean over all orders of what ties."""

import itertools

import numpy as np
import pytest

from gossiprec.emulation.scoring.item_scores import (
    area_under_curve,
    average_precision,
    precision_at,
    rank_groups,
    true_positive_rate,
)


def orders(scores, members):
    """Yield the members in each order that sorts the scores, highest first."""
    for order in itertools.permutations(range(len(scores))):
        if all(scores[a] >= scores[b] for a, b in itertools.pairwise(order)):
            yield members[list(order)]


def by_definition(members):
    ranks = np.flatnonzero(members) + 1
    others = len(members) - len(ranks)
    below = [np.count_nonzero(~members[rank:]) for rank in ranks]
    return [
        sum(below) / (len(ranks) * others),
        np.mean([(place + 1) / rank for place, rank in enumerate(ranks)]),
        members[:3].mean(),
    ]


@pytest.mark.parametrize("seed", range(8))
def test_each_is_the_mean_over_all_orders(seed):
    draw = np.random.default_rng(seed)
    scores, members = draw.integers(0, 3, 7).astype(np.float32), draw.permutation(np.arange(7) < 3)
    groups = rank_groups(scores, members)

    expected = np.mean([by_definition(order) for order in orders(scores, members)], axis=0)

    found = [area_under_curve(groups), average_precision(groups), precision_at(scores, members, 3)]
    assert found == pytest.approx(list(expected))


def test_an_attacker_that_knows_nothing_finds_what_guessing_finds():
    members = np.arange(50) < 20
    groups = rank_groups(np.zeros(50, np.float32), members)

    assert area_under_curve(groups) == 0.5
    assert true_positive_rate(groups, 0.01) == pytest.approx(0.01)
    assert true_positive_rate(groups, 0.001) == pytest.approx(0.001)
    assert precision_at(np.zeros(50), members, 10) == pytest.approx(0.4)


def test_true_positives_are_those_above_the_threshold_of_the_false_ones():
    """Of 100 others, one is above 2 of 4 members, and another ties with the third."""
    scores = np.concatenate([[9, 8, 6, 1], [7, 6], np.full(98, 2)]).astype(np.float64)
    members = np.arange(len(scores)) < 4
    groups = rank_groups(scores, members)

    assert true_positive_rate(groups, 0.001) == pytest.approx(0.5)  # none of the others is let through
    assert true_positive_rate(groups, 0.01) == pytest.approx(0.5)
    assert true_positive_rate(groups, 0.015) == pytest.approx(
        0.625
    )  # the tie is let through half of the time
    assert true_positive_rate(groups, 0.02) == pytest.approx(0.75)
    assert true_positive_rate(groups, 1.0) == 1.0


@pytest.mark.parametrize("members", [np.zeros(4, bool), np.ones(4, bool), np.zeros(0, bool)])
def test_without_members_or_others_there_is_no_value(members):
    groups = rank_groups(np.arange(len(members), dtype=np.float32), members)

    assert np.isnan([area_under_curve(groups), true_positive_rate(groups, 0.01)]).all()
    assert np.isnan(average_precision(groups)) != bool(members.any())
    assert np.isnan(precision_at(np.arange(4.0), np.ones(4, bool), 4))
