"""Recordings of real devices: when each was online, in the format of the file. A new file adds a format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F64, I64
from gossiprec.base.errors import DataError
from gossiprec.base.options import NoOptions, Options
from gossiprec.base.registry import Registry
from gossiprec.base.rng import generator
from gossiprec.data.sources import FileSource
from gossiprec.network.sim.availability import Lives, repeat_sessions
from gossiprec.network.sim.clock import TimeUnit


@dataclass(frozen=True)
class Recording:
    """The sessions of one device, in its own time: 0 is the beginning of the recording.

    Attributes
    ----------
    place : str
        The part of the file, for messages: ``"line 3"``.
    online : bool
        Whether the device is online at time 0.
    changes : ndarray of float64
        The times at which it goes offline or comes online, in turn; ascending, above 0 and up to `length`.
    length : float
        Length of the recording, above 0.
    """

    place: str
    online: bool
    changes: F64
    length: float

    def fault(self) -> str | None:
        """Return the reason why a recording is impossible, or None."""
        times = np.concatenate([[0.0], self.changes, [np.inf]])
        if not 0.0 < self.length < np.inf:
            return f"a recording of length {self.length:g}; expected a positive length"
        if not (np.diff(times) > 0.0).all() or (self.changes > self.length).any():
            return (
                f"changes that do not ascend from 0 to {self.length:g}; expected sessions that do not overlap"
            )
        return None


class SessionFormat(ABC):
    """A format of files with the sessions of devices.

    Parameters
    ----------
    options : Options
        Options of the class's own type.
    """

    Options: ClassVar[type[Options]] = NoOptions
    unit: ClassVar[TimeUnit | None] = None
    """Unit of the file's times; None if the scenario must name it."""

    def __init__(self, options: Any) -> None:
        self.options = options

    @abstractmethod
    def recordings(self, source: FileSource) -> Iterator[Recording]:
        """Yield the recordings of a file, in its order.

        Raises
        ------
        DataError
            If the file is damaged, or a part of it is not of the format; the message names file and line.
        """

    def checked_recordings(self, source: FileSource) -> list[Recording]:
        """Return the recordings of a file after a check of each.

        Raises
        ------
        DataError
            If there are none, or one is impossible.
        """
        found = list(self.recordings(source))
        for recording in found:
            if fault := recording.fault():
                raise DataError(f"{source}: {recording.place}: found {fault}; repair or remove it")
        if not found:
            raise DataError(f"{source}: found no recording of a device; expected at least one")
        return found


def recording_of_spans(place: str, begins: F64, ends: F64, length: float) -> Recording:
    """Return the recording of a device that is online from each beginning to each end.

    Parameters
    ----------
    place : str
    begins, ends : ndarray of float64
        In order of time; a session may begin at the end of another.
    length : float
    """
    flat = np.column_stack([begins, ends]).ravel()
    joint = np.flatnonzero(np.diff(flat) == 0.0)
    keep = np.ones(len(flat), np.bool_)
    keep[joint[joint % 2 == 1]] = keep[joint[joint % 2 == 1] + 1] = False
    flat = flat[keep]
    starts = bool(len(flat)) and flat[0] == 0.0
    return Recording(place, bool(starts), flat[1:] if starts else flat, length)


def first_bad_span(owner: npt.NDArray[Any], begin: F64, end: F64) -> int | None:
    """Return the first row with a span that is empty or overlaps an earlier one of its owner, or None.

    Parameters
    ----------
    owner : ndarray, shape (n_rows,)
    begin, end : ndarray of float64, shape (n_rows,)
        Rows may have any order.
    """
    order = np.lexsort((begin, owner))
    same = owner[order][1:] == owner[order][:-1]
    bad = begin >= end
    overlaps = order[1:][same & (begin[order][1:] < end[order][:-1])]
    bad[overlaps] = True
    return int(np.argmax(bad)) if bad.any() else None


def draw_rows(n_rows: int, n_nodes: int, *, seed: int, purpose: str) -> I64:
    """Return a row of a table for every node, drawn so that rows are used equally often, to one node."""
    draws = generator(seed, purpose)
    rows, nodes = draws.permutation(n_rows), draws.permutation(n_nodes)
    found = np.empty(n_nodes, np.int64)
    found[nodes] = rows[np.arange(n_nodes) % n_rows]
    return found


def lives_of(recordings: Sequence[Recording], *, per_wake: float, horizon: float, repeat: bool) -> Lives:
    """Return the sessions of nodes that live like one recording each.

    Parameters
    ----------
    recordings : sequence of Recording, one for each node
    per_wake : float
        Units of the recordings in one unit of virtual time.
    horizon : float
        Virtual time up to which sessions are needed.
    repeat : bool
        Whether a recording starts over at its end; otherwise its last state stays.
    """
    online = np.array([recording.online for recording in recordings], np.bool_)
    times = []
    for recording in recordings:
        found = recording.changes / per_wake
        if repeat:
            _, found = repeat_sessions(recording.online, found, recording.length / per_wake, horizon)
        times.append(found[found <= horizon])
    return online, times


SESSION_FORMATS: Registry[type[SessionFormat]] = Registry("session format", __name__, group="session_formats")
"""Formats of files with the sessions of devices."""
