"""Compiled sampling for a local update: the same integers as :mod:`gossiprec.compute.train.local_update`."""

from __future__ import annotations

import numpy as np

from gossiprec.native.jit import inline
from gossiprec.numerics.draw_purposes import NEGATIVES, SHUFFLE
from gossiprec.numerics.philox import bounded_word, philox


@inline
def sample_negatives(positives, member, n_items, node, update, negatives, seed, items):
    """Fill `items` with each positive and its negatives (plain: ``draw_samples``)."""
    blocks = (negatives + 3) // 4
    per_attempt = len(positives) * blocks
    width = 1 + negatives
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
                        if not member[item >> 3] >> np.uint8(item & 7) & 1:
                            out[lane] = item
                            missing ^= 1 << lane
                index += per_attempt


@inline
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
