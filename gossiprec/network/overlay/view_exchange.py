"""Shared part of views that nodes maintain by exchanging entries.

An exchange happens when a node wakes, before it sends its model, and takes no time, because views are small. A node
talks only to online peers, and removes peers that it finds offline. The draws of each wake are functions of (seed,
node, wake number); their effect depends on the views, and so on the order of wakes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np
from pydantic import Field, model_validator

from gossiprec.base.options import Options, RegisteredOptions
from gossiprec.base.rng import distinct_below, purpose_id
from gossiprec.network.overlay import SAMPLINGS
from gossiprec.network.overlay.base import OverlayContext, Views, WordStreams, pick_distinct, wake_words
from gossiprec.old_names import forward

FIRST = purpose_id("first-view")
EXCHANGE = purpose_id("view-exchange")

View = dict[int, float]
"""Peers in the order of their arrival, each with its age or its time."""


class ExchangeOptions(Options):
    """Options of every way to exchange views; each has a subclass with its name."""

    sampling: str
    size: int = Field(
        default=8, ge=2, le=2**31 - 1, description="view size c: maximum number of distinct other nodes"
    )

    @model_validator(mode="before")
    @classmethod
    def _nothing_else(cls, raw: Any) -> Any:
        """Remove options of other kinds of views if they are null."""
        if not isinstance(raw, dict):
            return raw
        others = ("graph", "refresh")
        return {key: value for key, value in raw.items() if key not in others or value is not None}


ExchangeView: TypeAlias = Annotated[ExchangeOptions, RegisteredOptions(SAMPLINGS, "sampling")]
"""Options of exchanged views in a scenario."""


class ExchangedViews(Views):
    """Views that nodes maintain by exchanging entries with a peer at each wake.

    Parameters
    ----------
    options : ExchangeOptions
        Options of the class's own type.
    setting : OverlayContext

    Notes
    -----
    Views begin as uniform draws. A node with an empty view is introduced to an online node, as if it joined: to the
    first one from a uniformly drawn id on.
    """

    Options: ClassVar[type[ExchangeOptions]]

    def __init__(self, options: Any, setting: OverlayContext) -> None:
        self.size: int = options.size
        self.n_nodes = setting.n_nodes
        self.fanout = setting.fanout
        self.availability = setting.availability
        self.views: list[View] = self._first_views(setting)
        self._everyone_online = setting.availability.always
        self._found_offline: list[dict[int, float]] = [{} for _ in range(setting.n_nodes)]
        n_words = self.n_words + 1 + setting.fanout
        self._streams = WordStreams(setting.n_nodes, n_words, seed=setting.seed, purpose=EXCHANGE)

    @property
    @abstractmethod
    def n_words(self) -> int:
        """Number of random words that an exchange uses."""

    @abstractmethod
    def exchange(self, node: int, now: float, words: Sequence[int]) -> None:
        """Exchange entries with a peer, changing the views of both."""

    def next_receivers(self, node: int, now: float) -> Sequence[int]:
        """Return the receivers of the node's next wake, after its exchange."""
        words: list[int] = self._streams.next_draw(node)
        if not self.views[node]:
            self.views[node].update(
                (peer, now) for peer in self.iter_introduced(node, now, words[self.n_words])
            )
        if self.views[node]:
            self.exchange(node, now, words)
        return pick_distinct(list(self.views[node]), self.fanout, words[self.n_words + 1 :])

    def is_online(self, node: int, now: float) -> bool:
        """Return whether a node answers."""
        return self._everyone_online or self.availability.is_online(node, now)

    def remove_offline_peer(self, node: int, peer: int, now: float) -> None:
        """Remove a peer that the node finds offline, and remember the time."""
        del self.views[node][peer]
        self._found_offline[node][peer] = now

    def accept_entries(self, node: int, entries: View) -> View:
        """Return the entries that the node accepts from others, by their times.

        It rejects itself, and peers that it found offline after the entry was made: copies of such entries still
        circulate.
        """
        offline = self._found_offline[node].get
        return {peer: time for peer, time in entries.items() if peer != node and time >= offline(peer, 0.0)}

    @staticmethod
    def merge_newest(entries: View, others: View) -> View:
        """Return the entries of two views, each with the later of its times."""
        newest = dict(entries)
        newest.update((peer, time) for peer, time in others.items() if time > entries.get(peer, -1.0))
        return newest

    def oldest_online(self, node: int, now: float) -> int | None:
        """Return the peer of the oldest entry, after removing peers that are found offline; None without one."""
        view = self.views[node]
        while view:
            peer = min(view, key=view.__getitem__)
            if self.is_online(peer, now):
                return peer
            self.remove_offline_peer(node, peer, now)
        return None

    def iter_introduced(self, node: int, now: float, word: int) -> Iterator[int]:
        """Yield another online node, if there is one."""
        first = word * self.n_nodes >> 32
        for step in range(self.n_nodes):
            peer = (first + step) % self.n_nodes
            if peer != node and self.is_online(peer, now):
                yield peer
                return

    def _first_views(self, setting: OverlayContext) -> list[View]:
        nodes = np.arange(setting.n_nodes)
        words = wake_words(self.size, np.zeros(1, np.int64), nodes, seed=setting.seed, purpose=FIRST)[:, 0]
        peers = distinct_below(words, setting.n_nodes - 1)
        peers += peers >= nodes[:, None]
        return [dict.fromkeys(own, 0.0) for own in peers.tolist()]


forward(__name__)
