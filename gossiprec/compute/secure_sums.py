"""Secure sums of a round's answers: fixed-point numbers modulo 2^k, with masks that cancel.

Masks cancel, so a sum is the same without them. They are computed to show that the protocol gives the sum, and what it
costs (:mod:`gossiprec.compute.secure_masks`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F32, F64, I64
from gossiprec.compute.secure_masks import Masks, Modulus, Quorum, Round
from gossiprec.rules.aggregators import Aggregator, Inbox, RoundSums

WIDEST = 64
"""Largest k of the integers modulo 2^k."""
MASKED_COHORT = 16
"""Clients of a round up to which masks are computed unless the scenario says otherwise (decision 0096)."""


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
    quorum : Quorum
    masks : bool
        Whether masks are computed.
    """

    seed: int
    encoding: FixedPoint
    modulus: Modulus
    n_columns: int
    n_items: int
    item_width: int
    weighs: bool
    counts_items: bool
    quorum: Quorum
    masks: bool = True

    @property
    def n_numbers(self) -> int:
        """Numbers of a masked vector."""
        return self.n_columns + self.weighs + self.counts_items * self.n_items

    @property
    def vector_bytes(self) -> int:
        """Size of a masked vector."""
        return -(-self.n_numbers * self.modulus.k // 8)


@dataclass(frozen=True)
class NeighbourSums:
    """The options by which nodes of gossip learn the sums of what their neighbours send.

    Attributes
    ----------
    encoding : FixedPoint
    quorum : Quorum
    masks : bool or None
        Whether masks are computed; None decides by the number of neighbours.
    """

    encoding: FixedPoint
    quorum: Quorum
    masks: bool | None


class SecureSum:
    """The sum of a round's changes, which the receiver computes from masked vectors.

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
        self._lock = Lock()

    def sum_answers(self, own: F32, inbox: Inbox, clients: I64, round_: Round, answered: I64) -> RoundSums:
        """Return the sums of a round.

        Parameters
        ----------
        own : ndarray of float32, shape (n_columns,)
            The version that the clients were sent.
        inbox : Inbox
            Their answers.
        clients : ndarray of int64
            The client of each answer in the inbox.
        round_ : Round
        answered : ndarray of int64
            All clients that answered. Those without data have no weight, are not in the inbox, and send zeros.
        """
        settings = self.settings
        masks = self._masks(round_) if settings.masks else None
        total = np.zeros(settings.n_numbers, settings.modulus.dtype)
        for client, values in zip(clients.tolist(), self._encoded(own, inbox), strict=True):
            vector = settings.modulus.reduce(values)
            total += vector if masks is None else masks.add(vector, client)
        if masks is not None:
            for client in np.setdiff1d(answered, clients).tolist():
                total += masks.add(np.zeros_like(total), client)
            total = masks.remove(total, answered)
        return self._decoded(settings.modulus.lift(settings.modulus.wrap(total)), len(inbox))

    def _masks(self, round_: Round) -> Masks:
        settings, needed = self.settings, self.settings.quorum.answers(len(round_.cohort))
        return Masks(settings.seed, round_, needed, settings.n_numbers, settings.modulus)

    def _encoded(self, own: F32, inbox: Inbox) -> Iterator[I64]:
        """Yield the integers of each client's vector."""
        for change, touched, weight in zip(
            changes(own, inbox, self.settings), touched_items(inbox), inbox.weights.tolist(), strict=True
        ):
            values, clipped = self.settings.encoding.encode(change)
            with self._lock:  # nodes of gossip compute their sums in several threads
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
