"""Geometry of item vectors: of vectors whose numbers are known."""

import numpy as np
import pytest

from analysis import perfedrec_pp
from analysis.papers.claims import HELD, NOT_HELD
from analysis.papers.item_vectors import (
    OTHERS,
    POPULAR,
    correlation_norm,
    pairwise_cosines,
    split_by_popularity,
    uniformity,
    uniformity_by_seed,
)
from tests.analysis.cl_runs import level, runs_of

CONE = np.ones((6, 2), np.float32)
CROSS = np.array([[1, 0], [-1, 0], [0, 1], [0, -1], [1, 0], [0, 1]], np.float32)
"""Items that all point one way, and items in four directions."""
POPULARITY = np.array([9, 8, 7, 1, 1, 1])


def test_uniformity_tells_a_cone_from_a_sphere():
    alike = np.ones((5, 3))
    assert uniformity(pairwise_cosines(alike)) == pytest.approx(0)
    opposite = np.array([[1.0, 0], [-2.0, 0]])
    assert pairwise_cosines(opposite).tolist() == [-1]
    assert uniformity(pairwise_cosines(opposite)) == pytest.approx(-8)  # |x - y|^2 is 4
    assert pairwise_cosines(opposite, np.array([[0, 3.0]])).tolist() == [0, 0]


def test_the_correlation_norm_is_that_of_the_paper():
    independent = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    assert correlation_norm(independent) == pytest.approx(np.sqrt(2) / 2)
    assert correlation_norm(independent[:, [0, 0]]) == pytest.approx(1)


def test_popular_items_come_first_and_halves_where_there_are_few():
    found = split_by_popularity(np.array([3, 9, 3, 1]))
    assert [own.tolist() for own in found.values()] == [[1, 0], [2, 3]]
    many = split_by_popularity(np.arange(1000))
    assert len(many[POPULAR]) == 100
    assert many[POPULAR][0] == 999


def kept(folder, experiment, items, seeds=3):
    """Return runs of an experiment that kept these items."""
    told = {experiment: level(0.04, seeds=seeds)}
    return runs_of(folder, told, version={"items": items, "popularity": POPULARITY})


def test_runs_that_kept_no_version_have_no_uniformity(tmp_path):
    runs = runs_of(tmp_path, {"scaled-fedgnn": level(0.04, seeds=2)})
    assert uniformity_by_seed(runs, "scaled-fedgnn", POPULAR) == {}
    runs = kept(tmp_path / "kept", "scaled-fedgnn", CONE, seeds=2)
    assert uniformity_by_seed(runs, "scaled-fedgnn", OTHERS) == pytest.approx({1: 0, 2: 0})


@pytest.mark.parametrize(
    ("whole", "without", "verdict"), [(CROSS, CONE, HELD), (CONE, CROSS, NOT_HELD)], ids=["spread", "cone"]
)
def test_perfedrec_pp_judges_whether_pre_training_spreads_items(tmp_path, whole, without, verdict):
    runs = kept(tmp_path, "scaled-perfedrec-pp", whole) | kept(tmp_path, "scaled-perfedrec", without)
    (found,) = [
        one for one in perfedrec_pp.REPORT.judge_claims(runs) if one.claim.startswith("Pre-training spreads")
    ]
    assert found.verdict == verdict
    page = "".join(part.markdown() for part in perfedrec_pp.extra_sections(runs))
    assert "| scaled | PerFedRec |" in page
    assert "| scaled | PerFedRec++ |" in page
