"""Masks of a secure sum: keys that clients agree on, masks that cancel, and secrets that are recovered from shares.

Key agreement, key derivation and the stream of mask bytes are those of ``cryptography``, secret sharing is that of
PyCryptodome. The keys are draws of the run, so masks are a function of seed, receiver, round and clients. Shares hold
fresh randomness, which the recovered secrets do not depend on. Public keys are not signed, and shares are not
encrypted. This emulates costs and visibility, and is not an implementation to deploy.

References
----------
K. Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", CCS 2017: the protocol with
double masks (section 4.1 and figure 4), and the bytes of a user, ``2 n a_K + (5 n - 4) a_S + m ceil(log2 R)`` bits
(section 7).

Notes
-----
The paper expands seeds by AES in counter mode; ChaCha20 gives the same and is as fast. Its shares are of secrets of 256
bits; PyCryptodome shares 128 bits at a time, so a secret is shared in two halves, and a share has 32 bytes, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import I64
from gossiprec.base.rng import generator

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
        found: Masked = values & self.dtype(2**self.k - 1)
        return found

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
