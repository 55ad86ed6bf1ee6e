"""The k largest of each row."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gossiprec.measures.ranking import top_k

few_levels = hnp.arrays(
    np.float32, st.tuples(st.integers(0, 4), st.integers(1, 7)), elements=st.sampled_from([-np.inf, 0, 1, 2])
)


@given(few_levels, st.integers(0, 7))
def test_equals_the_head_of_a_stable_descending_sort(scores, k):
    k = min(k, scores.shape[1])
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    assert top_k(scores, k).tolist() == expected.tolist()
