"""Random draws of single wakes, for views that are known only at the wake."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gossiprec.base.arrays import I64, U32
from gossiprec.base.rng import NodeStreams, philox_words

Words = list[int]


def wake_words(n_words: int, wakes: I64, nodes: I64, *, seed: int, purpose: int) -> U32:
    """Return `n_words` random words for each (node, wake), shape (n_nodes, n_wakes, n_words)."""
    blocks = [philox_words(seed, b, wakes, nodes[:, None], purpose) for b in range(-(-n_words // 4))]
    return np.concatenate(blocks, axis=-1)[..., :n_words]


class WordStreams:
    """`n_words` random 32-bit words per wake of each node: functions of (seed, purpose, node, wake number).

    Parameters
    ----------
    n_nodes : int
    n_words : int
        Number of words per wake, at least 1.
    seed : int
    purpose : int
    """

    def __init__(self, n_nodes: int, n_words: int, *, seed: int, purpose: int) -> None:
        nodes = np.arange(n_nodes)

        def words(first: int, count: int) -> U32:
            return wake_words(n_words, np.arange(first, first + count), nodes, seed=seed, purpose=purpose)

        self._streams = NodeStreams(n_nodes, words)

    def take(self, node: int) -> Words:
        """Return the words of the node's next wake."""
        words: Words = self._streams.take(node)
        return words


def pick_distinct(pool: Sequence[int], n_picks: int, words: Sequence[int]) -> list[int]:
    """Return distinct members of the pool, uniform over ordered choices; the whole pool if it is no larger.

    It equals :func:`gossiprec.base.rng.distinct_below` on the same words, for a single choice.

    Parameters
    ----------
    pool : sequence of int
    n_picks : int
    words : sequence of int
        Random 32-bit words, at least `n_picks`.
    """
    if len(pool) <= n_picks:
        return list(pool)
    places: list[int] = []  # ascending
    chosen = []
    for k in range(n_picks):
        place = words[k] * (len(pool) - k) >> 32
        at = 0
        for at, earlier in enumerate(places):  # noqa: B007
            if place < earlier:
                break
            place += 1
        else:
            at = len(places)
        places.insert(at, place)
        chosen.append(pool[place])
    return chosen
