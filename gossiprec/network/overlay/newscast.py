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

from gossiprec.network.overlay import SAMPLINGS, ExchangedViews, ExchangeOptions, View

_time = itemgetter(1)


class NewscastOptions(ExchangeOptions):
    """Two nodes keep the freshest entries of both views: departed nodes are soon forgotten; in-degrees are uneven."""

    sampling: Literal["newscast"]


@SAMPLINGS.register("newscast")
class Newscast(ExchangedViews):
    """Views with entries that carry their virtual time of creation; a node creates one at each exchange.

    Notes
    -----
    Unlike in the papers, a peer found offline is not accepted again with an older entry. If few nodes remain, no
    fresher entries would replace such entries.
    """

    Options = NewscastOptions

    @property
    def n_words(self) -> int:
        """One word for each peer that may be found offline before one answers."""
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
            self.remove_offline_peer(node, peer, now)
        else:
            return
        pooled = self.merge_newest(own, self.views[peer])
        pooled[node] = pooled[peer] = now
        self.views[node] = self._freshest(self.accept_entries(node, pooled))
        self.views[peer] = self._freshest(self.accept_entries(peer, pooled))

    def _freshest(self, entries: View) -> View:
        """Return the freshest entries; on ties the entries of the node that woke come first."""
        return dict(sorted(entries.items(), key=_time, reverse=True)[: self.size])
