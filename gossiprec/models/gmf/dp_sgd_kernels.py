"""Compiled GMF for nodes that clip each sample's gradient and add noise (DP-SGD), optionally with a drift penalty.

Noise reaches every number of the model at every step, so nothing is lazy here: the gradient is one flat array ``[user
| items | shared]``, filled with noise, then the clipped samples are added, then one dense optimizer step follows. The
gradient of a sample is ``e [h * v | u * h | u * v, 1]`` with e = d loss / d logit, hence its squared norm is ``e^2
(|u * h|^2 + sum_k (h_k^2 + u_k^2) v_k^2 + 1)``: no sample's gradient is ever stored.
"""

from __future__ import annotations

import math

import numpy as np
from numpy import float32

from gossiprec.native.jit import NO_DENORMALS, borrow, copy_floats, inline, kernel, swap_float_mode
from gossiprec.numerics.dp_noise import GROUP
from gossiprec.numerics.draw_kernels import fill_noise, new_noise_buffer, sample_negatives, shuffle

TINY = float32(1e-6)
"""Added to a norm before dividing by it, as in Opacus: no clipped norm exceeds the bound."""


@borrow
def max_samples(tasks, node, update, offsets, negatives, batch_size):
    """Return the number of samples of the largest local update among the tasks, and of its largest batch."""
    longest = 0
    for index in tasks:
        if update[index] >= 0:
            longest = max(longest, offsets[node[index] + 1] - offsets[node[index]])
    n = longest * (1 + negatives)
    return n, n if batch_size == 0 else min(batch_size, n)


@inline
def add_clipped_gradients(batch, items, negatives, user, table, shared, gradient, small, error, dim, clip):
    """Add the batch's clipped gradients to `gradient`, ``[user | items | shared]``.

    `small` is working memory for 3 dim values, `error` for one value per sample.
    """
    mixed, square, pull = small[:dim], small[dim : 2 * dim], small[2 * dim : 3 * dim]
    constant, bias, total = float32(1.0), shared[dim], float32(0.0)
    for k in range(dim):
        mixed[k] = user[k] * shared[k]
        square[k] = user[k] * user[k] + shared[k] * shared[k]
        pull[k] = float32(0.0)
        constant += mixed[k] * mixed[k]
    for s in range(len(batch)):
        low = items[batch[s]] * dim
        z, norm = bias, constant
        for k in range(dim):
            x = table[low + k]
            z += mixed[k] * x
            norm += square[k] * x * x
        label = float32(1.0) if batch[s] % (1 + negatives) == 0 else float32(0.0)
        e = float32(1.0) / (float32(1.0) + np.exp(-z)) - label
        e *= min(float32(1.0), clip / (abs(e) * np.sqrt(norm) + TINY))
        error[s] = e
        total += e
        for k in range(dim):
            pull[k] += e * table[low + k]
    for s in range(len(batch)):
        low, e = (1 + items[batch[s]]) * dim, error[s]
        for k in range(dim):
            gradient[low + k] += e * mixed[k]
    begin = dim + len(table)
    for k in range(dim):
        gradient[k] += pull[k] * shared[k]
        gradient[begin + k] += pull[k] * user[k]
    gradient[begin + dim] += total


@inline
def adam_step(theta, first, second, gradient, rate, correction, betas, epsilon):
    """Take one Adam step on a range of numbers (see :func:`~.adam.step_record` for the parameters)."""
    beta1, rest1, beta2, rest2 = betas
    for k in range(len(theta)):
        g = gradient[k]
        m = beta1 * first[k] + rest1 * g
        v = beta2 * second[k] + rest2 * g * g
        first[k] = m
        second[k] = v
        theta[k] -= rate * m / (np.sqrt(v) * correction + epsilon)


