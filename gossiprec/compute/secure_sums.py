"""Secure sums of a round's answers: fixed-point numbers, pairwise masks modulo 2^k, and the sizes of the protocol.

This emulates what secure aggregation costs and what it reveals. It is not an implementation to deploy: key agreement
and secret sharing are counted and not computed, and all masks are draws from the seed of the run.

References
----------
K. Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", CCS 2017: the protocol with
double masks (sections 4 and 5), and the bytes of a user, ``2 n a_K + (5 n - 4) a_S + m ceil(log2 R)`` bits (section 7).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F32, F64, I64
from gossiprec.base.rng import generator
from gossiprec.rules.aggregators import Aggregator, Inbox, RoundSums

KEY_BYTES = 32
"""Bytes of a public key, a_K: X25519."""
SHARE_BYTES = 32
"""Bytes of a share of a secret of 256 bits, a_S; the paper counts no overhead of encrypting it."""
WIDEST = 64
"""Largest k of the integers modulo 2^k."""

Masked: TypeAlias = npt.NDArray[Any]
"""Integers modulo 2^k, of 32 bits for k up to 32, otherwise of 64."""


def exchange_bytes(n: int) -> dict[str, int]:
    """Return the sizes of the messages of a client that carry keys and shares, in a round of `n` clients.

    A client sends two public keys and receives those of the others; it sends and receives a share of two secrets for
    each other client; and it sends the coordinator one share for each client, which removes the masks.
    """
    return {
        "public_keys": 2 * KEY_BYTES,
        "key_list": 2 * (n - 1) * KEY_BYTES,
        "shares": 2 * (n - 1) * SHARE_BYTES,
        "share_list": 2 * (n - 1) * SHARE_BYTES,
        "unmasking": n * SHARE_BYTES,
    }


EXCHANGES = tuple(exchange_bytes(1))
"""The messages with keys and shares, in order; the lists come from the coordinator."""


@dataclass(frozen=True)
class FixedPoint:
    """Numbers as integers: clipped, and rounded to a multiple of 2^-bits.

    Attributes
    ----------
    clip : float
    bits : int
        Binary digits after the point.
    """

    clip: float
    bits: int

    @property
    def largest(self) -> int:
        """The largest integer of a number."""
        return round(self.clip * 2.0**self.bits)

    def encode(self, values: F64) -> tuple[I64, int]:
        """Return the integers of some numbers, and how many of them were clipped."""
        bounded = np.clip(values, -self.clip, self.clip)
        return np.rint(bounded * 2.0**self.bits).astype(np.int64), int((bounded != values).sum())

    def decode(self, values: I64) -> F64:
        """Return the numbers of integers."""
        return np.asarray(values * 2.0**-self.bits, np.float64)

    def needed_modulus(self, weight: float) -> int:
        """Return the smallest k such that no sum overflows, given the sum of the weights of its clients."""
        return (2 * round(weight) * max(self.largest, 1)).bit_length()


@dataclass(frozen=True)
class Modulus:
    """Integers modulo 2^k."""

    k: int

    @property
    def dtype(self) -> type[np.uint32] | type[np.uint64]:
        """The type that holds them; its arithmetic is modulo a multiple of 2^k."""
        return np.uint32 if self.k <= 32 else np.uint64

    def reduce(self, values: I64) -> Masked:
        """Return integers modulo 2^k."""
        return self.wrap(values.astype(np.uint64).astype(self.dtype))

    def wrap(self, values: Masked) -> Masked:
        """Return the results of arithmetic modulo 2^k."""
        found: Masked = values & self.dtype(2**self.k - 1)
        return found

    def lift(self, values: Masked) -> I64:
        """Return the integers from -2^(k-1) to 2^(k-1) - 1 that equal some modulo 2^k."""
        wide, half = values.astype(np.uint64), np.uint64(1 << (self.k - 1))
        # k-bit two's complement: flip the sign bit, and subtract it again
        return ((wide ^ half) - half).view(np.int64)


@dataclass(frozen=True)
class Masks:
    """The masks of a round: one per client, and one per pair of clients, which the two add with opposite signs.

    A client's vector is masked by both, so that the coordinator may learn either the client's own mask or its masks
    with others, which removes it from the sum, and never both.

    Attributes
    ----------
    seed : int
    round : int
    n : int
        Numbers of a vector.
    modulus : Modulus
    """

    seed: int
    round: int
    n: int
    modulus: Modulus

    def _draw(self, purpose: str, node: int, other: int = 0) -> Masked:
        draw = generator(self.seed, purpose, node, (self.round << 32) | other)
        dtype = self.modulus.dtype
        found: Masked = draw.integers(0, np.iinfo(dtype).max, self.n, dtype, endpoint=True)
        return found

    def own(self, client: int) -> Masked:
        """Return a client's own mask."""
        return self._draw("self-masks", client)

    def shared(self, client: int, other: int) -> Masked:
        """Return the mask that a client adds for another one; the other adds its negative."""
        mask = self._draw("pairwise-masks", min(client, other), max(client, other))
        return mask if client < other else (0 - mask).astype(self.modulus.dtype)

    def add(self, values: Masked, client: int, cohort: I64) -> Masked:
        """Return the vector that a client sends, masked for all other clients of the round."""
        masked = values + self.own(client)
        for other in cohort[cohort != client].tolist():
            masked += self.shared(client, other)
        return self.modulus.wrap(masked)

    def remove(self, total: Masked, answered: I64, dropped: I64) -> Masked:
        """Return the sum of the vectors of the clients that answered, without their masks.

        Their own masks, and those with clients that dropped out, are recovered from shares; masks between two clients
        that answered cancel.
        """
        plain = total.copy()
        for client in answered.tolist():
            plain -= self.own(client)
            for other in dropped.tolist():
                plain -= self.shared(client, other)
        return self.modulus.wrap(plain)


