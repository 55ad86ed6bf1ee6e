"""Random draws as pure functions of (seed, purpose, node id, counter).

There is no generator state to advance, so adding an observer, a policy or a node shifts no other draws, and a run can
be resumed anywhere. The function is Philox4x32-10: the seed is the key; the counter block holds (index, counter, node
id, purpose).

References
----------
J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.random.bit_generator import ISeedSequence

from gossiprec.base.arrays import F64, I64, U32

IntLike = int | npt.NDArray[np.integer]

_MASK32 = np.uint64(0xFFFFFFFF)
_SHIFT32 = np.uint64(32)
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10


def purpose_id(name: str) -> int:
    """Return the 32-bit word of a purpose, the same in every process and version."""
    return zlib.crc32(name.encode())


def philox_words(seed: int, index: IntLike, counter: IntLike, node: IntLike, purpose: int) -> U32:
    """Return four random 32-bit words for each element of the broadcast arguments.

    Parameters
    ----------
    seed : int
        0 <= seed < 2**64: the key.
    index, counter, node : int or array of int
        Each 0 <= x < 2**32; broadcast against one another.
    purpose : int
        From :func:`purpose_id`.

    Returns
    -------
    ndarray of uint32, shape (*broadcast, 4)
    """
    shape = np.broadcast_shapes(np.shape(index), np.shape(counter), np.shape(node))
    a, b, c, d = (np.empty(shape, np.uint64) for _ in range(4))
    for word, value in zip((a, b, c, d), (index, counter, node, purpose), strict=True):
        word[...] = value
    low, high = np.empty_like(a), np.empty_like(a)
    key = [seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF]
    for _ in range(ROUNDS):  # in place: fresh arrays would cost more than the arithmetic
        np.multiply(a, _MULTIPLIERS[0], out=low)
        np.multiply(c, _MULTIPLIERS[1], out=high)
        np.right_shift(high, _SHIFT32, out=a)
        a ^= b
        a ^= np.uint64(key[0])
        np.bitwise_and(high, _MASK32, out=b)
        np.right_shift(low, _SHIFT32, out=c)
        c ^= d
        c ^= np.uint64(key[1])
        np.bitwise_and(low, _MASK32, out=d)
        key = [(k + w) & 0xFFFFFFFF for k, w in zip(key, _WEYL, strict=True)]
    words = np.empty((*shape, 4), np.uint32)
    for place, word in enumerate((a, b, c, d)):
        words[..., place] = word
    return words


def uniforms(seed: int, counter: IntLike, node: IntLike, purpose: int) -> F64:
    """Return one uniform draw in the open interval (0, 1), of 53 bits, per element."""
    words = philox_words(seed, 0, counter, node, purpose).astype(np.uint64)
    return _unit(words[..., 0], words[..., 1])


def exponentials(seed: int, counter: IntLike, node: IntLike, purpose: int) -> F64:
    """Return one exponentially distributed draw with mean 1 per element."""
    return -np.log(uniforms(seed, counter, node, purpose))


def normals(seed: int, counter: IntLike, node: IntLike, purpose: int) -> F64:
    """Return one normally distributed draw with mean 0 and variance 1 per element.

    References
    ----------
    G. E. P. Box, M. E. Muller, "A note on the generation of random normal deviates", Annals of Mathematical
    Statistics 29, 1958. Radius and angle take two of the block's four words each.
    """
    words = philox_words(seed, 0, counter, node, purpose).astype(np.uint64)
    radius = np.sqrt(-2.0 * np.log(_unit(words[..., 0], words[..., 1])))
    return radius * np.cos(2.0 * np.pi * _unit(words[..., 2], words[..., 3]))


def _unit(high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint64]) -> F64:
    """Return numbers in the open interval (0, 1) of 53 bits from two words each."""
    bits = (high >> np.uint64(5)) * np.uint64(1 << 26) + (low >> np.uint64(6))
    return (bits.astype(np.float64) + 0.5) * 2.0**-53


def generator(seed: int, purpose: str, node: int = 0, counter: int = 0) -> np.random.Generator:
    """Return a fresh numpy generator for (seed, purpose, node, counter): never kept."""
    key = np.array([seed, (purpose_id(purpose) << 32) | node], np.uint64)
    words = np.array([0, 0, 0, counter], np.uint64)
    return np.random.Generator(np.random.Philox(_Key(key), counter=words))  # type: ignore[arg-type]


class _Key(ISeedSequence):
    """A seed sequence that returns a given key: with ``key=``, Philox would also collect entropy, which is slow."""

    def __init__(self, words: npt.NDArray[np.uint64]) -> None:
        self._words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> npt.NDArray[np.uint64]:
        """Return the key."""
        return self._words


def distinct_below(words: U32, bound: int) -> I64:
    """Return distinct integers below `bound`, uniform over ordered choices, one per word of the last axis.

    Parameters
    ----------
    words : ndarray of uint32, shape (..., n_choices)
    bound : int
        At least n_choices.
    """
    chosen = np.empty(words.shape, np.int64)
    for k in range(words.shape[-1]):
        pick = (words[..., k].astype(np.uint64) * np.uint64(bound - k) >> np.uint64(32)).astype(np.int64)
        for earlier in np.moveaxis(np.sort(chosen[..., :k], axis=-1), -1, 0):
            pick += pick >= earlier
        chosen[..., k] = pick
    return chosen


class NodeStreams:
    """A sequence of draws per node, consumed one by one and drawn in blocks for all nodes.

    Parameters
    ----------
    n_nodes : int
    draw : callable
        ``draw(first, count)`` returns draws ``first .. first + count - 1`` of every node, shape
        (n_nodes, count, ...). It is called with ascending `first`.
    width : int
        Draws per block.
    """

    WIDTH = 16
    """Draws per node and block: enough for numpy, and few enough for the processor's caches."""

    def __init__(
        self, n_nodes: int, draw: Callable[[int, int], npt.NDArray[Any]], *, width: int = WIDTH
    ) -> None:
        self._draw = draw
        self._width = width
        self._waiting: list[list[Any]] = [
            [] for _ in range(n_nodes)
        ]  # the next draw of each node is last in its list
        self._n_blocks = [0] * n_nodes
        self._blocks: dict[int, npt.NDArray[Any]] = {}
        self._n_left: dict[int, int] = {}

    def next_draw(self, node: int) -> Any:
        """Return the node's next draw."""
        waiting = self._waiting[node]
        if not waiting:
            waiting.extend(self._next_block(node))
        return waiting.pop()

    def _next_block(self, node: int) -> list[Any]:
        """Return one node's part of a block, last draw first; a block is freed once its last node has its part."""
        number = self._n_blocks[node]
        self._n_blocks[node] = number + 1
        if number not in self._blocks:
            self._blocks[number] = self._draw(number * self._width, self._width)
            self._n_left[number] = len(self._n_blocks)
        part: list[Any] = self._blocks[number][node, ::-1].tolist()
        self._n_left[number] -= 1
        if self._n_left[number] == 0:
            del self._blocks[number], self._n_left[number]
        return part


NEGATIVES = purpose_id("negatives")
"""Purpose of the negatives of training samples, which plain and compiled code draw."""
SHUFFLE = purpose_id("shuffle")
"""Purpose of the order of training samples, which plain and compiled code draw."""
