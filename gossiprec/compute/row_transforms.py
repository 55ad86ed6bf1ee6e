"""Transforms that encode the messages of many pushes at once, as rows of numbers."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gossiprec.base.arrays import F32, I64
from gossiprec.base.rng import philox_words
from gossiprec.compute.messages import MessagePayload, PushContext, Transform


@dataclass(frozen=True)
class PushedRows:
    """The messages of some pushes, one row each: the user's numbers, the items', and the shared weights.

    Attributes
    ----------
    values : ndarray of float32, shape (n, width)
        The numbers to send, NaN if a number is not sent; encoding changes them.
    bases : ndarray of float32, shape (n, width), or None
        The versions before the local update, equal to `values` if there was none; None if the transform needs no base.
    memory, memory_row : ndarray of float32, shape (n_rows, width), and of int64, shape (n,)
        What the transform remembers of nodes, and the row of each sender; encoding changes it.
    ends : tuple of int
        The ends of the user's numbers, the items' and the shared weights.
    seed : int
    node, number : ndarray of int64, shape (n,)
        The sender of each push, and the number of the push among the node's.
    place, n_receivers : ndarray of int64, shape (n,)
        Place of the receiver among the receivers of the push, and their number; 0 and 1 if all are sent the same.
    """

    values: F32
    bases: F32 | None
    memory: F32
    memory_row: I64
    ends: tuple[int, int, int]
    seed: int
    node: I64
    number: I64
    place: I64
    n_receivers: I64

    def keys(self, purpose: int) -> I64:
        """Return 32 random bits for each push, equal for all its receivers."""
        return philox_words(self.seed, 0, self.number, self.node, purpose)[:, 0].astype(np.int64)


class RowTransform(Transform):
    """A transform that encodes many pushes per call."""

    rewrites = True
    resizes = True
    needs_base: ClassVar[bool] = False
    """Whether it reads :attr:`PushedRows.bases`."""

    @abstractmethod
    def encode_rows(self, rows: PushedRows) -> None:
        """Encode the values in place."""

    @abstractmethod
    def resized(self, payload: MessagePayload) -> MessagePayload:
        """Return an encoded payload with the bits of a number and the overhead of the message."""

    def encode(
        self, payload: MessagePayload, base: MessagePayload | None, push: PushContext, *receiver: int
    ) -> MessagePayload:
        """Return the encoded payload."""
        before = payload.flat
        values = before.copy() if payload.sent is None else np.where(payload.sent, before, np.float32(np.nan))
        bases = (values if base is None else base.flat)[None] if self.needs_base else None
        place = int(np.flatnonzero(push.receivers == receiver[0])[0]) if receiver else 0
        node, number, one = (np.array([number]) for number in (push.node, push.number, 1))
        n_receivers = np.array([len(push.receivers)]) if receiver else one
        ends = np.cumsum(
            [0 if payload.users is None else payload.users.size, payload.items.size, payload.shared.size]
        )
        rows = PushedRows(
            values[None], bases, push.memory[None], np.zeros_like(node), tuple(ends.tolist()), push.seed,
            node, number, np.array([place]), n_receivers,
        )  # fmt: skip
        self.encode_rows(rows)
        missing = np.isnan(values)
        encoded = payload.with_numbers(np.where(missing, before, values))
        return self.resized(replace(encoded, sent=~missing if missing.any() else payload.sent))
