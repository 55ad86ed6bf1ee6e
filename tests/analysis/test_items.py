"""Errors of shares over test items, and the multiples that pages print of them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from gossiprec.federated import RECOMMENDERS

PAGES = Path(__file__).parents[2] / "docs" / "record" / "papers"
BEAUTY, ML_1M = 22363, 6035


def standard_errors_apart(one, other, n_items):
    """Return the difference of two shares in standard errors of that difference, unpaired.

    Two runs are judged on the same test items, but which of them each hits is not kept. So their errors count as
    independent: the variances of both shares add up.
    """
    error = math.sqrt((one * (1 - one) + other * (1 - other)) / n_items)
    if one == other:
        return 0.0
    return (one - other) / error if error else math.copysign(math.inf, one - other)


@pytest.mark.parametrize(
    ("one", "other", "n", "words"),
    [
        (0.0258, 0.0216, BEAUTY, "(2.9 standard errors of a difference)"),
        (0.0352, 0.0258, BEAUTY, "(5.8 standard errors)"),
        (0.0242, 0.0216, BEAUTY, "(1.8 standard errors: not decided)"),
        (0.1173, 0.1075, ML_1M, "(.1173, 1.7 standard errors)"),
    ],
)
def test_multiples_of_the_fedcl_page_are_those_of_unpaired_errors(one, other, n, words):
    assert f"{standard_errors_apart(one, other, n):.1f} standard errors" in words
    page = " ".join((PAGES / "fedcl.md").read_text(encoding="utf-8").split())
    assert words in page


def test_the_error_of_a_difference_is_that_of_independent_draws():
    draw = np.random.default_rng(1)
    one, other = (draw.binomial(5000, p, 20000) / 5000 for p in (0.05, 0.04))
    found = standard_errors_apart(0.05, 0.04, 5000)
    assert 0.01 / (one - other).std() == pytest.approx(
        found, rel=0.03
    )  # 20,000 draws: 0.5 % of the deviation
    assert standard_errors_apart(0.1, 0.1, 10) == 0.0
    assert standard_errors_apart(0.0, 1.0, 10) == -np.inf


def test_the_table_of_all_papers_has_every_recommender_or_says_why_not():
    page = (PAGES.parent / "all_papers.md").read_text(encoding="utf-8")
    missing = page.partition("Not in the table:")[2].partition("## Columns")[0]
    study = (Path(__file__).parents[2] / "analysis" / "all_papers" / "study.yaml").read_text(encoding="utf-8")
    for name in RECOMMENDERS:
        if name.startswith("broken") or f"name: {name}" in study:
            continue
        assert f"`{name}`" in missing, name
