"""A measure of which lower is better used to be noted the wrong way round, as worse than random."""

import numpy as np
import pytest

from gossiprec.emulation import simulate
from gossiprec.measures import MEASURES, Measure
from tests.emulation.tiny_runs import tiny

NAME = "first_hit@5"


@pytest.fixture
def first_hit():
    """Register the rank of the first hit over K as a measure."""

    @MEASURES.register("first_hit")
    class FirstHit(Measure):
        """Rank of the first hit, over K; lower is better."""

        sampled = True
        lower_is_better = True

        @staticmethod
        def compute_values(seen, k):
            return np.minimum(seen.ranks.min(axis=1), k) / k

    yield FirstHit
    del MEASURES._members["first_hit"]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_notes_and_summary_name_the_orders_that_are_at_least_as_good(first_hit, seed, tmp_path):
    evaluate = {"every": 4, "metrics": [NAME, "hr@5"]}
    summary = simulate(tiny(seed=seed, evaluate=evaluate, observers=[]), out=tmp_path / "run").summary
    utility, notes = summary["utility"], "\n".join(summary["notes"])
    assert summary["not_above"].keys() == {"popularity", "random"}
    for order, found in summary["baselines"].items():
        is_better = {NAME: utility[NAME] < found[NAME], "hr@5": utility["hr@5"] > found["hr@5"]}
        assert summary["not_above"][order] == [name for name in found if not is_better[name]]
        assert (f"utility is not better than {order}: {NAME} " in notes) != is_better[NAME]
        assert (f"utility is not above {order}: hr@5 " in notes) != is_better["hr@5"]
