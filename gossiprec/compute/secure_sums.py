"""Secure sums of a round's answers: fixed-point numbers modulo 2^k, with masks that cancel.

Masks cancel, so a sum is the same without them. They are computed to show that the protocol gives the sum, and what it
costs (:class:`Masks`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F32, F64, I64
from gossiprec.base.rng import generator
from gossiprec.rules.aggregators import Aggregator, Inbox, RoundSums

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

KEY_BYTES = 32
"""Bytes of a public key, a_K: X25519."""
SHARE_BYTES = 32
"""Bytes of a share of a secret of 256 bits, a_S; the paper counts no overhead of encrypting it."""
BLOCK_BYTES = 16
"""Bytes of a secret that PyCryptodome shares at a time."""

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
class Quorum:
    """The number of answers that a sum needs.

    Attributes
    ----------
    threshold : float
        Fraction of a round's clients that must send shares to recover a secret.
    minimum : int
        Smallest number of clients of a sum.
    """

    threshold: float
    minimum: int

    def answers(self, n: int) -> int:
        """Return the number of answers that a round of `n` clients needs."""
        return max(math.ceil(self.threshold * n - 1e-9), self.minimum)


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
        return values & self.dtype(2**self.k - 1)

    def lift(self, values: Masked) -> I64:
        """Return the integers from -2^(k-1) to 2^(k-1) - 1 that equal some modulo 2^k."""
        wide, half = values.astype(np.uint64), np.uint64(1 << (self.k - 1))
        # k-bit two's complement: flip the sign bit, and subtract it again
        return ((wide ^ half) - half).view(np.int64)


@dataclass(frozen=True)
class Round:
    """A round of a receiver that learns sums: a coordinator, or a node of gossip.

    Attributes
    ----------
    receiver, number : int
    cohort : ndarray of int64
        The clients that agree on keys, ascending.
    """

    receiver: int
    number: int
    cohort: I64


class Masks:
    """The masks of a round: one per client, and one per pair of clients, which the two add with opposite signs.

    A client's vector is masked by both, so that the coordinator may learn either the client's own mask or its masks
    with others, which removes it from the sum, and never both.

    Parameters
    ----------
    seed : int
    round_ : Round
    threshold : int
        Number of shares that recover a secret.
    n : int
        Numbers of a vector.
    modulus : Modulus
    """

    def __init__(self, seed: int, round_: Round, threshold: int, n: int, modulus: Modulus) -> None:
        self._cohort, self._threshold, self._n, self.modulus = round_.cohort, threshold, n, modulus
        counter = (round_.number << 32) | round_.receiver
        # the private key of each client, and the seed of its own mask
        self._secrets = {
            client: (draw.bytes(KEY_BYTES), draw.bytes(KEY_BYTES))
            for client in round_.cohort.tolist()
            for draw in [generator(seed, "secure-keys", client, counter)]
        }
        self._public_keys = {
            client: _private_key(key).public_key() for client, (key, _) in self._secrets.items()
        }

    def add(self, values: Masked, client: int) -> Masked:
        """Return the vector that a client sends, masked for all other clients of the round."""
        key, own = self._secrets[client]
        return self.modulus.wrap(values + self._expanded(own) + self._shared(client, key, self._cohort))

    def remove(self, total: Masked, answered: I64) -> Masked:
        """Return the sum of the vectors of the clients that answered, without their masks.

        Their own masks, and those with clients that dropped out, are recovered from the shares of the clients that
        answered. Masks between two clients that answered cancel.
        """
        plain = total.copy()
        for client in answered.tolist():
            plain -= self._expanded(self._recovered(self._secrets[client][1], answered))
        for client in np.setdiff1d(self._cohort, answered).tolist():
            plain += self._shared(client, self._recovered(self._secrets[client][0], answered), answered)
        return self.modulus.wrap(plain)

    def _shared(self, client: int, private: bytes, others: I64) -> Masked:
        """Return the sum of the masks that a client with some private key adds for others."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        key, total = _private_key(private), np.zeros(self._n, self.modulus.dtype)
        for other in others[others != client].tolist():
            agreed = key.exchange(self._public_keys[other])
            mask = self._expanded(HKDF(hashes.SHA256(), KEY_BYTES, None, b"pairwise mask").derive(agreed))
            (np.add if client < other else np.subtract)(total, mask, out=total)
        return total

    def _expanded(self, seed: bytes) -> Masked:
        """Return the mask of a seed; each seed has one mask."""
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

        width = np.dtype(self.modulus.dtype).newbyteorder("<")
        stream = Cipher(ChaCha20(seed, bytes(16)), None).encryptor().update(bytes(self._n * width.itemsize))
        return np.frombuffer(stream, width).astype(self.modulus.dtype)

    def _recovered(self, secret: bytes, answered: I64) -> bytes:
        """Return a secret from the shares of clients that answered; shares of no use are not computed."""
        places = np.searchsorted(self._cohort, answered[: self._threshold])
        parts = [secret[at : at + BLOCK_BYTES] for at in range(0, len(secret), BLOCK_BYTES)]
        shares = [split_secret(part, self._threshold, len(self._cohort)) for part in parts]
        return b"".join(combine_shares([each[place] for place in places.tolist()]) for each in shares)


def split_secret(secret: bytes, threshold: int, n: int) -> list[tuple[int, bytes]]:
    """Return shares of a secret of 16 bytes for `n` holders, of which `threshold` recover it, by PyCryptodome."""
    from Crypto.Protocol.SecretSharing import Shamir

    return Shamir.split(threshold, n, secret)


def combine_shares(shares: list[tuple[int, bytes]]) -> bytes:
    """Return the secret of some shares."""
    from Crypto.Protocol.SecretSharing import Shamir

    return Shamir.combine(shares)


def _private_key(secret: bytes) -> X25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(secret)


WIDEST = 64
"""Largest k of the integers modulo 2^k."""
MASKED_COHORT = 16
"""Clients of a round up to which masks are computed by default: the time of recovery grows with their cube."""


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
