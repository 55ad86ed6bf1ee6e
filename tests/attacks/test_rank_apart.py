"""Victims who keep their user row are ranked by loops of their own, which a run without such victims does not need."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gossiprec.adversaries.attacks.cda import CDA, CDAOptions
from gossiprec.adversaries.attacks.fictive_users import FictiveUsers
from gossiprec.models.base.kernel_template import TemplateKernels
from gossiprec.models.base.template_observers import CLASSES, build_column_table
from gossiprec.native.jit import kernel
from tests.attacks.glimpses import make_world

filled = kernel(build_column_table.py_func)
DIM = 8


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3000), st.integers(0, 99), st.sampled_from([0.0, 1e-30, 1.0, 1e4, np.inf, np.nan]))
@example(1, 0, 1.0)
@example(3000, 0, np.nan)
@example(2, 3, 1.0)
def test_items_are_columns_and_the_best_of_an_average_come_first(n_items, seed, odd):
    draw = np.random.default_rng(seed)
    theta = draw.normal(size=(n_items, DIM)).astype(np.float32).round(1)
    theta[draw.random(n_items) < 0.1] = odd
    if seed % 2:  # as good as one another but for rounding
        theta = theta[:1] * (1 + draw.integers(0, 2, (n_items, 1)).astype(np.float32) * np.float32(1e-7))
    users, weights = draw.normal(size=(5, DIM)).astype(np.float32), draw.normal(size=DIM).astype(np.float32)
    table, place = np.full((DIM, n_items), 7.0, np.float32), np.full(n_items, -1)

    mean = (users * weights).sum(0)
    filled(np.append(np.zeros(3, np.float32), theta), 3, mean, table, place)

    assert sorted(place.tolist()) == list(range(n_items))
    np.testing.assert_array_equal(table[:, place], theta.T)
    if np.isfinite(theta).all():
        worth = (theta.astype(np.float64) @ (users * weights).sum(0))[np.argsort(place)]
        width = (worth.max() - worth.min()) / (CLASSES - 1)
        assert (np.diff(worth) <= 1.01 * width + 1e-4 * np.abs(worth).max()).all()


@pytest.mark.parametrize("hidden", [(), (2,)], ids=["all-share", "one-keeps"])
def test_what_a_run_does_not_need_is_not_compiled(monkeypatch, hidden):
    called = []
    monkeypatch.setattr(TemplateKernels, "rank", lambda *_: called.append("rank"))
    monkeypatch.setattr(FictiveUsers, "_fit_compiled", lambda *_: called.append("fit"))
    options = CDAOptions(who="coalition", members=(0,), reference_items=5, community_size=1)
    CDA(options, make_world(form="compiled", hidden=hidden)).warm_up()
    assert called == (["rank", "fit"] if hidden else [])
