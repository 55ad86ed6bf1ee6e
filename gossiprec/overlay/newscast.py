"""Newscast: two nodes pool their views, and both keep the freshest entries.

References
----------
M. Jelasity, W. Kowalczyk, M. van Steen, "Newscast computing", Vrije Universiteit Amsterdam, IR-CS-006 (2003).
M. Jelasity et al., "Gossip-based peer sampling", ACM Transactions on Computer Systems 25 (2007).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Literal

from gossiprec.overlay import SAMPLINGS
from gossiprec.overlay.view_exchange import ExchangedViews, ExchangeOptions, View

_time = itemgetter(1)


class NewscastOptions(ExchangeOptions):
    """Two nodes keep the freshest of both views: what has left is soon forgotten, in-degrees are uneven."""

    sampling: Literal["newscast"]


@SAMPLINGS.register("newscast")
class Newscast(ExchangedViews):
    """Entries carry the virtual time at which their node made them, which it does at each of its exchanges.

    Notes
    -----
    Beyond the papers: a peer found offline is not taken back on an entry made before. Where a few nodes are left among
    themselves, nothing fresher would drive such entries out.
    """

    Options = NewscastOptions

    @property
    def n_words(self) -> int:
        """One for each peer that may be found offline before one answers."""
        return self.size

    def exchange(self, node: int, now: float, words: Sequence[int]) -> None:
        """Pool the views of the node and of a random peer that is online."""
        own = self.views[node]
        for word in words[: self.size]:
            if not own:
                return
            peer = list(own)[word * len(own) >> 32]
            if self.is_online(peer, now):
                break
            self.remove(node, peer, now)
        else:
            return
        pooled = dict(own)
        for entry, time in self.views[peer].items():
            if time > pooled.get(entry, -1.0):
                pooled[entry] = time
        pooled[node] = pooled[peer] = now
        self.views[node] = self._freshest(self.believed(node, pooled))
        self.views[peer] = self._freshest(self.believed(peer, pooled))

    def _freshest(self, entries: View) -> View:
        """Return the freshest entries; of equally fresh ones those that the node which woke held."""
        return dict(sorted(entries.items(), key=_time, reverse=True)[: self.size])
