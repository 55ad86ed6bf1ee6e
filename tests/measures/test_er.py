"""Exposure ratio: to how many of those who might be shown a target it is shown."""

import numpy as np
import pytest

from gossiprec.measures import MEASURES, TargetRanks
from gossiprec.measures.ranking import target_ranks

ER = MEASURES["er"]


def test_those_who_have_a_target_are_not_asked():
    ranks = np.array([[0, -1], [5, -1], [-1, -1], [9, 2]], np.int32)
    assert ER.compute_values(TargetRanks(ranks), 6) == pytest.approx([2 / 3, 1.0])
    assert ER.compute_values(TargetRanks(ranks), 1) == pytest.approx([1 / 3, 0.0])


def test_a_target_that_everybody_has_is_left_out():
    assert np.isnan(ER.compute_values(TargetRanks(np.array([[-1], [-1]], np.int32)), 3)).tolist() == [True]


def test_it_agrees_with_lists_written_out():
    draw = np.random.default_rng(2)
    scores, candidates = draw.random((30, 25)), draw.random((30, 25)) < 0.8
    targets, k = np.array([3, 8, 24]), 4
    found = ER.compute_values(TargetRanks(target_ranks(scores, candidates, targets)), k)
    for target, ratio in zip(targets, found, strict=True):
        able = [u for u in range(30) if candidates[u, target]]
        lists = {
            u: sorted(np.flatnonzero(candidates[u]), key=lambda item: -scores[u, item])[:k] for u in able
        }
        assert ratio == pytest.approx(np.mean([target in lists[u] for u in able]))
        assert 0 < ratio < 1
