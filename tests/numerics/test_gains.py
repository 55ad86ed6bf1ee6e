"""Mean gains of targets, compiled: those of counting reference by reference, to the bit."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy import float32

from gossiprec.measures.ranking import CUTOFF, discounted_gains
from gossiprec.native.jit import kernel
from gossiprec.native.tiles import LANES
from gossiprec.numerics.relevance_kernels import MANY, SCRATCH, mean_ndcg

SIZES = st.integers(1, 3 * LANES + 1)


@kernel
def gain_in(scores, n_targets):
    """Return the mean gain of the first scores among the others."""
    return mean_ndcg(scores[:n_targets], scores[n_targets:], np.empty(SCRATCH, float32))


def counted(targets, references):
    """Return what :func:`mean_ndcg` is to be."""
    total = 0.0
    for target in targets:
        ahead = int(np.sum(~(references < target)))
        total += discounted_gains(np.array([ahead]))[0] if ahead < CUTOFF else 0.0
    return total / len(targets)


@settings(deadline=None, max_examples=80)
@given(SIZES, st.one_of(st.integers(0, 3 * CUTOFF), st.integers(MANY - 1, MANY + 60)), st.integers(0, 2**32))
@example(LANES, MANY, 0)
@example(2 * LANES, MANY + 1, 0)
@example(1, 0, 0)
def test_a_rank_is_how_many_references_are_not_below(n_targets, n_references, seed):
    draws = np.random.default_rng(seed)
    scores = draws.normal(0, 1, n_targets + n_references).astype(np.float32)
    scores[:n_targets] += draws.uniform(0, 4)  # so that some are among the best of many
    if seed % 2:
        scores = np.round(scores * 4) / 4  # with ties
        odd = draws.random(len(scores))
        for chance, value in ((0.02, np.nan), (0.04, np.inf), (0.06, -np.inf)):
            scores[(chance - 0.02 <= odd) & (odd < chance)] = value

    assert gain_in(scores, n_targets) == counted(scores[:n_targets], scores[n_targets:])


@pytest.mark.parametrize("n_references", [CUTOFF, MANY + CUTOFF])
def test_a_reference_that_is_not_a_number_is_ahead_of_all(n_references):
    scores = np.zeros(1 + n_references, np.float32)
    scores[0] = np.inf
    scores[5:8] = np.nan
    assert gain_in(scores, 1) == discounted_gains(np.array([3]))[0]
    scores[1 : 1 + CUTOFF] = np.nan
    assert gain_in(scores, 1) == 0.0
