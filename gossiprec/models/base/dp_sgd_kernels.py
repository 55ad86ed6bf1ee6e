"""Compiled training of nodes that clip each sample's gradient and add noise (DP-SGD), with or without terms.

Noise reaches every number of the model at every step, so nothing is lazy here: the gradient is one flat array ``[user
| items | shared]``, filled with noise, then the clipped samples are added, then one dense optimizer step follows. The
loop is a template: :func:`specialise_private` puts a model's own clipped gradients in place of the stub.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy import float32

from gossiprec.base.arrays import F32, I32
from gossiprec.models.base.task_kernels import max_positives
from gossiprec.models.base.template_formula import ITEM, OF_ITEM, START
from gossiprec.models.base.terms import ItemTerm, add_from, specialise_terms
from gossiprec.native.jit import (
    NO_DENORMALS,
    borrow,
    copy_floats,
    inline,
    length,
    part,
    specialise,
    swap_float_mode,
)
from gossiprec.numerics.draw_kernels import fill_noise, new_noise_buffer, sample_negatives, shuffle
from gossiprec.numerics.lazy_adam import AdamStep, step_range
from gossiprec.numerics.noise import GROUP

TINY = float32(1e-6)
"""Added to a norm before dividing by it, as in Opacus: no clipped norm exceeds the bound."""


class PrivacySettings(NamedTuple):
    """Settings of every node: strengths of terms, norm to which a sample's gradient is clipped, noise multiplier."""

    strengths: F32
    clip_norm: F32
    noise_multiplier: F32

    @classmethod
    def of(cls, settings: Any) -> PrivacySettings:
        """Return them from the :class:`gossiprec.compute.local_update.NodeSettings`."""
        return cls(settings.strengths, settings.clip_norm, settings.noise_multiplier)


class TrainedParts(NamedTuple):
    """The parts of a model version that a node trains: its user row, the items, and the shared weights."""

    user: F32
    items: F32
    shared: F32


class PrivateWorkspace(NamedTuple):
    """The working arrays of a thread.

    Attributes
    ----------
    items, order
        Items of the samples, and order of the samples.
    gradient
        ``[user | items | shared]``, and room for the last noise.
    small
        Room for the gradient of one sample.
    start
        The item table as the local update began.
    room
        Of the model's functions.
    words
        Of the noise.
    no_moments
        In place of a node's moments under plain gradient descent.
    """

    items: I32
    order: I32
    gradient: F32
    small: F32
    start: F32
    room: F32
    words: Any
    no_moments: F32


