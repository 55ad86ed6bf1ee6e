"""Gaussian noise of DP-SGD as a pure function of (seed, node, step, parameter): no state, the same in every executor.

Each Philox block (index, step, node, "dp-noise") gives four words and so, by Box-Muller, four numbers. Blocks are taken
``LANES`` at a time, and number k of each comes before number k + 1 of any: compiled code then writes whole vectors.

References
----------
G. E. P. Box, M. E. Muller, "A note on the generation of random normal deviates", Ann. Math. Statist. 29 (1958).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gossiprec.models.base import Layout
from gossiprec.rng import philox_words, purpose_id

DP_NOISE = purpose_id("dp-noise")
LANES = 64
"""Blocks computed side by side."""
GROUP = 4 * LANES
"""Numbers they give."""


def gaussian_noise(seed: int, node: int, step: int, count: int) -> npt.NDArray[np.float32]:
    """Return `count` independent draws of N(0, 1), for parameters number 0 .. count - 1.

    Parameters
    ----------
    seed, node : int
    step : int
        Optimizer steps that the node has taken before this one.
    count : int

    Notes
    -----
    Radii come from 32 bits in single precision, so no number exceeds 6.7; angles from 26 bits.
    """
    blocks = np.arange(-(-count // GROUP) * LANES)
    words = philox_words(seed, blocks, step, node, DP_NOISE)
    uniform = (words[:, 0::2] | np.uint32(1)).astype(np.float32).astype(np.float64) * 2.0**-32
    radius = np.sqrt(-2.0 * np.log(uniform))
    quarter, rest = words[:, 1::2] >> np.uint32(30), words[:, 1::2] >> np.uint32(6) & np.uint32(0xFFFFFF)
    angle = (quarter + (rest * 2.0**-24 - 0.5)) * (np.pi / 2)
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)  # (block, pair, cos or sin)
    ordered = pairs.reshape(-1, LANES, 4).transpose(0, 2, 1)
    return ordered.reshape(-1)[:count].astype(np.float32)


def noise_row(layout: Layout, seed: int, node: int, step: int) -> npt.NDArray[np.float32]:
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
