"""Compiled Philox4x32-10, which gives the same words as :mod:`gossiprec.base.rng`."""

from __future__ import annotations

import numpy as np

from gossiprec.native.jit import inline

uint64 = np.uint64


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
