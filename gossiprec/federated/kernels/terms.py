"""Compiled terms of recommenders without a folder: each changes a client's slopes (:class:`AnalyticTerm`)."""

from __future__ import annotations

import math

import numpy as np
from numpy import float32

from gossiprec.federated.kernels.contrastive import add_noisy_views
from gossiprec.models.base.contrastive import TINY
from gossiprec.native.jit import kernel, noinline
from gossiprec.native.tiles import Matrix
from gossiprec.numerics.flat_ops import copy_range, dot, sum_range
from gossiprec.numerics.small_matmul import add_inner_products, add_product, pad_to_tile


@kernel
def add_correlation(client):
    """Add alpha times the derivatives of L_uni (:class:`AnalyticTerm`); numbers: alpha."""
    items, alpha = client.items, client.numbers[0]
    dim, n = items.shape
    wide = pad_to_tile(n)
    units, pulls, norms = (
        np.zeros(dim * wide, np.float32),
        np.zeros(dim * wide, np.float32),
        np.empty(dim, np.float32),
    )
    alike = np.zeros(dim * dim, np.float32)
    for i in range(dim):
        unit = units[i * wide : i * wide + n]
        copy_range(unit, 0, items[i], 0, n)
        unit -= sum_range(unit, 0, n) / float32(n)
        norms[i] = max(np.sqrt(dot(unit, 0, unit, 0, n)), float32(TINY))
        unit /= norms[i]
    add_inner_products(
        Matrix(alike, 0, dim, 1), Matrix(units, 0, wide, 1), Matrix(units, 0, wide, 1), dim, dim, wide,
    )  # fmt: skip
    size = max(np.sqrt(dot(alike, 0, alike, 0, dim * dim)), float32(TINY))
    scale = float32(2.0 * alpha / dim) / size
    add_product(
        Matrix(pulls, 0, wide, 1), Matrix(alike, 0, dim, 1), Matrix(units, 0, wide, 1), dim, dim, wide,
    )  # fmt: skip
    for i in range(dim):
        unit, pull = units[i * wide : i * wide + n], pulls[i * wide : i * wide + n]
        along = dot(unit, 0, pull, 0, n) if norms[i] > float32(TINY) else float32(0.0)
        row = client.item_slopes[i]
        for t in range(n):  # their mean, by which centring would lower them, is 0 like the mean of all units
            row[t] += scale * (pull[t] - along * unit[t]) / norms[i]


@kernel
def keep_last_repeats(client):
    """Keep one sample's part of each item's slope: the samples of an item are equal (:class:`AnalyticTerm`).

    Numbers: 1 if the loss is summed over the samples, 0 if it is their mean.
    """
    share = float32(1.0) if client.numbers[0] else float32(1.0) / float32(len(client.places))
    for i in range(len(client.items)):
        row = client.item_slopes[i]
        for t in range(len(row)):
            row[t] *= share / client.samples[t]


@noinline
def add_nothing(client):
    """Add nothing."""


@kernel
def add_union(client):
    """Add the derivatives of the mean cross-entropy (:class:`AnalyticTerm`); numbers: weight."""
    items, places, compared = client.items, client.places, client.of_samples
    n, n_compared = compared.shape
    dim, each = len(items), len(places) // n
    rows, row_slopes = (
        np.empty((items.shape[1], dim), np.float32),
        np.zeros((items.shape[1], dim), np.float32),
    )
    for i in range(dim):
        for t in range(len(rows)):
            rows[t, i] = items[i, t]
    near, scale = np.empty(n_compared, np.float32), float32(client.numbers[0] / n)
    for k in range(n):
        anchor = places[k * each]
        for c in range(n_compared):
            other = places[compared[k, c]]
            found = float32(0.0)
            for i in range(dim):
                found += rows[anchor, i] * rows[other, i]
            near[c] = found
        most, total = near.max(), float32(0.0)
        for c in range(n_compared):
            near[c] = math.exp(near[c] - most)
            total += near[c]
        for c in range(n_compared):
            other = places[compared[k, c]]
            slope = scale * (near[c] / total - float32(c == 0))
            for i in range(dim):
                row_slopes[anchor, i] += slope * rows[other, i]
                row_slopes[other, i] += slope * rows[anchor, i]
    for i in range(dim):
        for t in range(len(rows)):
            client.item_slopes[i, t] += row_slopes[t, i]


@kernel
def add_simgcl(client):
    """Add the derivatives of the mean InfoNCE (:class:`AnalyticTerm`); numbers: weight, temperature, noise."""
    weight, temperature, size = client.numbers
    add_noisy_views(client, size, temperature, weight / len(client.of_samples))
