"""The event log of a run, written from the tape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.compute.tape import Behaviour, Event, Op, Segment
from gossiprec.eventlog import EventWriter

I64 = npt.NDArray[np.int64]

_STATE = ("updates_left", "view", "sender", "sent_at")
"""What changes in the course of a run."""


class Recording:
    """Turns stretches of tape into events of the log.

    Parameters
    ----------
    log : EventWriter
    behaviours : sequence of Behaviour
    roles : ndarray of int64, shape (n_nodes,)
    samples : ndarray of int64, shape (n_nodes,)
        Training samples of one local update.
    epochs : int
        Local epochs of one.
    message_bytes : ndarray of int64, shape (n_nodes,)
        Size of what each node sends.
    most_updates : ndarray of int64, shape (n_nodes,)
        Local updates after which a node trains no more.
    view_size : int or None
        Peers of a view if a wake sends to the whole view; views are then logged when they change.
    inline : bool
        Messages arrive when they are sent.
    """

    def __init__(
        self,
        log: EventWriter,
        *,
        behaviours: Sequence[Behaviour],
        roles: I64,
        samples: I64,
        epochs: int,
        message_bytes: I64,
        most_updates: I64,
        view_size: int | None,
        inline: bool,
    ) -> None:
        self._log = log
        self._roles = roles
        self._samples = samples
        self._epochs = epochs
        self._message_bytes = message_bytes
        self._updates_left = most_updates.copy()
        self._inline = inline
        self._trains = np.array([[Op.TRAIN in b.on_wake, Op.TRAIN in b.on_receive] for b in behaviours])
        self._view = None if view_size is None else np.full((len(roles), view_size), -1, np.int32)
        self._sender = np.zeros(0, np.int32)
        self._sent_at = np.zeros(0, np.float64)

    def state(self) -> dict[str, Any]:
        """Return what links the next stretch of tape to those before, for a checkpoint."""
        return {name: getattr(self, f"_{name}") for name in _STATE}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` gave."""
        for name in _STATE:
            setattr(self, f"_{name}", state[name])

    def write(self, segment: Segment, refused: I64) -> None:
        """Append a stretch of tape; after the messages `refused` the receiver did not train."""
        wakes = segment.kind == Event.WAKE
        self._log.append("wake", {"time": segment.time[wakes], "node": segment.node[wakes]})
        if self._view is not None:
            self._write_views(segment)
        sent_at = segment.sent_at
        if self._inline:
            time, receiver, sender = sent_at, segment.receiver, segment.sender
            message = np.arange(segment.first_message, segment.first_message + len(sender))
        else:
            self._sender = np.concatenate([self._sender, segment.sender])
            self._sent_at = np.concatenate([self._sent_at, sent_at])
            arrived = segment.kind == Event.DELIVER
            message = segment.message[arrived]
            time, receiver, sender = segment.time[arrived], segment.node[arrived], self._sender[message]
            sent_at = self._sent_at[message]
            self._write_drops(segment)
        size = self._message_bytes[sender].astype(np.int32)
        self._log.append(
            "message",
            {"time": time, "sender": sender, "receiver": receiver, "sent_at": sent_at, "size_bytes": size},
        )
        self._write_updates(segment, time, receiver, ~np.isin(message, refused))

    def mark(self, kind: str, *, time: float, round: int) -> None:
        """Append a round or an evaluation."""
        self._log.append(kind, {"time": [time], "round": np.array([round], np.int32)})

    def spend(self, nodes: I64, epsilon: npt.NDArray[np.float64], *, time: float) -> None:
        """Append the privacy that nodes have spent."""
        times = np.full(len(nodes), time)
        self._log.append("privacy", {"time": times, "node": nodes.astype(np.int32), "epsilon": epsilon})

    def _write_updates(
        self,
        segment: Segment,
        time: npt.NDArray[np.float64],
        receiver: npt.NDArray[np.int32],
        worthwhile: npt.NDArray[np.bool_],
    ) -> None:
        woke = segment.kind == Event.WAKE
        woke &= self._trains[self._roles[segment.node], 0]
        on_receive = self._trains[self._roles[receiver], 1] & worthwhile
        times = np.concatenate([segment.time[woke], time[on_receive]])
        nodes = np.concatenate([segment.node[woke], receiver[on_receive]])
        order = np.argsort(times, kind="stable")
        order = order[self._within_budget(nodes[order])]
        nodes = nodes[order]
        self._log.append(
            "update",
            {
                "time": times[order],
                "node": nodes,
                "epochs": np.full(len(nodes), self._epochs, np.int32),
                "samples": self._samples[nodes].astype(np.int32),
            },
        )

    def _within_budget(self, nodes: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """Say of each update, in order of time, whether its node still trains; counts them."""
        grouped = np.argsort(nodes, kind="stable")
        counts = np.bincount(nodes, minlength=len(self._updates_left))
        number = np.empty(len(nodes), np.int64)  # of the update among those of its node
        number[grouped] = np.arange(len(nodes)) - np.repeat(np.cumsum(counts) - counts, counts)
        within = number < self._updates_left[nodes]
        self._updates_left -= np.minimum(counts, self._updates_left)
        return within

    def _write_views(self, segment: Segment) -> None:
        """Append the views that differ from the node's view before."""
        assert self._view is not None
        wakes = np.flatnonzero(segment.kind == Event.WAKE)
        if not len(wakes):
            return
        starts = np.cumsum(segment.count) - segment.count
        peers = segment.receiver[starts[wakes][:, None] + np.arange(self._view.shape[1])]
        order = np.argsort(segment.node[wakes], kind="stable")
        nodes, views = segment.node[wakes][order], np.sort(peers[order], axis=1)
        before = np.roll(views, 1, axis=0)
        first = np.append(True, nodes[1:] != nodes[:-1])
        before[first] = self._view[nodes[first]]
        changed = np.sort(order[(views != before).any(axis=1)])
        last = np.append(first[1:], True)
        self._view[nodes[last]] = views[last]
        self._log.append(
            "view",
            {
                "time": segment.time[wakes[changed]],
                "node": segment.node[wakes[changed]],
                "peers": peers[changed],
            },
        )

    def _write_drops(self, segment: Segment) -> None:
        lost = segment.kind == Event.DROP
        message = segment.message[lost]
        self._log.append(
            "drop",
            {
                "time": segment.time[lost],
                "sender": self._sender[message],
                "receiver": segment.node[lost],
                "sent_at": self._sent_at[message],
                "cause": np.zeros(len(message), np.uint8),
            },
        )
