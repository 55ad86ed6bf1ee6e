"""Messages that lack numbers, as they are stored: pieces of versions, packed numbers, or rows with NaN.

A piece is the handle of its sender's version, as a message of a whole model is; no row is written for it. Packed
numbers are k numbers of a row, from the first column of the items on, and after them their columns. In all other rows a
number that is not sent is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from gossiprec.base.arrays import F32, I32, I64, Bools
from gossiprec.base.ragged import row_entries
from gossiprec.compute.messages import BYTES, OutgoingTransforms, PushKeys
from gossiprec.compute.plan.tape import Behaviour, Op, TapeSegment, operations_by_slot
from gossiprec.models.base import BlockRole, Layout
from gossiprec.rules.aggregators import BLOCK, Aggregator, Inbox
from gossiprec.rules.aggregators.deltas import TouchedRule

Columns: TypeAlias = tuple[I64, I64, I64]
"""Columns of some rows: the first, the end, and the step of each row."""


@dataclass(frozen=True)
class PartialMessages:
    """The messages of a run that lack numbers.

    Attributes
    ----------
    layout : Layout
    outgoing : OutgoingTransforms
    is_partial : ndarray of bool, shape (n_nodes,)
        Nodes with messages that may lack numbers.
    packed : ndarray of int64, shape (n_nodes,)
        Count of numbers in each row that a node sends packed; 0 for nodes that send other rows.
    piece : ndarray of int32, shape (n_messages,) or (0,)
        The piece in each message, -1 for whole models; empty if no node sends pieces.
    """

    layout: Layout
    outgoing: OutgoingTransforms
    is_partial: Bools
    packed: I64
    piece: I32

    @property
    def first_packed(self) -> int:
        """The column of rows from which on numbers are packed."""
        return int(self.layout.items.start)

    def packed_counts(self, senders: I32 | I64, receivers: I32 | None = None) -> I64:
        """Return the count of packed numbers in some messages."""
        found = self.packed[senders]
        return found if receivers is None else np.where(senders == receivers, 0, found)

    def columns(self, messages: I32 | I64, senders: I32 | I64, receivers: I32 | None = None) -> Columns:
        """Return the first column, the end and the step of the numbers in some messages; all of whole rows.

        A message that its own `receiver` sent is one whole version, with which the node mixes.
        """
        end = self.layout.shared.stop
        begin, step = np.zeros(len(messages), np.int64), np.ones(len(messages), np.int64)
        found = begin, np.full_like(begin, end), step
        if not len(self.piece):
            return found
        first = np.where(self.outgoing.withholds_role(BlockRole.USER), self.layout.items.start, 0)
        for cut, used in self.outgoing.cuts:
            is_piece = (used & self._cut_nodes)[senders] & (self.piece[messages] >= 0)
            mine = np.flatnonzero(is_piece if receivers is None else is_piece & (senders != receivers))
            piece = self.piece[messages[mine]].astype(np.int64)
            for column, part in zip(found, cut.columns(piece, first[senders[mine]], end), strict=True):
                column[mine] = part
        return found

    def expand(
        self,
        rows: Sequence[F32],
        part: slice,
        messages: I32 | I64,
        senders: I32 | I64,
        receivers: I32 | None = None,
    ) -> None:
        """Make stored messages rows in which a number that is not sent is NaN.

        Parameters
        ----------
        rows : sequence of ndarray, shape (n_columns,)
            Copies of the columns of a part of each stored row; changed in place.
        part : slice
        messages, senders, receivers
            As for :meth:`columns`.
        """
        columns = clip_columns(self.columns(messages, senders, receivers), part)
        lists = (each.tolist() for each in (*columns, self.packed_counts(senders, receivers)))
        begin = self.first_packed - part.start
        for row, low, high, step, n in zip(rows, *lists, strict=True):
            if n:
                sent = row[begin : begin + n].copy()
                places = row[begin + n : begin + 2 * n].view(np.int32) - part.start
                row[:] = np.nan
                row[places[places >= 0]] = sent[places >= 0]
            elif (low, high, step) != (0, len(row), 1):
                kept = row[low:high:step].copy()
                row[:] = np.nan
                row[low:high:step] = kept

    def set_sizes(self, sizes: I32, first: int, senders: I32) -> None:
        """Set the bytes of those of the messages ``first, first + 1, ...`` that are pieces or have a fixed size."""
        mine = np.flatnonzero(self._cut_nodes[senders])
        begin, end, step = self.columns(first + mine, senders[mine])
        header = self.outgoing.extra_bytes + np.sum(
            [cut.header * used for cut, used in self.outgoing.cuts], axis=0, dtype=np.int64
        )
        sizes[mine] = BYTES * (-(-(end - begin) // step)) + header[senders[mine]]
        fixed = self._fixed_bytes[senders]
        sizes[fixed >= 0] = fixed[fixed >= 0]

    @cached_property
    def _cut_nodes(self) -> Bools:
        return self.outgoing.only_cuts

    @cached_property
    def _fixed_bytes(self) -> I64:
        """The size of each node's messages if all have this size, else -1."""
        return np.where(self.outgoing.fixed_sizes, self.outgoing.planned_bytes, -1)


def packed_counts(outgoing: OutgoingTransforms, layout: Layout) -> I64:
    """Return the count of numbers in the packed rows of each node, shape (n_nodes,); 0 if it sends other rows."""
    counts = outgoing.packed_counts
    return np.where(2 * counts <= layout.shared.stop - layout.items.start, counts, 0)


