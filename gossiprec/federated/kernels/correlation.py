"""Compiled gradient of the correlation between the dimensions of items."""

from __future__ import annotations

import numpy as np
from numpy import float32

from gossiprec.models.base.contrastive import TINY
from gossiprec.native.jit import kernel
from gossiprec.numerics.flat_ops import copy_range, dot, sum_range
from gossiprec.numerics.small_matmul import Matrix, add_inner_products, add_product, pad_to_tile


@kernel
def add(client):
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