@inline
def dp_optimizer_step(theta, first, second, gradient, step, adam, rate, beta1, beta2, epsilon):
    """Take optimizer step number `step` (from 1) on a range of numbers."""
    if adam:
        betas = (float32(beta1), float32(1.0 - beta1), float32(beta2), float32(1.0 - beta2))
        now = float32(rate / (1.0 - beta1**step))
        correction = float32(1.0 / math.sqrt(1.0 - beta2**step))
        adam_step(theta, first, second, gradient, now, correction, betas, epsilon)
    else:
        for k in range(len(theta)):
            theta[k] -= float32(rate) * gradient[k]


@inline
def scale_and_anchor(gradient, share, table, start, pull, dim):
    """Divide by the batch size; then add the pull of all items back to their values at the start of the update."""
    for k in range(len(gradient)):
        gradient[k] *= share
    if pull > float32(0.0):
        items = gradient[dim : dim + len(table)]
        for k in range(len(table)):
            items[k] += pull * (table[k] - start[k])


@kernel
def train_tasks(
    tasks, node, target, update, rows, first, second, steps, offsets, positives, member, n_items, n_users,
    negatives, summed, once, batch_size, epochs, adam, rate, beta1, beta2, epsilon, seed, dims, drift_penalty,
    clip_norm, noise_multiplier,
):  # fmt: skip
    """Run the local updates of tasks after their merges, in place on their target rows (DP-SGD).

    The noisy sum is divided by the batch size even if the loss is `summed`.
    """
    mode = swap_float_mode(NO_DENORMALS)
    dim = len(dims)
    begin, length = n_users * dim, n_items * dim
    end = begin + length + dim + 1
    n, most = max_samples(tasks, node, update, offsets, negatives, batch_size)
    items, order = np.empty(n, np.int32), np.empty(n, np.int32)
    width = 2 * dim + 1 + length
    gradient = np.empty((width + GROUP - 1) // GROUP * GROUP, float32)
    small, error, start, words = (
        np.empty(3 * dim, float32),
        np.empty(most, float32),
        np.empty(length, float32),
        new_noise_buffer(),
    )
    no_moments = np.zeros(0 if adam else rows.shape[1], float32)
    for index in tasks:
        i = node[index]
        mine = positives[offsets[i] : offsets[i + 1]]
        if len(mine) == 0:
            continue
        row = rows[target[index]]
        m, v = (first[i], second[i]) if adam else (no_moments, no_moments)
        own = 0 if n_users == 1 else i * dim
        user, table, rest = row[own : own + dim], row[begin : begin + length], row[begin + length : end]
        pull, clip = float32(2.0) * drift_penalty[i], clip_norm[i]
        sample_negatives(mine, member[i], n_items, i, 0 if once else update[index], negatives, seed, items)
        count = len(mine) * (1 + negatives)
        size = count if batch_size == 0 else batch_size
        copy_floats(start, 0, table, 0, length)
        for epoch in range(epochs):
            shuffle(order, count, i, update[index] * epochs + epoch, seed, count > size)
            for low in range(0, count, size):
                batch = order[low : min(count, low + size)]
                if noise_multiplier[i] > float32(0.0):
                    fill_noise(gradient, seed, steps[i], i, noise_multiplier[i] * clip, words)
                else:
                    gradient[:] = float32(0.0)
                add_clipped_gradients(
                    batch, items, negatives, user, table, rest, gradient, small, error, dim, clip
                )
                scale_and_anchor(
                    gradient[:width], float32(1.0) / float32(len(batch)), table, start, pull, dim
                )
                steps[i] += 1
                dp_optimizer_step(
                    user, m[own : own + dim], v[own : own + dim], gradient[:dim], steps[i], adam, rate, beta1,
                    beta2, float32(epsilon),
                )  # fmt: skip
                dp_optimizer_step(
                    row[begin:end], m[begin:end], v[begin:end], gradient[dim:width], steps[i], adam, rate, beta1,
                    beta2, float32(epsilon),
                )  # fmt: skip
    swap_float_mode(mode)
