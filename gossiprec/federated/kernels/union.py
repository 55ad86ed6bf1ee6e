"""Compiled gradient of UNION's cross-entropy."""

from __future__ import annotations

import math

import numpy as np
from numpy import float32

from gossiprec.native.jit import kernel


@kernel
def add(client):
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
