"""The choice of the k largest scores: the same as by sorting, by both ways of moving numbers within vectors."""

import numba
import numpy as np
import pytest

from gossiprec.native import jit
from gossiprec.numerics import partial_rows

SIZES = [(1, 1), (37, 5), (300, 300), (5000, 1), (5000, 500), (5000, 4990)]


@pytest.mark.slow
@pytest.mark.parametrize("compresses", [True, False] if jit.COMPRESSES else [False])
def test_chosen_places_are_the_first_of_the_largest_scores(compresses, monkeypatch):
    monkeypatch.setattr(jit, "COMPRESSES", compresses)
    choose = numba.njit(partial_rows.choose)
    for width, k in SIZES:
        rng = np.random.default_rng(width + k)
        for scores in (
            rng.integers(-(2**31), 2**31, width),
            rng.integers(0, 40, width),
            np.zeros(width, int),
        ):
            scratch = partial_rows.scratch_rows(width)
            choose(scores.astype(np.int32), k, scratch[0, :width], scratch[2], scratch[3])
            expected = np.sort(np.argsort(-scores, kind="stable")[:k])
            np.testing.assert_array_equal(scratch[2, :k], expected)
