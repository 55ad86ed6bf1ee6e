"""Contacts of a trace: at a wake, the peers of a node are those with which it is in contact.

A trace is a file with one line per contact: its beginning, two nodes, and its duration.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F64, I64
from gossiprec.base.errors import DataError, ScenarioError
from gossiprec.base.rng import purpose_id
from gossiprec.data.sources import FileSource
from gossiprec.network.overlay import OverlayContext, Views, WordStreams, pick_distinct
from gossiprec.network.overlay.views import NeighborOptions
from gossiprec.network.sessions import draw_rows, first_bad_span
from gossiprec.network.sim.clock import TimeUnit, units_per_wake

CHOICE = purpose_id("contact-choice")
COLUMNS = ("time", "i", "j", "duration")
KEY = "protocol.view.contacts"


class ContactViewOptions(NeighborOptions):
    """The peers of a node are those with which it is in contact, as recorded in a file."""

    given_by = ("contacts", "the peers of a node are those with which it is in contact")
    contacts: Annotated[str, Field(min_length=1)]
    """csv file with the header time,i,j,duration: a contact of i and j from a time on"""
    unit: TimeUnit
    """unit of times and durations: ms, s, min, h or day, which need seconds_per_wake; or wakes"""
    people: Literal["nodes", "drawn"] = "nodes"
    """nodes: i and j are node ids; drawn: they are any names, drawn onto nodes by the seed"""
    end: Literal["repeat", "hold", "refuse"] = "refuse"
    """if the run is longer than the trace: repeat it, end without contacts, or refuse the run"""


@dataclass(frozen=True)
class Contacts:
    """Contacts between nodes, in virtual time.

    Attributes
    ----------
    begin, end : ndarray of float64, shape (n_contacts,)
        A contact holds from its beginning up to, but not including, its end.
    one, other : ndarray of int64, shape (n_contacts,)
    """

    begin: F64
    end: F64
    one: I64
    other: I64

    @property
    def span(self) -> float:
        """The end of the last contact."""
        return float(self.end.max())

    def most_peers(self, n_nodes: int) -> int:
        """Return the largest number of contacts that a node has at the same time."""
        node = np.concatenate([self.one, self.other] * 2)
        time = np.concatenate([self.begin, self.begin, self.end, self.end])
        step = np.repeat([1, -1], 2 * len(self.begin))
        order = np.lexsort((step, time, node))  # at equal times a contact ends before another begins
        level = np.cumsum(step[order])  # every node's steps sum to 0
        return int(level.max())


def read_contacts(
    options: ContactViewOptions, n_nodes: int, *, seconds_per_wake: float | None, seed: int
) -> Contacts:
    """Return the contacts in a file.

    Raises
    ------
    ScenarioError
        If the file cannot be read, or a contact is impossible; the message names the line.
    """
    per_wake = units_per_wake(options.unit, seconds_per_wake, "protocol.view.unit")
    try:
        return _read(
            FileSource(Path(options.contacts)), options.people, n_nodes, per_wake=per_wake, seed=seed
        )
    except DataError as error:
        raise ScenarioError(f"{KEY}: {error}") from error


def _read(source: FileSource, people: str, n_nodes: int, *, per_wake: float, seed: int) -> Contacts:
    from gossiprec.data.column_parsers import IdEncoder, number_parser  # pyarrow, which few runs need
    from gossiprec.data.delimited_text import read_columns, require_header
    from gossiprec.data.text_blocks import TextFormat, find_line_of_row

    layout = TextFormat(COLUMNS, ",", header=True, quote='"')
    require_header(source, layout)
    names = IdEncoder()
    time = number_parser(
        "a time of 0 or more: the run begins at 0", lambda values: np.isfinite(values) & (values >= 0.0)
    )
    duration = number_parser("a duration above 0", lambda values: np.isfinite(values) & (values > 0.0))
    end = names.make_parser("node")
    table = read_columns(source, layout, {"time": time, "i": end, "j": end, "duration": duration})
    node = np.array([_node_id(name, n_nodes) for name in names.ids], np.int64)
    if people == "drawn":
        if len(names.ids) > n_nodes:
            raise DataError(
                f"{source}: found {len(names.ids)} people, but there are {n_nodes} nodes; use more users, or a "
                "part of the file"
            )
        order = sorted(range(len(names.ids)), key=list(names.ids).__getitem__)  # not the order of the lines
        node[order] = draw_rows(n_nodes, n_nodes, seed=seed, purpose="contact-people")[: len(order)]
    one, other = node[table["i"]], node[table["j"]]
    begin, until = table["time"], table["time"] + table["duration"]
    pairs = np.minimum(one, other) * n_nodes + np.maximum(one, other)
    unknown, alone = (one < 0) | (other < 0), one == other
    overlap = first_bad_span(pairs, begin, until)
    faults: list[tuple[int, str, str]] = []
    if unknown.any():
        row = int(np.argmax(unknown))
        name = list(names.ids)[table["i" if one[row] < 0 else "j"][row]]
        allowed = f"a node from 0 to {n_nodes - 1}; for other names set people: drawn"
        faults.append((row, f"node {name!r}", allowed))
    if alone.any():
        faults.append((int(np.argmax(alone)), "a contact of a node with itself", "two nodes"))
    if overlap is not None:
        found = f"a contact of the same two nodes that overlaps another one, from {begin[overlap]:g}"
        faults.append((overlap, found, "contacts of a pair that do not overlap"))
    if faults:
        row, found, allowed = min(faults)
        raise source.error(find_line_of_row(source, layout, row), found, allowed)
    return Contacts(begin / per_wake, until / per_wake, one, other)


def _node_id(name: str, n_nodes: int) -> int:
    """Return the node of this name, or -1 if there is none."""
    is_id = name.isascii() and name.isdigit() and len(name) < 12
    return int(name) if is_id and int(name) < n_nodes else -1


class ContactViews(Views):
    """The peers with which a node is in contact when it wakes, of which it draws up to `fanout`.

    Parameters
    ----------
    contacts : Contacts
    setting : OverlayContext
    repeat : bool
        Whether the trace starts over at its end.
    """

    def __init__(self, contacts: Contacts, setting: OverlayContext, *, repeat: bool) -> None:
        self._period = contacts.span if repeat else 0.0
        self._fanout = setting.fanout
        self._streams = WordStreams(setting.n_nodes, setting.fanout, seed=setting.seed, purpose=CHOICE)
        node = np.concatenate([contacts.one, contacts.other])
        peer = np.concatenate([contacts.other, contacts.one])
        begin, end = np.tile(contacts.begin, 2), np.tile(contacts.end, 2)
        order = np.lexsort((begin, node))
        cuts = np.searchsorted(node[order], np.arange(1, setting.n_nodes))
        self._begin, self._end, self._peer = (
            [part.tolist() for part in np.split(values[order], cuts)] for values in (begin, end, peer)
        )
        self._next = [0] * setting.n_nodes  # each node's first contact that had not begun at its last wake
        self._open: list[list[tuple[float, int]]] = [[] for _ in range(setting.n_nodes)]
        self._last = [0.0] * setting.n_nodes

    def next_receivers(self, node: int, now: float) -> Sequence[int]:
        """Return up to `fanout` of the peers that are in contact with the node now."""
        words = self._streams.next_draw(node)
        return pick_distinct(self.peers(node, now), self._fanout, words)

    def peers(self, node: int, now: float) -> list[int]:
        """Return the peers that are in contact with a node, in ascending order; times of a node must ascend."""
        time = now % self._period if self._period else now
        if time < self._last[node]:  # the trace has started over
            self._next[node], self._open[node] = 0, []
        self._last[node] = time
        begin, end, peer = self._begin[node], self._end[node], self._peer[node]
        opened = self._open[node]
        place = self._next[node]
        while place < len(begin) and begin[place] <= time:
            opened.append((end[place], peer[place]))
            place += 1
        self._next[node] = place
        self._open[node] = opened = [contact for contact in opened if contact[0] > time]
        return sorted(peer for _, peer in opened)


def check_contacts(contacts: Contacts, options: ContactViewOptions, horizon: float) -> None:
    """Refuse a trace that is shorter than the run, if it must not end, or that has no contact during it.

    Raises
    ------
    ScenarioError
    """
    if contacts.span < horizon and options.end == "refuse":
        raise ScenarioError(
            f"{KEY}: {options.contacts} ends at {contacts.span:g}, but the run lasts until {horizon:g} wake "
            "periods; write end: repeat or end: hold, or shorten the run"
        )
    if contacts.begin.min() >= horizon:
        raise ScenarioError(
            f"{KEY}: {options.contacts}: the first contact begins at {contacts.begin.min():g}, but the run ends "
            f"at {horizon:g} wake periods; lengthen the run, or check unit and seconds_per_wake"
        )


def contact_graph_links(contacts: Contacts) -> list[tuple[int, int]]:
    """Return each pair of nodes that is ever in contact, once, in ascending order."""
    pairs = np.sort(np.column_stack([contacts.one, contacts.other]), axis=1)
    return sorted(itertools.starmap(lambda one, other: (one, other), np.unique(pairs, axis=0).tolist()))