@dataclass(frozen=True)
class SumSettings:
    """The numbers of a secure sum that are known before the run.

    Attributes
    ----------
    seed : int
    encoding : FixedPoint
    modulus : Modulus
    n_columns, n_items, item_width : int
        Numbers of a version, and of its items.
    weighs : bool
        Whether clients have different weights, so that the coordinator needs their sum.
    counts_items : bool
        Whether the rule needs the sum of weights for each item.
    masks : bool
        Whether masks are drawn. They cancel, so the sums are the same without them.
    """

    seed: int
    encoding: FixedPoint
    modulus: Modulus
    n_columns: int
    n_items: int
    item_width: int
    weighs: bool
    counts_items: bool
    masks: bool = True

    @property
    def n_numbers(self) -> int:
        """Numbers of a masked vector."""
        return self.n_columns + self.weighs + self.counts_items * self.n_items

    @property
    def vector_bytes(self) -> int:
        """Size of a masked vector."""
        return -(-self.n_numbers * self.modulus.k // 8)


class SecureSum:
    """The sum of a round's changes, which the coordinator computes from masked vectors.

    Parameters
    ----------
    settings : SumSettings

    Attributes
    ----------
    n_clipped : int
        Numbers so far that were clipped.
    """

    def __init__(self, settings: SumSettings) -> None:
        self.settings = settings
        self.n_clipped = 0

    def sum_answers(self, own: F32, inbox: Inbox, clients: I64, cohort: I64, round_: int) -> RoundSums:
        """Return the sums of a round.

        Parameters
        ----------
        own : ndarray of float32, shape (n_columns,)
            The version that the clients were sent.
        inbox : Inbox
            Their answers.
        clients, cohort : ndarray of int64
            The client of each answer, and all clients of the round.
        round_ : int
        """
        settings = self.settings
        masks = Masks(settings.seed, round_, settings.n_numbers, settings.modulus)
        total = np.zeros(settings.n_numbers, settings.modulus.dtype)
        for client, values in zip(clients.tolist(), self._encoded(own, inbox), strict=True):
            vector = settings.modulus.reduce(values)
            total += masks.add(vector, client, cohort) if settings.masks else vector
        if settings.masks:
            total = masks.remove(total, clients, np.setdiff1d(cohort, clients))
        return self._decoded(settings.modulus.lift(settings.modulus.wrap(total)), len(inbox))

    def _encoded(self, own: F32, inbox: Inbox) -> Iterator[I64]:
        """Yield the integers of each client's vector."""
        for change, touched, weight in zip(
            changes(own, inbox, self.settings), touched_items(inbox), inbox.weights.tolist(), strict=True
        ):
            values, clipped = self.settings.encoding.encode(change)
            self.n_clipped += clipped
            parts, whole = [values * round(weight)], np.int64(round(weight))
            if self.settings.weighs:
                parts.append(np.array([whole]))
            if self.settings.counts_items:
                counts = np.zeros(self.settings.n_items, np.int64)
                counts[touched] = whole
                parts.append(counts)
            yield np.concatenate(parts)

    def _decoded(self, total: I64, n_answers: int) -> RoundSums:
        settings = self.settings
        rest = total[settings.n_columns :]
        weight, touched = float(rest[0]) if settings.weighs else float(n_answers), None
        if settings.counts_items:
            touched = np.full(settings.n_columns, weight)
            counts = np.repeat(rest[settings.weighs :], settings.item_width)
            touched[: len(counts)] = counts
        return RoundSums(settings.encoding.decode(total[: settings.n_columns]), weight, touched)


def changes(own: F32, inbox: Inbox, settings: SumSettings) -> Iterator[F64]:
    """Yield the change of a version by each answer of an inbox, shape (n_columns,)."""
    if inbox.deltas is None:
        for place in range(len(inbox)):
            yield inbox.rows[inbox.row_index[place : place + 1], :][0].astype(np.float64) - own
        return
    end = settings.n_items * settings.item_width
    for delta in inbox.deltas:
        change = np.zeros(settings.n_columns)
        change[:end].reshape(settings.n_items, -1)[delta.items] = delta.rows
        change[end:] = delta.shared
        yield change


def touched_items(inbox: Inbox) -> Iterator[npt.NDArray[np.int32] | slice]:
    """Yield the items that each answer of an inbox changes: all, if whole models are sent."""
    if inbox.deltas is None:
        yield from (slice(None) for _ in range(len(inbox)))
    else:
        yield from (delta.items for delta in inbox.deltas)


def mean_model(rule: Aggregator, own: F32, sums: RoundSums) -> F32:
    """Return the version changed by the mean of a round, which replaces the answer of each of its clients."""
    if rule.counts_items:
        return rule.reduce_sums(own, sums)
    return (own + sums.total / sums.weight).astype(np.float32)
