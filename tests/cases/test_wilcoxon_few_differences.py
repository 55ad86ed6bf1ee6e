"""Users that do not differ used to make p smaller: 5 of 40 users that differ gave .025, but .0625 is the least."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom, binomtest, rankdata, wilcoxon

from gossiprec.runs import signed_ranks
from gossiprec.runs.paired_tests import compare_pairs


def p_of(differences):
    return compare_pairs(np.zeros(len(differences)), np.asarray(differences, float), "users").p_value


def p_of_all_signs(differences):
    """Return the p-value by all signs of the ranks, without zeros."""
    own = np.asarray(differences, float)
    own = own[own != 0]
    ranks = rankdata(np.abs(own))
    signs = np.array([*itertools.product((0, 1), repeat=len(own))])
    smaller = min(ranks[own > 0].sum(), ranks[own < 0].sum())
    return min(1.0, 2 * (signs @ ranks <= smaller).mean())


@pytest.mark.parametrize(
    ("up", "down", "n", "expected"),
    [
        (5, 0, 40, 2 / 32),
        (5, 0, 13, 2 / 32),
        (5, 0, 14, 2 / 32),
        (5, 0, 15, 2 / 32),
        (4, 0, 24, 2 / 16),
        (7, 1, 24, 2 * 9 / 256),
        (32, 18, 500, 0.0649086),
        (0, 1, 30, 1.0),
        (0, 0, 30, 1.0),
    ],
)
def test_users_without_a_difference_do_not_matter(up, down, n, expected):
    assert p_of([1] * up + [-1] * down + [0] * (n - up - down)) == pytest.approx(expected, rel=1e-6)


def test_every_sign_is_counted():
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 5, 8, 11):
        for most in (1, 2, 4, 50):
            differences = rng.integers(-most, most + 1, n)
            expected = p_of_all_signs(differences) if differences.any() else 1.0
            assert p_of(differences) == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
def test_twelve_differences_with_ties_are_exact():
    differences = [3, 3, -1, 1, 1, 2, 2, -2, 4, 5, 5, 5, 0, 0]
    assert p_of(differences) == pytest.approx(p_of_all_signs(differences), rel=1e-12)


@pytest.mark.parametrize("n", [3, 12, 40, 300])
def test_without_ties_it_is_the_exact_test_of_scipy(n):
    differences = np.random.default_rng(n).normal(0.15, 1.0, n)
    assert p_of(differences) == pytest.approx(wilcoxon(differences, method="exact").pvalue, rel=1e-9)


@pytest.mark.parametrize("kind", ["plain", "tenths", "thirds"])
def test_the_approximation_agrees_where_it_takes_over(kind, monkeypatch):
    rng = np.random.default_rng(4)
    differences = {
        "plain": rng.normal(0.05, 1.0, 600),
        "tenths": np.round(3 * rng.normal(0.07, 1.0, 600)),
        "thirds": (rng.integers(-3, 4, 600) + (rng.random(600) < 0.1)).astype(float),
    }[kind]
    exact = signed_ranks.signed_rank_p_value(differences)
    monkeypatch.setattr(signed_ranks, "MOST_STEPS", 0)
    assert 0.01 < exact < 0.9
    assert signed_ranks.signed_rank_p_value(differences) == pytest.approx(exact, rel=0.01)
    assert signed_ranks.signed_rank_p_value(differences) != exact


def test_thousands_of_equal_sizes_are_exact():
    """The sum of ranks moves in steps of one large rank, which the normal approximation smooths by several percent."""
    differences = np.ones(4000)
    differences[:1930] = -1
    assert p_of(differences) == pytest.approx(binomtest(1930, 4000).pvalue, rel=1e-9)
    differences[-2:] = (
        0.5  # two small ranks: the sum is at most that of 1930 large ones, and of both small ones
    )
    chance = binom.cdf(1929, 3998, 0.5) + binom.pmf(1930, 3998, 0.5) / 4
    assert p_of(differences) == pytest.approx(2 * chance, rel=1e-9)


@pytest.mark.slow
def test_a_large_test_takes_the_approximation():
    differences = np.random.default_rng(5).normal(0.02, 1.0, 3000)
    expected = wilcoxon(differences, correction=True, method="asymptotic").pvalue
    assert p_of(differences) == pytest.approx(expected, rel=1e-9)
