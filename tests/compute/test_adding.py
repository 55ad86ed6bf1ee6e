"""Sums of updates: whatever the threads, and however many versions they were made from."""

from dataclasses import replace

import numpy as np
import pytest

from gossiprec.base.machine import ThreadPool
from gossiprec.compute.store import update as sums
from gossiprec.compute.store.update import Update, UpdateBatch, are_finite, sum_deltas, weighted_sum
from gossiprec.numerics.buffer_pool import BufferPool

WIDTH, N_ITEMS = 8, 40


def updates_of(n_versions, n_shared, seed=0, n=6):
    draw = np.random.default_rng(seed)
    size = N_ITEMS * WIDTH
    versions = [draw.normal(0, 1, size + n_shared).astype(np.float32) for _ in range(n_versions)]
    versions[0][:WIDTH] = -0.0
    for k in range(n):
        base = versions[k % n_versions]
        items = np.sort(draw.choice(N_ITEMS, 5, replace=False)).astype(np.int32)
        rows = base[:size].reshape(N_ITEMS, WIDTH)[items] + draw.normal(0, 1, (5, WIDTH)).astype(np.float32)
        yield Update(base, items, rows, base[size:] + draw.normal(0, 1, n_shared).astype(np.float32))


def in_batches(updates, per_batch):
    """Return the updates with their numbers in batches of trainers, each batch in reverse order and with gaps."""
    found = []
    for begin in range(0, len(updates), per_batch):
        some = updates[begin : begin + per_batch][::-1]
        begins = 7 * np.arange(len(some))
        items, rows = np.zeros(7 * len(some), np.int32), np.full((7 * len(some), WIDTH), np.nan, np.float32)
        for at, update in zip(begins, some, strict=True):
            items[at : at + 5], rows[at : at + 5] = update.items, update.rows
        shared = np.array([update.shared for update in some])
        batch = UpdateBatch(some[0].base, begins, begins + 5, items, rows, shared)
        views = [replace(update, trained=batch, number=k) for k, update in enumerate(some)]
        found += views[::-1]
    return found


def naive(updates, shares):
    """Return the same: all changes in their order, then each version, the one seen first at first."""
    total, parts = np.zeros(len(updates[0].base)), {}
    for update, share in zip(updates, shares, strict=True):
        total += share * (update.model.astype(np.float64) - update.base)
        parts.setdefault(id(update.base), [update.base, 0.0])[1] += share
    for version, share in parts.values():
        total += version.astype(np.float64) * share
    return total.astype(np.float32)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize(("n_versions", "n_shared"), [(1, 12), (1, 0), (3, 7)])
def test_a_sum_is_that_of_whole_models_in_their_order(n_versions, n_shared, n_threads):
    updates = list(updates_of(n_versions, n_shared))
    shares = np.random.default_rng(1).dirichlet(np.ones(len(updates)))
    found = weighted_sum(updates, shares, ThreadPool(n_threads), BufferPool())
    assert found.tobytes() == naive(updates, shares).tobytes()


def test_what_no_update_touches_is_that_of_the_version():
    (update,) = updates_of(1, 3, n=1)
    untouched = np.setdiff1d(np.arange(N_ITEMS), update.items)
    found = weighted_sum([update], np.ones(1), ThreadPool(2), BufferPool())[: N_ITEMS * WIDTH].reshape(
        N_ITEMS, WIDTH
    )
    assert np.array_equal(found[untouched], update.base[: N_ITEMS * WIDTH].reshape(N_ITEMS, WIDTH)[untouched])
    assert np.array_equal(found[update.items], update.rows)


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("where", ["rows", "shared"])
@pytest.mark.parametrize("at_once", [1, 100, 2**22])
def test_updates_with_a_number_that_is_none_are_told(monkeypatch, number, where, at_once):
    monkeypatch.setattr(sums, "AT_ONCE", at_once)
    updates = list(updates_of(2, 3))
    getattr(updates[3], where)[..., 1] = number
    assert are_finite(updates, BufferPool()).tolist() == [True, True, True, False, True, True]
    assert are_finite([], BufferPool()).tolist() == []


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("at_once", [1, 100, 2**22])
@pytest.mark.parametrize(("n_versions", "n_shared"), [(1, 12), (1, 0), (3, 7)])
def test_changes_are_summed_in_their_order(monkeypatch, n_versions, n_shared, n_threads, at_once):
    monkeypatch.setattr(sums, "AT_ONCE", at_once)
    updates = list(updates_of(n_versions, n_shared))
    weights = np.random.default_rng(1).uniform(0.1, 2.0, len(updates))
    total, mass, shared = np.zeros((N_ITEMS, WIDTH)), np.zeros(N_ITEMS), np.zeros(n_shared)
    for update, weight in zip(updates, weights, strict=True):
        change = update.change
        total[change.items] += weight * change.rows
        mass[change.items] += weight
        shared += weight * change.shared
    found = sum_deltas(updates, weights, ThreadPool(n_threads), BufferPool())
    assert [part.tobytes() for part in found] == [part.tobytes() for part in (total, mass, shared)]


@pytest.mark.parametrize("per_batch", [1, 6, 24])
def test_updates_in_the_batches_of_their_trainer_add_up_to_the_same(per_batch):
    """Of 48 updates, those in batches of 6 are copied, those in batches of 24 are not; two have no batch."""
    plain = list(updates_of(1, 3, n=48))
    views = [*in_batches(plain[:-2], per_batch), *plain[-2:]]
    weights = np.random.default_rng(1).uniform(0.1, 2.0, len(plain))
    before, after = (sum_deltas(each, weights, ThreadPool(2), BufferPool()) for each in (plain, views))
    assert [part.tobytes() for part in before] == [part.tobytes() for part in after]
    in_place = [batch.rows is views[0].trained.rows for _, batch in sums.batch_updates(views, BufferPool())]
    assert any(in_place) == (per_batch == 24)
