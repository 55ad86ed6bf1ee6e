"""Noise as a pure function of a key: stochastic rounding to float16, and Gaussian noise of DP-SGD.

Stochastic rounding keeps the mean over nodes of differences too small for one row. Half of float16's unit in the last
place is up to 5e-4 of a number, more than many differences between neighbours' models. Rounded to the nearest, such
differences vanish in a merge and knowledge of a few nodes never spreads; rounded at random with the right
probabilities, the mean over nodes is kept (docs/models.md has the measured effect).

The random bits are a hash of a number's column and a key; the key is a Philox word of the event that made the row, so
bytes depend on neither threads nor waves.

Noise of DP-SGD depends on seed, node, step and parameter only and is the same in every executor. Each Philox block
(index, step, node, "dp-noise") gives four words and so, by Box-Muller, four numbers. Blocks are taken in groups of
``LANES``, and number k of each comes before number k + 1 of any: compiled code then writes whole vectors.

References
----------
G. E. P. Box, M. E. Muller, "A note on the generation of random normal deviates", Ann. Math. Statist. 29 (1958).
"""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F16, F32, U32
from gossiprec.base.rng import philox_words, purpose_id

MERGED = purpose_id("rounding-merged")
TRAINED = purpose_id("rounding-trained")
ENCODED = purpose_id("rounding-encoded")

FACTORS = (0x9E3779B1, 0x85EBCA77)
"""Odd numbers without structure, from the xxHash function."""


def rounding_noise(keys: U32, columns: U32) -> U32:
    """Return 13 random bits for each key and column, broadcast against each other."""
    word = (columns + keys) * np.uint32(FACTORS[0])
    word = (word ^ (word >> np.uint32(15))) * np.uint32(FACTORS[1])
    return np.asarray(word >> np.uint32(19), np.uint32)


HALF_A_PLACE = 0x1000
"""Half of float16's last place in the bits of a float32; added before the rest is cut off, it rounds to the nearest."""


def to_nearest_float16(values: F32) -> F16:
    """Round numbers to the nearest float16, and halves away from zero."""
    bits = np.ascontiguousarray(values).view(np.uint32) + np.uint32(HALF_A_PLACE)
    return np.asarray((bits & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float16))


def to_float16(values: F32, keys: U32) -> F16:
    """Round rows to float16, up or down at random.

    Parameters
    ----------
    values : ndarray of float32, shape (n_rows, n_columns)
    keys : ndarray of uint32, shape (n_rows,)

    Notes
    -----
    13 random bits are added below float16's last place before it is cut off there. Numbers below 6e-5 have fewer bits
    in float16; their remainder is rounded to the nearest.
    """
    columns = np.arange(values.shape[1], dtype=np.uint32)
    bits = np.ascontiguousarray(values).view(np.uint32) + rounding_noise(keys[:, None], columns)
    with np.errstate(over="ignore"):  # the check for diverged models finds infinity
        return np.asarray((bits & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float16))


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
