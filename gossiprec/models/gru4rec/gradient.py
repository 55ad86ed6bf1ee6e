"""The gradient of GRU4Rec: all places in one pass, except for the steps of the recurrence.

With the input x of a place, the hidden state h before it, and the weights W, U and biases b, c of the three gates ::

    r = sigmoid(W_r x + b_r + U_r h + c_r),  z = sigmoid(W_z x + b_z + U_z h + c_z),
    n = tanh(W_n x + b_n + r (U_n h + c_n)),  h' = (1 - z) n + z h,

as in torch.nn.GRU; a place without an item before it changes nothing. Only U h must be computed place by place; the
slopes of W and U are computed at the end.

References
----------
Cho et al., "Learning phrase representations using RNN encoder-decoder", EMNLP 2014; Werbos, "Backpropagation through
time: what it does and how to do it", 1990.
"""

from __future__ import annotations

import numpy as np
from numpy import float32

from gossiprec.models.base.dot_product_gradients import count_target_positions, softmax_gradient
from gossiprec.models.base.kernel_interface import CompiledGradient
from gossiprec.native.jit import NO_DENORMALS, inline, kernel, noinline, swap_float_mode
from gossiprec.native.tiles import Matrix
from gossiprec.numerics.flat_ops import axpy, copy_range, multiply_range, sigmoid, tanh32
from gossiprec.numerics.small_matmul import add_inner_products, add_product


def gradient(hidden: int, *, in_batch: bool) -> CompiledGradient:
    """Return the gradient for `hidden` units."""
    return CompiledGradient(fill, np.array([hidden, in_batch], np.int64), read_state=read_state)


@kernel
def fill(core, items, slopes, item_slopes, batch, shape, room):
    """Overwrite the slopes (:class:`CompiledGradient`); places after the last item to learn do not affect them.

    A row of `gates` is r, z, n and U_n h + c_n at a place; of `pulls`, the derivatives of the loss by the sums in r
    and z, by U_n h + c_n, and by the sum in n.
    """
    dim, width = items.shape[1], shape[0]
    previous, wanted, others, keep = batch
    n_learnt, n = count_target_positions(wanted)
    slopes[:], item_slopes[:] = float32(0.0), float32(0.0)
    inputs, hidden, gates = _zeros(n, dim), _zeros(n + 1, width), _zeros(n, 4 * width)
    _embed(items, previous, keep, inputs, n)
    _forward(core, previous, inputs, hidden, gates, n, dim, width)
    states, scores = _zeros(n, dim), _zeros(n, len(items))
    by_states, by_hidden, pulls = _zeros(n, dim), _zeros(n, width), _zeros(n, 4 * width)
    by_inputs, dense = _zeros(n, dim), _dense(dim, width)
    weights, after = Matrix(core, dense, width, 1), Matrix(hidden, width, width, 1)
    table, all_states = Matrix(items.reshape(-1), 0, dim, 1), Matrix(states, 0, dim, 1)
    for t in range(n):
        copy_range(states, t * dim, core, dense + dim * width, dim)
    add_inner_products(all_states, after, weights, n, dim, width)
    add_inner_products(Matrix(scores, 0, len(items), 1), all_states, table, n, len(items), dim)
    softmax_gradient(scores, len(items), wanted, others, shape[1] != 0, n_learnt, n)
    columns, table_slopes = Matrix(scores, 0, 1, len(items)), Matrix(item_slopes.reshape(-1), 0, dim, 1)
    add_product(table_slopes, columns, all_states, len(items), n, dim)
    slope_rows = Matrix(by_states, 0, dim, 1)
    add_product(slope_rows, Matrix(scores, 0, len(items), 1), table, n, len(items), dim)
    _add_rows(slopes, dense + dim * width, by_states, 0, dim, n, dim)
    add_product(Matrix(slopes, dense, width, 1), Matrix(by_states, 0, 1, dim), after, dim, n, width)
    add_product(Matrix(by_hidden, 0, width, 1), slope_rows, weights, n, dim, width)
    _backward(core, previous[:n], hidden, gates, by_hidden, pulls, dim, width)
    _add_of_weights(slopes, inputs, hidden, pulls, n, dim, width)
    found, row = Matrix(by_inputs, 0, dim, 1), 4 * width
    add_product(found, Matrix(pulls, 0, row, 1), Matrix(core, 0, dim, 1), n, 2 * width, dim)
    new = Matrix(core, 2 * width * dim, dim, 1)
    add_product(found, Matrix(pulls, 3 * width, row, 1), new, n, width, dim)
    _add_embedded(item_slopes, previous, keep, by_inputs, n)


