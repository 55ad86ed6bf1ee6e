"""Views that heal: peers that are away give their places to random nodes that are there.

Replacements are drawn with the view, so they stay while it lasts and they are online. Two ways to find them, with the
same results: wake by wake (:meth:`Healing.healed`), or for many wakes at once (:meth:`Healing.heal`), which is
possible where it is known beforehand when nodes wake and what their views are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from gossiprec.arrays import F64, I64, Bools
from gossiprec.overlay.picks import words_of
from gossiprec.rng import purpose_id
from gossiprec.sim.availability import Availability

HEAL = purpose_id("view-healing")

CANDIDATES = 12
"""Nodes drawn with a view to take the places of peers that are away."""

NOBODY = -1


class Healing:
    """Finds replacements.

    Parameters
    ----------
    n_nodes : int
    availability : Availability
    seed : int
    """

    def __init__(self, n_nodes: int, *, availability: Availability, seed: int) -> None:
        self._n_nodes = n_nodes
        self._availability = availability
        self._seed = seed

    def candidates(self, nodes: I64, drawn: I64) -> I64:
        """Return the nodes that may replace peers, in the order in which they are tried.

        Parameters
        ----------
        nodes : ndarray of int64, shape (n,)
        drawn : ndarray of int64, shape (n, n_wakes)
            The wakes at which the views were drawn.

        Returns
        -------
        ndarray of int64, shape (n, n_wakes, CANDIDATES)
            Not the node itself; one may be there twice.
        """
        words = words_of(CANDIDATES, drawn, nodes, seed=self._seed, purpose=HEAL)
        others = (words.astype(np.uint64) * np.uint64(self._n_nodes - 1) >> np.uint64(32)).astype(np.int64)
        others += others >= nodes[:, None, None]
        return others

    def healed(
        self, node: int, peers: Sequence[int], view: Sequence[int], candidates: Sequence[int], now: float
    ) -> Sequence[int]:
        """Return the peers with those replaced that are away; fewer, if not enough are there.

        Parameters
        ----------
        node : int
        peers : sequence of int
        view : sequence of int
            Who cannot be a replacement either.
        candidates : sequence of int
        now : float
        """
        availability = self._availability
        if availability.all_online(peers, now):
            return peers
        is_online = availability.is_online
        known = {node, *peers, *view}
        others = itertools.chain(candidates, self._others(candidates[-1], known, now))
        found = []
        for peer in peers:
            if is_online(peer, now):
                found.append(peer)
                continue
            for other in others:
                if other not in known and is_online(other, now):
                    known.add(other)
                    found.append(other)
                    break
        return found

    def _others(self, draw: int, known: set[int], now: float) -> Iterator[int]:
        """Yield all nodes that are there and not known, from a drawn place on: for when the candidates are used up."""
        online = np.flatnonzero(self._availability.online_at(now)[: self._n_nodes])
        others = [peer for peer in online.tolist() if peer not in known]
        first = draw % max(1, len(others))
        yield from [*others[first:], *others[:first]]

    def heal(self, receivers: I64, views: I64, drawn: I64, times: F64) -> I64:
        """Return the receivers with those replaced that are away when their sender wakes, if the sender is there.

        Parameters
        ----------
        receivers : ndarray of int64, shape (n_nodes, n_wakes, n_receivers)
            Members of the views.
        views : ndarray of int64, shape (n_nodes, n_wakes, size)
        drawn : ndarray of int64, shape (n_nodes, n_wakes)
            The wakes at which the views were drawn.
        times : ndarray of float64, shape (n_nodes, n_wakes)
            Of the wakes.

        Returns
        -------
        ndarray of int64, shape (n_nodes, n_wakes, n_receivers)
            Rows that cannot be filled end with `NOBODY`.
        """
        nodes = np.broadcast_to(np.arange(self._n_nodes)[:, None], times.shape)
        away = ~self._online(receivers, np.broadcast_to(times[..., None], receivers.shape))
        node, wake = np.nonzero(away.any(axis=-1) & self._online(nodes, times))
        rows, view, time = receivers[node, wake], views[node, wake], times[node, wake]
        rows[away[node, wake]] = NOBODY
        candidates = self.candidates(node, drawn[node, wake][:, None])[:, 0]
        short = np.arange(len(node))  # rows with places to fill
        for other in candidates.T:
            some = other[short]
            fits = self._online(some, time[short])
            fits &= (view[short] != some[:, None]).all(axis=1) & (rows[short] != some[:, None]).all(axis=1)
            filled = short[fits]
            rows[filled, np.argmax(rows[filled] == NOBODY, axis=1)] = some[fits]
            short = short[(rows[short] == NOBODY).any(axis=1)]
        for place in short.tolist():
            peers = receivers[node[place], wake[place]].tolist()
            known, tried = view[place].tolist(), candidates[place].tolist()
            found = self.healed(int(node[place]), peers, known, tried, float(time[place]))
            rows[place] = NOBODY
            rows[place, : len(found)] = found
        healed = receivers.copy()
        healed[node, wake] = rows
        return healed

    def _online(self, nodes: I64, times: F64) -> Bools:
        online, _ = self._availability.look_up(nodes.ravel(), times.ravel())
        return online.reshape(nodes.shape)
