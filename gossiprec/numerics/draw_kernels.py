"""Compiled random draws: Philox4x32-10, samples of a local update, and Gaussian noise.

They give the same integers as :mod:`gossiprec.base.rng` and :mod:`gossiprec.compute.local_update`, and the noise
of :mod:`gossiprec.numerics.noise` to float32 rounding. For the noise, logarithm, sine and cosine are polynomials
without a branch, so that the compiler turns the loops into vector code; its own calls of the mathematics library would
compute one number per call (measured for 13,473 numbers: 60 us against 340).

References
----------
S. L. Moshier, Cephes mathematical library, ``logf``, ``sinf``, ``cosf`` (coefficients).
"""

from __future__ import annotations

import math

import numpy as np
from numpy import float32, uint64

from gossiprec.base.rng import NEGATIVES, SHUFFLE
from gossiprec.native.jit import bits_of, borrow, float_of, inline, noinline
from gossiprec.numerics.noise import DP_NOISE, GROUP, LANES


@inline
def philox(seed, index, counter, node, purpose):
    """Return the four words (as uint64) of block (index, counter, node, purpose) under the key `seed`."""
    mask, shift = uint64(0xFFFFFFFF), uint64(32)
    a, b, c, d = uint64(index), uint64(counter), uint64(node), uint64(purpose)
    key0, key1 = uint64(seed) & mask, uint64(seed) >> shift
    for _ in range(10):
        low, high = a * uint64(0xD2511F53), c * uint64(0xCD9E8D57)
        a, b, c, d = (high >> shift) ^ b ^ key0, high & mask, (low >> shift) ^ d ^ key1, low & mask
        key0, key1 = (key0 + uint64(0x9E3779B9)) & mask, (key1 + uint64(0xBB67AE85)) & mask
    return a, b, c, d


@inline
def bounded_word(word, bound):
    """Map a 32-bit word to {0, ..., bound - 1}."""
    return np.int64((word * uint64(bound)) >> uint64(32))


@noinline
def is_listed(items, item):
    """Return whether an item is one of `items`."""
    found = False
    for k in range(len(items)):
        found |= items[k] == item
    return found


@borrow
def sample_negatives(positives, member, n_items, node, update, negatives, seed, items):
    """Fill `items` with each positive and its negatives (plain: ``draw_samples``)."""
    blocks = (negatives + 3) // 4
    per_attempt = len(positives) * blocks
    width = 1 + negatives
    bits = 8 * len(member)  # of Feed.member's row; several items have a bit if they are fewer
    shared = n_items > bits
    mask = bits - 1 if shared else -1
    for k in range(len(positives)):
        items[k * width] = positives[k]
        for q in range(blocks):
            wanted = min(4, negatives - 4 * q)
            out = items[k * width + 1 + 4 * q : k * width + 1 + 4 * q + wanted]
            missing = (1 << wanted) - 1
            index = k * blocks + q
            while missing:
                words = philox(seed, index, update, node, NEGATIVES)
                for lane in range(4):
                    if missing >> lane & 1:
                        item = bounded_word(words[lane], n_items)
                        place = item & mask
                        taken = member[place >> 3] >> np.uint8(place & 7) & 1
                        if not taken or (shared and not is_listed(positives, item)):
                            out[lane] = item
                            missing ^= 1 << lane
                index += per_attempt


@borrow
def shuffle(order, n, node, epoch, seed, wanted):
    """Make `order[:n]` a uniform permutation (plain: ``draw_order``), or leave it sorted if not `wanted`."""
    for k in range(n):
        order[k] = k
    for block in range((n - 1) // 4 if wanted else -1, -1, -1):
        words = philox(seed, block, epoch, node, SHUFFLE)
        for lane in range(3, -1, -1):
            last = 4 * block + lane
            if 0 < last < n:
                other = bounded_word(words[lane], last + 1)
                order[last], order[other] = order[other], order[last]


I32 = np.int32
U32 = np.uint32

QUARTER = float32(math.pi / 2)
ROOT_HALF = I32(0x3F3504F3)
"""The bits of sqrt(1/2) in single precision."""


@inline
def log_float32(x):
    """Return the natural logarithm of a positive, normal float32."""
    shifted = I32(bits_of(x) - ROOT_HALF)
    exponent = float32(I32(shifted >> I32(23)))
    f = float_of(I32(I32(shifted & I32(0x007FFFFF)) + ROOT_HALF)) - float32(1.0)
    z = f * f
    p = float32(7.0376836292e-2)
    p = p * f - float32(1.1514610310e-1)
    p = p * f + float32(1.1676998740e-1)
    p = p * f - float32(1.2420140846e-1)
    p = p * f + float32(1.4249322787e-1)
    p = p * f - float32(1.6668057665e-1)
    p = p * f + float32(2.0000714765e-1)
    p = p * f - float32(2.4999993993e-1)
    p = p * f + float32(3.3333331174e-1)
    return exponent * float32(0.6931471805599453) + (f - float32(0.5) * z + f * z * p)


@inline
def cos_sin_of_word(word):
    """Return the cosine and the sine of the angle that a random word encodes."""
    part = float32(I32((word >> U32(6)) & U32(0xFFFFFF))) * float32(2.0**-24) - float32(0.5)
    x = part * QUARTER
    z = x * x
    sine = (
        (float32(-1.9515295891e-4) * z + float32(8.3321608736e-3)) * z - float32(1.6666654611e-1)
    ) * z * x + x
    cosine = (float32(2.443315711809948e-5) * z - float32(1.388731625493765e-3)) * z + float32(
        4.166664568298827e-2
    )
    cosine = cosine * z * z - float32(0.5) * z + float32(1.0)
    quarter = I32(word >> U32(30))
    odd = (quarter & I32(1)) != 0
    first, second = (sine if odd else cosine), (cosine if odd else sine)
    first = -first if ((quarter + I32(1)) & I32(2)) != 0 else first
    second = -second if (quarter & I32(2)) != 0 else second
    return first, second


@inline
def box_muller(radius_words, angle_words, cosines, sines, scale):
    """Turn ``LANES`` pairs of words into two times ``LANES`` draws of N(0, scale^2)."""
    for b in range(LANES):
        uniform = float32(radius_words[b] | U32(1)) * float32(2.0**-32)
        radius = scale * np.sqrt(float32(-2.0) * log_float32(uniform))
        cosine, sine = cos_sin_of_word(angle_words[b])
        cosines[b] = radius * cosine
        sines[b] = radius * sine


@inline
def new_noise_buffer():
    """Return the working array of :func:`fill_noise`."""
    return np.empty((4, LANES), np.uint32)


@noinline
def fill_noise(out, seed, step, node, scale, words):
    """Fill `out`, of which the length is a multiple of ``GROUP``, with draws of N(0, scale^2)."""
    # shows the compiler that the upper half of each factor is zero: vectors multiply by halves
    mask = uint64(0xFFFFFFFF)
    counter, who = uint64(step) & mask, uint64(node) & mask
    for group in range(len(out) // GROUP):
        for b in range(LANES):
            w = philox(seed, uint64(group * LANES + b) & mask, counter, who, DP_NOISE)
            words[0, b], words[1, b], words[2, b], words[3, b] = U32(w[0]), U32(w[1]), U32(w[2]), U32(w[3])
        at = group * GROUP
        for pair in range(2):
            low = at + 2 * pair * LANES
            box_muller(
                words[2 * pair],
                words[2 * pair + 1],
                out[low : low + LANES],
                out[low + LANES : low + 2 * LANES],
                scale,
            )