def clip_columns(columns: Columns, part: slice, *, shifted: bool = True) -> Columns:
    """Return those of some columns that are in a part of a row, counted from its begin if `shifted`."""
    begin, end, step = columns
    begin = begin + -(-np.maximum(part.start - begin, 0) // step) * step
    first = part.start if shifted else 0
    return begin - first, np.minimum(end, part.stop) - first, step


def are_valid_parts(inbox: Inbox, is_partial: Bools) -> Bools:
    """Return whether each received model has no infinite number, and NaN only if its sender sends parts."""
    valid = np.ones(len(inbox), np.bool_)
    for _, received in inbox.received():
        valid &= (np.isfinite(received) | (np.isnan(received) & is_partial[:, None])).all(axis=1)
    return valid


def reduce_parts(rule: Aggregator, own: F32, inbox: Inbox) -> F32:
    """Return the reduced model; a number that no model has keeps the receiver's value."""
    out = own.copy()
    reduce_block = _mean if rule.streaming else _robust
    width = max(1, BLOCK // (16 * max(len(inbox), 1)))
    for columns, models in inbox.models(own):
        for low in range(0, models.shape[1], width):
            some = slice(low, low + width)
            reduce_block(rule, out[columns][some], models[:, some], inbox)
    return out


def _mean(rule: Aggregator, out: F32, models: F32, inbox: Inbox) -> None:
    there = ~np.isnan(models)
    weights = inbox.model_weights[:, None] * there
    mass = weights.sum(axis=0)
    share = np.divide(weights, mass, out=np.zeros_like(weights), where=mass > 0)
    total = (share * np.where(there, models, np.float32(0.0))).sum(axis=0)
    np.copyto(out, total, casting="same_kind", where=mass > 0)


def _robust(rule: Aggregator, out: F32, models: F32, inbox: Inbox) -> None:
    """Reduce numbers that equally many models have together, as one item of one number each."""
    assert isinstance(rule, TouchedRule)
    counts = (~np.isnan(models)).sum(axis=0)
    for n in np.unique(counts[counts > 0]).tolist():
        places = np.flatnonzero(counts == n)
        some = models[:, places]
        values = some.T[~np.isnan(some).T].reshape(len(places), n)
        out[places] = rule.combine(np.ascontiguousarray(values)[:, :, None].transpose(1, 0, 2))[:, 0]


def find_pieces(
    outgoing: OutgoingTransforms,
    seed: int,
    segments: Sequence[TapeSegment],
    behaviours: Sequence[Behaviour],
    roles: I64,
) -> I32:
    """Return the piece in each message of a run, shape (n_messages,); empty if no node sends pieces.

    Parameters
    ----------
    outgoing, seed
    segments : sequence of TapeSegment
        The tape of the whole run.
    behaviours : sequence of Behaviour
        By role.
    roles : ndarray of int64, shape (n_nodes,)
    """
    if not outgoing.cuts:
        return np.zeros(0, np.int32)
    cutting = np.logical_or.reduce([used for _, used in outgoing.cuts])
    slots = operations_by_slot(behaviours)
    pushing = np.array([[*[Op.PUSH in ops for ops in of_role], False] for of_role in slots])
    found = [_pushes(segment, cutting, pushing, roles) for segment in segments]
    n_messages = sum(len(segment.receiver) for segment in segments)
    piece, first = np.full(n_messages, -1, np.int32), np.cumsum([0, *(len(sender) for sender, *_ in found)])
    numbers = _rank(np.concatenate([sender for sender, *_ in found]))
    for begin, (sender, message, push, place) in zip(first.tolist(), found, strict=False):
        keys = PushKeys(seed, sender, numbers[begin : begin + len(sender)])
        for cut, used in outgoing.cuts:
            mine = np.flatnonzero(used[sender[push]])
            piece[message[mine]] = cut.pieces(keys.of(cut.purpose)[push[mine]], place[mine])
    return piece


def _pushes(segment: TapeSegment, nodes: Bools, pushing: Bools, roles: I64) -> tuple[I64, I64, I64, I64]:
    """Return the sender of each push of some nodes; and id, push and place of the receiver of each message in them."""
    events = np.flatnonzero(nodes[segment.node] & (segment.count > 0))
    events = events[pushing[roles[segment.node[events]], segment.slots[events]]]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(segment.count, dtype=np.int64)])
    index, push = row_entries(offsets, events)
    models = segment.carries_model[index]
    index, push = index[models], push[models]
    pushes, push = np.unique(push, return_inverse=True)
    receiver = segment.receiver[index].astype(np.int64)
    _, first, same = np.unique(push * len(nodes) + receiver, return_index=True, return_inverse=True)
    new = first[same] == np.arange(len(index))
    rank = np.cumsum(new) - 1
    begin = np.searchsorted(push, np.arange(len(pushes)))
    return (
        segment.node[events[pushes]].astype(np.int64), segment.first_message + index, push,
        rank[first[same]] - rank[begin][push],
    )  # fmt: skip


def _rank(nodes: I64) -> I64:
    """Return how often each node occurs earlier in the list."""
    order = np.argsort(nodes, kind="stable")
    first = np.searchsorted(nodes[order], nodes[order])
    rank = np.empty(len(nodes), np.int64)
    rank[order] = np.arange(len(nodes)) - first
    return rank
