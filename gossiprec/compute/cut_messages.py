"""Messages that are pieces of their senders' versions: the piece in each message, and the numbers that it has.

Such a message is the handle of a version, as any message of a whole model; no row is written for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from gossiprec.base.arrays import F32, I32, I64, Bools
from gossiprec.base.ragged import row_entries
from gossiprec.compute.messages import BYTES, OutgoingTransforms, PushKeys
from gossiprec.compute.plan.tape import Behaviour, Op, TapeSegment, operations_by_slot
from gossiprec.models.base import BlockRole, Layout

Columns: TypeAlias = tuple[I64, I64, I64]
"""Columns of some rows: the first, the end, and the step of each row."""


@dataclass(frozen=True)
class CutMessages:
    """The pieces in all messages of a run.

    Attributes
    ----------
    layout : Layout
    outgoing : OutgoingTransforms
    piece : ndarray of int32, shape (n_messages,)
        The piece in each message; -1 for whole models.
    nodes : ndarray of bool, shape (n_nodes,)
        The nodes of which messages are read in the node's versions; other pieces have rows of their own.
    """

    layout: Layout
    outgoing: OutgoingTransforms
    piece: I32
    nodes: Bools

    def columns(self, messages: I32 | I64, senders: I32 | I64, receivers: I32 | None = None) -> Columns:
        """Return the first column, the end and the step of the numbers in some messages; all of whole rows.

        A message that its own `receiver` sent is one whole version, with which the node mixes.
        """
        end = self.layout.shared.stop
        begin, step = np.zeros(len(messages), np.int64), np.ones(len(messages), np.int64)
        found = begin, np.full_like(begin, end), step
        first = np.where(self.outgoing.withholds_role(BlockRole.USER), self.layout.items.start, 0)
        for cut, used in self.outgoing.cuts:
            is_piece = (used & self.nodes)[senders] & (self.piece[messages] >= 0)
            mine = np.flatnonzero(is_piece if receivers is None else is_piece & (senders != receivers))
            piece = self.piece[messages[mine]].astype(np.int64)
            for column, part in zip(found, cut.columns(piece, first[senders[mine]], end), strict=True):
                column[mine] = part
        return found

    def sizes(self, messages: I64, senders: I32) -> I64:
        """Return the bytes of messages of nodes that send pieces of their versions."""
        begin, end, step = self.columns(messages, senders)
        header = np.sum([cut.header * used for cut, used in self.outgoing.cuts], axis=0)
        return np.asarray(
            BYTES * (-(-(end - begin) // step)) + (header + self.outgoing.extra_bytes)[senders], np.int64
        )


def clip_columns(columns: Columns, part: slice, *, shifted: bool = True) -> Columns:
    """Return those of some columns that are in a part of a row, counted from its begin if `shifted`."""
    begin, end, step = columns
    begin = begin + -(-np.maximum(part.start - begin, 0) // step) * step
    first = part.start if shifted else 0
    return begin - first, np.minimum(end, part.stop) - first, step


def hide_numbers(rows: Sequence[F32], columns: Columns) -> None:
    """Set the numbers of each row that are not among its columns to NaN."""
    for row, low, high, step in zip(rows, *(column.tolist() for column in columns), strict=True):
        if (low, high, step) != (0, len(row), 1):
            kept = row[low:high:step].copy()
            row[:] = np.nan
            row[low:high:step] = kept


def cut_messages(
    outgoing: OutgoingTransforms,
    layout: Layout,
    seed: int,
    segments: Sequence[TapeSegment],
    behaviours: Sequence[Behaviour],
    roles: I64,
) -> CutMessages | None:
    """Return the pieces in the messages of a run, or None if no node sends pieces.

    Parameters
    ----------
    outgoing, layout, seed
    segments : sequence of TapeSegment
        The tape of the whole run.
    behaviours : sequence of Behaviour
        By role.
    roles : ndarray of int64, shape (n_nodes,)
    """
    if not outgoing.cuts:
        return None
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
    return CutMessages(layout, outgoing, piece, outgoing.only_cuts)


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