@kernel
def read_state(core, items, history, shape, state):
    """Set the state after a history (:class:`CompiledGradient`)."""
    mode = swap_float_mode(NO_DENORMALS)
    dim, width, n = items.shape[1], shape[0], len(history)
    inputs, hidden, gates = _zeros(n, dim), _zeros(n + 1, width), _zeros(n, 4 * width)
    _embed(items, history, items[:0], inputs, n)
    _forward(core, history, inputs, hidden, gates, n, dim, width)
    dense = _dense(dim, width)
    copy_range(state, 0, core, dense + dim * width, dim)
    add_inner_products(
        Matrix(state, 0, dim, 1), Matrix(hidden, n * width, width, 1), Matrix(core, dense, width, 1),
        1, dim, width,
    )  # fmt: skip
    swap_float_mode(mode)


@inline
def _recurrent(dim, width):
    """Return the position of the recurrent weights."""
    return 3 * width * dim


@inline
def _biases(dim, width):
    """Return the position of the input biases; the recurrent ones follow."""
    return 3 * width * (dim + width)


@inline
def _dense(dim, width):
    """Return the position of the dense weights; their biases follow."""
    return 3 * width * (dim + width + 2)


@inline
def _zeros(rows, columns):
    return np.zeros(rows * columns, np.float32)


@noinline
def _embed(items, previous, keep, inputs, n):
    """Set each place's input to the row of the item before it, times the dropout factors."""
    dim = items.shape[1]
    for t in range(n):
        if previous[t] >= 0:
            copy_range(inputs, t * dim, items[previous[t]], 0, dim)
            if len(keep):
                multiply_range(inputs, t * dim, keep[t], 0, dim)


@noinline
def _add_embedded(item_slopes, previous, keep, by_inputs, n):
    """Add the slopes by inputs to the slopes of the items before."""
    dim = item_slopes.shape[1]
    for t in range(n):
        if previous[t] >= 0:
            if len(keep):
                multiply_range(by_inputs, t * dim, keep[t], 0, dim)
            axpy(item_slopes[previous[t]], 0, by_inputs, t * dim, dim, float32(1.0))


@noinline
def _forward(core, previous, inputs, hidden, gates, n, dim, width):
    """Compute gates and hidden states; row t of `hidden` is the state before place t."""
    recurrent, biases = _recurrent(dim, width), _biases(dim, width)
    for t in range(n):
        copy_range(gates, 4 * t * width, core, biases, 3 * width)
        copy_range(gates, (4 * t + 3) * width, core, biases + 5 * width, width)
        axpy(gates, 4 * t * width, core, biases + 3 * width, 2 * width, float32(1.0))
    add_inner_products(
        Matrix(gates, 0, 4 * width, 1), Matrix(inputs, 0, dim, 1), Matrix(core, 0, dim, 1), n, 3 * width, dim,
    )  # fmt: skip
    new = 2 * width * width
    for t in range(n):
        at, before = 4 * t * width, t * width
        if previous[t] < 0:
            copy_range(hidden, before + width, hidden, before, width)
            continue
        if t:
            add_inner_products(
                Matrix(gates, at, 0, 1), Matrix(hidden, before, 0, 1), Matrix(core, recurrent, width, 1),
                1, 2 * width, width,
            )  # fmt: skip
            add_inner_products(
                Matrix(gates, at + 3 * width, 0, 1), Matrix(hidden, before, 0, 1),
                Matrix(core, recurrent + new, width, 1), 1, width, width,
            )  # fmt: skip
        _squash(gates[at : at + 2 * width])
        r, z, new_gate, of_hidden = _quarters(gates, at, width)
        _take_step(r, new_gate, of_hidden)
        _mix(z, new_gate, hidden[before : before + width], hidden[before + width : before + 2 * width])


