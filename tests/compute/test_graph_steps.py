"""Products with the graph in several threads, and the gradient of a batch's rows beside autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gossiprec.base.machine import ThreadPool
from gossiprec.base.ragged import Ragged
from gossiprec.compute.executors.central import BatchRowGradient
from gossiprec.models.base.graph import InteractionGraph
from gossiprec.models.lightgcn import LightGCN

N_USERS, N_ITEMS = 30, 50


def graph(threads=1):
    """Users with up to nine items each; user 3 and item 49 have none."""
    draw = np.random.default_rng(0)
    each = [
        draw.choice(N_ITEMS - 1, 0 if user == 3 else draw.integers(1, 10), False) for user in range(N_USERS)
    ]
    positives = Ragged.from_parts([np.sort(items).astype(np.int32) for items in each])
    return InteractionGraph.of(positives, N_ITEMS, ThreadPool(threads))


def table(dim):
    return np.random.default_rng(1).normal(size=(N_USERS + N_ITEMS, dim)).astype(np.float32)


@pytest.mark.parametrize("dim", [5, 64, 70])
def test_a_product_is_that_of_the_dense_matrix_with_the_same_bytes_in_any_number_of_threads(dim):
    one, rows = graph().matrix, table(dim)
    whole = np.zeros((len(rows), len(rows)))
    for i in range(len(rows)):
        entries = slice(one.starts[i], one.starts[i + 1])
        whole[i, one.columns[entries]] = one.values[entries]
    found, some = one.times(rows), np.array([79, 0, 3, 12, 31])
    np.testing.assert_allclose(found, whole @ rows, atol=1e-5)
    few = np.where(np.isin(np.arange(len(rows)), some)[:, None], rows, np.float32(0.0))
    place = np.full(len(rows), -1, np.int32)
    place[some] = np.arange(len(some))
    for threads in (1, 2, 5):
        matrix = graph(threads).matrix
        np.testing.assert_array_equal(matrix.times(rows), found)
        np.testing.assert_array_equal(matrix.times(rows, some), found[some])
        np.testing.assert_array_equal(matrix.times_few(place, rows[some]), one.times(few))


def batch():
    draw = np.random.default_rng(2)
    columns = {"user": N_USERS, "items": N_ITEMS, "negatives": N_ITEMS}
    return {name: draw.integers(0, n, 40).astype(np.int32) for name, n in columns.items()}


def by_autograd(model, rows):
    leaves = [torch.from_numpy(part).requires_grad_() for part in np.split(rows, [N_USERS])]
    found = model.encode_step({"users": leaves[0], "items": leaves[1]}, graph(), (), np.random.default_rng(0))
    samples = {name: torch.from_numpy(column.astype(np.int64)) for name, column in batch().items()}
    torch.autograd.backward(model.loss(found, {**samples, "weights": torch.ones(40)}))
    return np.concatenate([leaf.grad.numpy() for leaf in leaves])


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("first_layer", [0, 1])
def test_a_gradient_has_the_bytes_of_autograd(layers, first_layer):
    model, rows = LightGCN(LightGCN.Options(dim=64, layers=layers, l2=0.1)), table(64)
    model.first_layer = first_layer
    for threads in (1, 2):
        found = BatchRowGradient(model, graph(threads), layers)
        for _ in range(2):
            np.testing.assert_array_equal(found.of(rows, batch()), by_autograd(model, rows))


def test_a_class_with_its_own_loss_keeps_autograd():
    class Other(LightGCN):
        def loss(self, p, batch):
            return p["items"].square().sum()

    assert LightGCN(LightGCN.Options()).layers_of_batches == 2
    assert Other(LightGCN.Options()).layers_of_batches is None
