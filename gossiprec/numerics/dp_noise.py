"""Gaussian noise of DP-SGD as a pure function of (seed, node, step, parameter): no state, the same in every executor.

Each Philox block (index, step, node, "dp-noise") gives four words and so, by Box-Muller, four numbers. Blocks are taken
in groups of ``LANES``, and number k of each comes before number k + 1 of any: compiled code then writes whole vectors.

References
----------
G. E. P. Box, M. E. Muller, "A note on the generation of random normal deviates", Ann. Math. Statist. 29 (1958).
"""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F32
from gossiprec.base.rng import philox_words, purpose_id

DP_NOISE = purpose_id("dp-noise")
LANES = 64
"""Philox blocks computed together."""
GROUP = 4 * LANES
"""Numbers that `LANES` blocks give."""


def gaussian_noise(seed: int, node: int, step: int, count: int) -> F32:
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