@inline
def _quarters(values, at, width):
    return (
        values[at : at + width],
        values[at + width : at + 2 * width],
        values[at + 2 * width : at + 3 * width],
        values[at + 3 * width : at + 4 * width],
    )


@inline
def _squash(gates):
    """Replace values by their sigmoids."""
    for k in range(len(gates)):
        gates[k] = sigmoid(gates[k])


@inline
def _take_step(r, new, of_hidden):
    """Complete the new gate from the input's part of it."""
    for k in range(len(new)):
        new[k] = tanh32(new[k] + r[k] * of_hidden[k])


@inline
def _mix(z, new, before, after):
    """Set the hidden state after a place."""
    for k in range(len(new)):
        after[k] = new[k] + z[k] * (before[k] - new[k])


@noinline
def _backward(core, previous, hidden, gates, by_hidden, pulls, dim, width):
    """Go back through the places; `by_hidden` holds the slopes of the scores by hidden states."""
    recurrent = _recurrent(dim, width)
    for t in range(len(previous) - 1, -1, -1):
        if previous[t] < 0:
            if t:
                axpy(by_hidden, (t - 1) * width, by_hidden, t * width, width, float32(1.0))
            continue
        r, z, new, of_hidden = _quarters(gates, 4 * t * width, width)
        by_r, by_z, by_of_hidden, by_new = _quarters(pulls, 4 * t * width, width)
        slope = by_hidden[t * width : (t + 1) * width]
        _back_through_mix(slope, z, new, hidden[t * width : (t + 1) * width], by_z, by_new)
        _back_through_reset(r, of_hidden, by_new, by_r, by_of_hidden)
        if t:
            below = (t - 1) * width
            multiply_range(by_hidden, t * width, gates, (4 * t + 1) * width, width)
            axpy(by_hidden, below, by_hidden, t * width, width, float32(1.0))
            add_product(
                Matrix(by_hidden, below, 0, 1), Matrix(pulls, 4 * t * width, 0, 1), Matrix(core, recurrent, width, 1),
                1, 3 * width, width,
            )  # fmt: skip


@inline
def _back_through_mix(slope, z, new, before, by_z, by_new):
    for k in range(len(slope)):
        by_z[k] = slope[k] * (before[k] - new[k]) * z[k] * (float32(1.0) - z[k])
    for k in range(len(slope)):
        by_new[k] = slope[k] * (float32(1.0) - z[k]) * (float32(1.0) - new[k] * new[k])


@inline
def _back_through_reset(r, of_hidden, by_new, by_r, by_of_hidden):
    for k in range(len(r)):
        by_r[k] = by_new[k] * of_hidden[k] * r[k] * (float32(1.0) - r[k])
    for k in range(len(r)):
        by_of_hidden[k] = by_new[k] * r[k]


@noinline
def _add_of_weights(slopes, inputs, hidden, pulls, n, dim, width):
    """Add the slopes of the recurrence's weights and biases."""
    recurrent, biases, row = _recurrent(dim, width), _biases(dim, width), 4 * width
    new = 2 * width * dim
    add_product(
        Matrix(slopes, 0, dim, 1), Matrix(pulls, 0, 1, row), Matrix(inputs, 0, dim, 1), 2 * width, n, dim,
    )  # fmt: skip
    add_product(
        Matrix(slopes, new, dim, 1), Matrix(pulls, 3 * width, 1, row), Matrix(inputs, 0, dim, 1),
        width, n, dim,
    )  # fmt: skip
    add_product(
        Matrix(slopes, recurrent, width, 1), Matrix(pulls, 0, 1, row), Matrix(hidden, 0, width, 1),
        3 * width, n, width,
    )  # fmt: skip
    _add_rows(slopes, biases, pulls, 0, row, n, 2 * width)
    _add_rows(slopes, biases + 2 * width, pulls, 3 * width, row, n, width)
    _add_rows(slopes, biases + 3 * width, pulls, 0, row, n, 3 * width)


@noinline
def _add_rows(values, at, others, others_at, row, n, width):
    """Add rows to a range of numbers."""
    for t in range(n):
        axpy(values, at, others, others_at + t * row, width, float32(1.0))
