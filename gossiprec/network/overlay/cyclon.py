"""Cyclon: nodes swap parts of their views with the peer with the oldest entry.

References
----------
S. Voulgaris, D. Gavidia, M. van Steen, "CYCLON: inexpensive membership management for unstructured P2P overlays",
Journal of Network and Systems Management 13 (2005): enhanced shuffling, section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, model_validator

from gossiprec.network.overlay import (
    SAMPLINGS,
    ExchangedViews,
    ExchangeOptions,
    OverlayContext,
    View,
    pick_distinct,
)


class CyclonOptions(ExchangeOptions):
    """Entries are swapped with the oldest peer: views stay close to uniform draws, and in-degrees even."""

    sampling: Literal["cyclon"]
    shuffle: int = Field(
        default=4,
        ge=1,
        description="number of entries that each side sends in an exchange, up to the view size",
    )

    @model_validator(mode="after")
    def _shuffle_fits(self) -> CyclonOptions:
        if self.shuffle > self.size:
            raise ValueError(
                f"found shuffle {self.shuffle}, but a view has {self.size} peers; lower shuffle, or raise size"
            )
        return self


@SAMPLINGS.register("cyclon")
class Cyclon(ExchangedViews):
    """Views kept by enhanced shuffling.

    Notes
    -----
    Ages count the wakes of the node that holds an entry. An entry is stored as the holder's number of wakes when its
    age was zero, so that ageing costs nothing.
    """

    Options = CyclonOptions

    def __init__(self, options: Any, setting: OverlayContext) -> None:
        self._shuffle: int = options.shuffle
        self._n_exchanges = [0.0] * setting.n_nodes
        super().__init__(options, setting)

    @property
    def n_words(self) -> int:
        """One word for each entry drawn at either side; the first entry that a node sends is the node itself."""
        return 2 * self._shuffle - 1

    def exchange(self, node: int, now: float, words: Sequence[int]) -> None:
        """Swap entries with the oldest peer that is online."""
        self._n_exchanges[node] += 1
        own = self.views[node]
        peer = self.oldest_online(node, now)
        if peer is None:
            return
        del own[peer]
        mine = self._n_exchanges[node]
        theirs = self._n_exchanges[peer]
        other = self.views[peer]
        given = pick_distinct(list(own), self._shuffle - 1, words)
        returned = pick_distinct(list(other), self._shuffle, words[self._shuffle - 1 :])
        to_peer = [(node, theirs), *((entry, own[entry] - mine + theirs) for entry in given)]
        to_node = [(entry, other[entry] - theirs + mine) for entry in returned]
        self._take_in(other, to_peer, returned, but=peer)
        self._take_in(own, to_node, given, but=node)

    def _take_in(self, view: View, entries: list[tuple[int, float]], given: list[int], *, but: int) -> None:
        """Add entries that are new to the view: in empty places first, then in place of the entries sent."""
        room = iter(given)
        for peer, born in entries:
            if peer == but or peer in view:
                continue
            if len(view) >= self.size:
                leaving = next(room, None)
                if leaving is None:
                    return
                del view[leaving]
            view[peer] = born