@inline
def new_workspace(most, rule, sizes, options):
    """Return the working arrays for nodes with up to `most` positives."""
    n, dim, item_dim = most * (1 + rule.negatives), length(sizes.dims), length(sizes.item_dims)
    table = sizes.n_items * item_dim
    width = dim + table + sizes.n_shared
    return PrivateWorkspace(
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty((width + GROUP - 1) // GROUP * GROUP, float32),
        np.empty(dim + item_dim + sizes.n_shared, float32),
        np.empty(table, float32),
        np.empty(options.n_room, float32),
        new_noise_buffer(),
        np.zeros(0 if rule.adam else sizes.width, float32),
    )


def add_clipped_gradients(batch, parts, space, rule, sizes, clip, options):
    """Stand in for the model's: add the batch's clipped gradients to ``space.gradient``."""
    raise NotImplementedError


@inline
def dp_optimizer_step(theta, first, second, gradient, step, rule):
    """Take optimizer step number `step` (from 1) on a range of numbers."""
    if rule.adam:  # with the constants from adam_step, the last number of a row has other last bits
        rate, beta1, beta2, epsilon = rule.rate, rule.beta1, rule.beta2, float32(rule.epsilon)
        one, rest1, two, rest2 = float32(beta1), float32(1.0 - beta1), float32(beta2), float32(1.0 - beta2)
        now = float32(rate / (1.0 - beta1**step))
        correction = float32(1.0 / math.sqrt(1.0 - beta2**step))
        adam = AdamStep(now, correction, one, rest1, two, rest2, epsilon)
        step_range(theta, first, second, gradient, adam)
    else:
        for k in range(len(theta)):
            theta[k] -= float32(rule.rate) * gradient[k]


@inline
def scale_gradient(gradient, share):
    """Divide by the batch size."""
    for k in range(len(gradient)):
        gradient[k] *= share


def add_term_gradients(gradient, table, start, strengths, sizes):
    """Add the gradients of the terms, by all items."""
    n, dim = length(sizes.item_dims), length(sizes.dims)
    for j in range(sizes.n_items):
        slopes, item = part(gradient, dim + j * n, n, OF_ITEM), part(table, j * n, n, ITEM)
        add_from(slopes, item, part(start, j * n, n, START), strengths, 0)


def train_tasks(tasks, columns, versions, samples, rule, sizes, privacy, options):
    """Run the local updates of tasks after their merges, in place on their target rows (DP-SGD).

    The noisy sum is divided by the batch size even if the loss is `summed`.
    """
    mode = swap_float_mode(NO_DENORMALS)
    dim, seed, steps = length(sizes.dims), samples.seed, versions.steps
    begin, n_numbers = sizes.n_users * dim, sizes.n_items * length(sizes.item_dims)
    shared, end = begin + n_numbers, begin + n_numbers + sizes.n_shared
    width = dim + n_numbers + sizes.n_shared
    space = new_workspace(max_positives(tasks, columns, samples), rule, sizes, options)
    gradient = space.gradient
    for index in tasks:
        i, update = columns.node[index], columns.update[index]
        mine = samples.positives[samples.offsets[i] : samples.offsets[i + 1]]
        if len(mine) == 0:
            continue
        at = np.int64(columns.target[index]) * sizes.width
        row = versions.rows[at : at + sizes.width]
        m, v = (versions.first[i], versions.second[i]) if rule.adam else (space.no_moments, space.no_moments)
        own = 0 if sizes.n_users == 1 else i * dim
        parts = TrainedParts(row[own : own + dim], row[begin:shared], row[shared:end])
        clip = privacy.clip_norm[i]
        drawn = 0 if rule.once else update
        sample_negatives(mine, samples.member[i], sizes.n_items, i, drawn, rule.negatives, seed, space.items)
        count = len(mine) * (1 + rule.negatives)
        size = count if rule.batch_size == 0 else rule.batch_size
        copy_floats(space.start, 0, parts.items, 0, n_numbers)
        for epoch in range(rule.epochs):
            shuffle(space.order, count, i, update * rule.epochs + epoch, seed, count > size)
            for low in range(0, count, size):
                batch = space.order[low : min(count, low + size)]
                if privacy.noise_multiplier[i] > float32(0.0):
                    scale = privacy.noise_multiplier[i] * clip
                    fill_noise(gradient, seed, steps[i], i, scale, space.words)
                else:
                    gradient[:] = float32(0.0)
                add_clipped_gradients(batch, parts, space, rule, sizes, clip, options)
                share = float32(1.0) / float32(len(batch))
                scale_gradient(gradient[:width], share)
                add_term_gradients(gradient, parts.items, space.start, privacy.strengths[i], sizes)
                steps[i] += 1
                dp_optimizer_step(
                    parts.user, m[own : own + dim], v[own : own + dim], gradient[:dim], steps[i], rule
                )
                dp_optimizer_step(
                    row[begin:end], m[begin:end], v[begin:end], gradient[dim:width], steps[i], rule
                )
    swap_float_mode(mode)


@functools.cache
def specialise_private(clipped: Any, terms: tuple[ItemTerm, ...]) -> Any:
    """Return the loop with a model's own clipped gradients, and those of the terms, in place."""
    add = specialise(add_term_gradients, borrow, add_from=specialise_terms(terms))
    return specialise(train_tasks, add_clipped_gradients=clipped, add_term_gradients=add)
