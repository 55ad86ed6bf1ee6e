"""The compiled gradient of GRU4Rec, beside torch.nn.GRU and autograd in double precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gossiprec.models.base.kernel_interface import SequenceBatch
from gossiprec.models.gru4rec.gradient import gradient

SIZES = {(4, 6): "narrow", (33, 47): "odd", (64, 128): "the paper's"}


def shared_weights(dim, hidden, draw):
    size = 3 * hidden * (dim + hidden + 2) + dim * (hidden + 1)
    return (draw.normal(size=size) * 0.2).astype(np.float32)


def steps(inputs, weights):
    """Return the states of torch.nn.GRU, of which each input that is one takes a step."""
    hidden = weights[1].shape[1]
    recurrence = torch.nn.GRU(weights[0].shape[1], hidden).double()
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    real = [row for row in inputs if row is not None]
    found = torch.zeros(1, hidden, dtype=torch.float64)
    if real:
        given = dict(zip(names, weights[:4], strict=True))
        outputs, _ = torch.func.functional_call(recurrence, given, (torch.stack(real)[:, None],))
        found = torch.cat([found, outputs[:, 0]])
    return found[torch.tensor([row is not None for row in inputs]).long().cumsum(0)]


def expected(core, items, previous, wanted, others, keep, hidden, in_batch):
    """Return the slopes by torch.nn.GRU, place by place: candidates are a set less the positive."""
    dim = items.shape[1]
    shapes = [(3 * hidden, dim), (3 * hidden, hidden), (3 * hidden,), (3 * hidden,), (dim, hidden), (dim,)]
    sizes = [int(np.prod(shape)) for shape in shapes]
    parts = torch.split(torch.from_numpy(core.astype(np.float64)), sizes)
    weights = [part.view(shape).clone().requires_grad_() for part, shape in zip(parts, shapes, strict=True)]
    rows = torch.from_numpy(items.astype(np.float64)).requires_grad_()
    kept = torch.from_numpy(keep.astype(np.float64))
    inputs = [rows[at] * one if at >= 0 else None for at, one in zip(previous.tolist(), kept, strict=True)]
    states = steps(inputs, weights) @ weights[4].T + weights[5]
    each = others if others.ndim == 2 else np.tile(others, (len(wanted), 1))
    lost = []
    for state, item, own in zip(states, wanted.tolist(), each.tolist(), strict=True):
        if item >= 0:
            there = {other for other in [*own, *(wanted.tolist() if in_batch else [])] if other >= 0}
            logits = rows[[item, *sorted(there - {item})]] @ state
            lost.append(torch.logsumexp(logits, 0) - logits[0])
    torch.stack(lost).mean().backward()
    slopes = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in weights]
    return np.concatenate([slope.numpy().ravel() for slope in slopes]), rows.grad.numpy()


def found(core, items, previous, wanted, others, keep, hidden, in_batch):
    """Return the slopes of the kernel, into arrays that held something else."""
    made = gradient(hidden, in_batch=in_batch)
    slopes, item_slopes = np.full_like(core, np.nan), np.full_like(items, np.nan)
    told_from = others if others.ndim == 2 else others[None]
    batch, room = SequenceBatch(previous, wanted, told_from, keep), np.empty(made.room, np.float32)
    made.fill(core, items, slopes, item_slopes, batch, made.shape, room)
    return slopes, item_slopes


def rows_of(draw, n, n_items):
    """Return rows of some items, often repeated, every fifth of them none."""
    return np.where(draw.random(n) < 0.2, -1, draw.integers(0, n_items, n)).astype(np.int32)


def sequence(seed, length, n_others, size, drop=0.3):
    draw, (dim, hidden) = np.random.default_rng(seed), size
    n_items = 1 + draw.integers(0, length + n_others + 1)
    previous, wanted, others = (rows_of(draw, n, n_items) for n in (length, length, n_others))
    wanted[draw.integers(length)] = draw.integers(n_items)
    items = draw.normal(size=(n_items, dim)).astype(np.float32)
    keep = ((draw.random((length, dim)) >= drop) / (1 - drop)).astype(np.float32)
    return shared_weights(dim, hidden, draw), items, previous, wanted, others, keep, hidden


def assert_close(ours, theirs):
    """A score's slope is a difference of two numbers of up to 1: rounding is of 1, however small slopes are.

    The largest difference of 4,000 random examples is 7.8e-6, all others are below 2.5e-6.
    """
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-5 * max(np.abs(other).max(), 1.0))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**16), st.integers(1, 60), st.integers(0, 40), st.sampled_from([*SIZES]), st.booleans()
)
def test_slopes_are_those_of_torch(seed, length, n_others, size, in_batch):
    told = (*sequence(seed, length, n_others, size), in_batch)
    assert_close(found(*told), expected(*told))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**16), st.integers(2, 40), st.integers(0, 12), st.sampled_from([*SIZES]), st.booleans()
)
def test_slopes_of_places_with_negatives_of_their_own_are_those_of_torch(
    seed, length, n_others, size, in_batch
):
    core, items, previous, wanted, _, *more = sequence(seed, length, n_others, size)
    others = rows_of(np.random.default_rng(seed), length * n_others, len(items)).reshape(length, n_others)
    told = (core, items, previous, wanted, others, *more, in_batch)
    assert_close(found(*told), expected(*told))


@pytest.mark.parametrize("in_batch", [True, False])
def test_without_masks_all_of_an_item_is_kept(in_batch):
    core, items, previous, wanted, others, keep, hidden = sequence(3, 12, 5, (8, 16), drop=0.0)
    plain = found(core, items, previous, wanted, others, keep, hidden, in_batch)
    for one, other in zip(
        plain, found(core, items, previous, wanted, others, keep[:0], hidden, in_batch), strict=True
    ):
        assert one.tobytes() == other.tobytes()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**16), st.integers(1, 20), st.integers(0, 10), st.integers(1, 40))
def test_padding_changes_no_byte(seed, length, n_others, padding):
    core, items, previous, wanted, others, keep, hidden = sequence(seed, length, n_others, (8, 16))
    none, zeros = np.full(padding, -1, np.int32), np.ones((padding, 8), np.float32)
    longer = (np.concatenate([previous, none]), np.concatenate([wanted, none]))
    padded = (*longer, np.concatenate([others, none]), np.concatenate([keep, zeros]))
    plain = found(core, items, previous, wanted, others, keep, hidden, True)
    for one, other in zip(plain, found(core, items, *padded, hidden, True), strict=True):
        assert one.tobytes() == other.tobytes()


def test_a_repeated_negative_counts_once():
    core, items, previous, wanted, others, keep, hidden = sequence(7, 9, 6, (8, 16))
    twice = np.concatenate([others, others, wanted])
    once = found(core, items, previous, wanted, others, keep, hidden, True)
    for one, other in zip(once, found(core, items, previous, wanted, twice, keep, hidden, True), strict=True):
        assert one.tobytes() == other.tobytes()


def test_where_nothing_is_to_be_told_apart_nothing_moves():
    core, items, _, _, _, keep, hidden = sequence(5, 4, 0, (8, 16))
    one, nothing = np.zeros(4, np.int32), np.zeros(0, np.int32)
    for wanted in (one, one - 1):
        slopes, item_slopes = found(core, items[:1], one, wanted, nothing, keep, hidden, True)
        assert not slopes.any()
        assert not item_slopes.any()
