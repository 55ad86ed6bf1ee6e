"""Noise of DP-SGD for the rows of nodes."""

from __future__ import annotations

import numpy as np

from gossiprec.arrays import F32
from gossiprec.models.base.blocks import Layout
from gossiprec.numerics.noise import gaussian_noise


def noise_row(layout: Layout, seed: int, node: int, step: int) -> F32:
    """Return N(0, 1) noise for a node's own user row, the items and the shared weights; zero elsewhere.

    The rows of other users, if nodes hold them, have no gradient whatever the node's data, so noise would hide nothing.

    Returns
    -------
    ndarray of float32, shape (layout.size,)
    """
    own = int(layout.user_index(np.array([node]))[0]) * layout.user_width
    noise = gaussian_noise(seed, node, step, layout.user_width + layout.size - layout.items.start)
    row = np.zeros(layout.size, np.float32)
    row[own : own + layout.user_width] = noise[: layout.user_width]
    row[layout.items.start :] = noise[layout.user_width :]
    return row
