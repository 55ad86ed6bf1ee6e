"""Checks of a planner's state from a checkpoint: compiled loops index tables by these numbers without looking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gossiprec.arrays import I32, I64, check_array, check_range
from gossiprec.compute.plan import tables
from gossiprec.compute.plan.tape import Event, Segment

MOST_WAVES = 2**30
"""More waves than any run has; sums of a few of them still fit 32 bits."""
_ROWS_OF_NODES = (tables.CURRENT, tables.HELD, tables.BASE)
_SAME = (tables.ROLE, tables.LIMIT, tables.INBOX, tables.REWRITES)


def check_planner_state(state: Mapping[str, Any], fresh: Mapping[str, Any]) -> None:
    """Refuse a state with an index out of its range, or with claims and lists that contradict each other.

    Parameters
    ----------
    state : mapping
        From a checkpoint.
    fresh : mapping
        Of the same planner before it has planned anything.

    Raises
    ------
    ValueError
        Naming the table and what is wrong with it.
    """
    _check_shapes(state, fresh)
    counters = _check_counters(state, fresh)
    _check_nodes(state, fresh, counters)
    _check_rows(state, counters)
    _check_free(state, counters)
    _check_messages(state)
    check_range("planner.pool_waves", state["pool_waves"], 0, int(counters[tables.LAST_WAVE]))


def _check_shapes(state: Mapping[str, Any], fresh: Mapping[str, Any]) -> None:
    for name, like in fresh.items():
        check_array(f"planner.{name}", state[name], like, grows=name not in _FIXED)
    if not len(state["free"]) or len(state["rows"]) < len(state["nodes"]):
        raise ValueError("planner.rows: found fewer rows than nodes")


_FIXED = ("nodes", "mass", "counters", "pool_waves")


def _check_counters(state: Mapping[str, Any], fresh: Mapping[str, Any]) -> I64:
    counters: I64 = state["counters"]
    most = np.full(len(counters), MOST_WAVES)
    most[[tables.FREE_HEAD, tables.FREE_COUNT]] = len(state["free"]) - 1, len(state["free"])
    most[[tables.QUEUED, tables.COLLECTED]] = len(state["messages"])
    most[tables.FRESH], most[tables.RESERVE] = len(state["rows"]), fresh["counters"][tables.RESERVE]
    least = np.zeros(len(counters), np.int64)
    least[tables.FRESH], least[tables.RESERVE] = fresh["counters"][tables.FRESH], most[tables.RESERVE]
    if ((counters < least) | (counters > most)).any():
        place = int(np.flatnonzero((counters < least) | (counters > most))[0])
        raise ValueError(
            f"planner.counters[{place}]: found {counters[place]}; expected {least[place]} to {most[place]}"
        )
    return counters


def _check_nodes(state: Mapping[str, Any], fresh: Mapping[str, Any], counters: I64) -> None:
    nodes, before, used = state["nodes"], fresh["nodes"], int(counters[tables.FRESH])
    n_messages = len(state["messages"])
    for column in _SAME:
        if not np.array_equal(nodes[:, column], before[:, column]):
            raise ValueError(f"planner.nodes: column {column} does not match this scenario")
    check_range("planner.nodes: rows", nodes[:, tables.CURRENT], 0, used - 1)
    check_range("planner.nodes: rows", nodes[:, [tables.HELD, tables.BASE]], tables.NONE, used - 1)
    lists = nodes[:, [tables.HEAD, tables.TAIL, tables.PUSHED]]
    check_range("planner.nodes: messages", lists, tables.NONE, n_messages - 1)
    check_range("planner.nodes: pushes", nodes[:, tables.PUSHES], 0, n_messages)
    if (nodes[:, tables.UPDATES] < 0).any() or (nodes[:, tables.UPDATES] > nodes[:, tables.LIMIT]).any():
        raise ValueError("planner.nodes: found a number of updates that is negative or beyond the limit")


def _check_rows(state: Mapping[str, Any], counters: I64) -> None:
    rows, nodes, versions = state["rows"], state["nodes"], state["versions"]
    used, last = int(counters[tables.FRESH]), int(counters[tables.LAST_WAVE])
    claims = len(state["messages"]) + 4 * len(nodes) + len(versions)
    check_range("planner.rows: claims", rows[:, tables.NEEDED], 0, claims)
    check_range("planner.rows: waves", rows[:, [tables.WRITTEN, tables.READ]], 0, last)
    check_range("planner.versions", versions, 0, used - 1)
    named = nodes[:, _ROWS_OF_NODES]
    held = np.concatenate([named[named != tables.NONE], versions])
    if (rows[held, tables.NEEDED] < 1).any():
        raise ValueError("planner.rows: found no claim on a row that a node holds")


def _check_free(state: Mapping[str, Any], counters: I64) -> None:
    free, rows = state["free"], state["rows"]
    count = int(counters[tables.FREE_COUNT])
    ring = np.roll(free, -int(counters[tables.FREE_HEAD]))[:count]
    check_range("planner.free", ring, 0, int(counters[tables.FRESH]) - 1)
    if len(np.unique(ring)) != count or (rows[ring, tables.NEEDED] != 0).any():
        raise ValueError("planner.free: found a row twice, or one that is in use")


def _check_messages(state: Mapping[str, Any]) -> None:
    messages, n_nodes = state["messages"], len(state["nodes"])
    n = len(messages)
    check_range("planner.messages: senders", messages[:, tables.SENDER], 0, n_nodes - 1)
    check_range("planner.messages: rows", messages[:, tables.CARRIED], 0, len(state["rows"]) - 1)
    check_range("planner.messages: lists", messages[:, tables.NEXT], tables.NONE, n - 1)
    check_range("planner.messages: pushes", messages[:, tables.PUSH], 0, max(n - 1, 0))


class PastEvents:
    """What the tape before a checkpoint says of a planner's state: who has received which message, and woken how often.

    Parameters
    ----------
    n_nodes : int
    inline : bool
        Messages arrive the moment they are sent.
    """

    def __init__(self, n_nodes: int, *, inline: bool) -> None:
        self._inline = inline
        self._events = np.zeros(n_nodes, np.int64)
        self._received: list[tuple[I32, I32]] = []
        self._n_sent = 0
        self.any = False

    def note(self, segment: Segment) -> None:
        """Note a stretch of tape that was carried out by an earlier process."""
        self.any = True
        first, n_nodes = segment.first_message, len(self._events)
        self._n_sent = first + len(segment.receiver)
        self._events += np.bincount(segment.node, minlength=n_nodes)
        if self._inline:
            self._events += np.bincount(segment.receiver, minlength=n_nodes)
            sent = np.arange(first, self._n_sent, dtype=np.int32)
            self._received.append((sent, segment.receiver))
        else:
            arrived = segment.kind == Event.DELIVER
            self._received.append((segment.message[arrived], segment.node[arrived]))

    def check(self, state: Mapping[str, Any], trains: int) -> None:
        """Refuse lists of queued messages that have not arrived where they are queued, and too many updates.

        Parameters
        ----------
        state : mapping
            Of the planner.
        trains : int
            Most local updates of a node at one event.

        Raises
        ------
        ValueError
        """
        nodes, messages = state["nodes"], state["messages"]
        if self._n_sent > len(messages):
            raise ValueError(
                f"planner.messages: found {len(messages)}; expected {self._n_sent}, as many as were sent"
            )
        if (nodes[:, tables.UPDATES] > trains * self._events).any():
            raise ValueError("planner.nodes: found more updates than the node can have made by now")
        receiver = np.full(len(messages), tables.NONE, np.int64)
        for message, node in self._received:
            receiver[message] = node
        self._received.clear()
        queued = self._queued(nodes, messages[:, tables.NEXT], receiver)
        waits = nodes[:, tables.INBOX] != 0
        for place, some in ((tables.QUEUED, ~waits), (tables.COLLECTED, waits)):
            if int(queued[some].sum()) != int(state["counters"][place]):
                raise ValueError(
                    "planner.counters: the number of queued messages differs from the length of the lists"
                )

    def _queued(self, nodes: I32, following: I32, receiver: I64) -> I64:
        """Return how many messages are queued for each node; each is followed to its end once."""
        counts = np.zeros(len(nodes), np.int64)
        seen = np.zeros(len(following), np.bool_)
        for node, (head, tail) in enumerate(nodes[:, [tables.HEAD, tables.TAIL]].tolist()):
            message, last = head, tables.NONE
            while message != tables.NONE:
                if seen[message] or receiver[message] != node:
                    raise ValueError(
                        f"planner.messages: message {message} is queued twice, or has not arrived at node {node}"
                    )
                seen[message], last = True, message
                counts[node] += 1
                message = int(following[message])
            if last != tail:
                raise ValueError(
                    f"planner.nodes: the last message queued for node {node} is {last}, not {tail}"
                )
        return counts
