"""Pers-Gossip (PEPPER): merge by performance, and keep peers with models that perform well.

References
----------
CDA paper (arXiv 2306.08929), section 2.3; PEPPER's published code: merge weights and views.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gossiprec.base.arrays import F32, F64, I64
from gossiprec.base.options import Fraction
from gossiprec.base.rng import NodeStreams
from gossiprec.compute.plan.tape import Op
from gossiprec.network.overlay.views import RandomViews
from gossiprec.network.protocols import PROTOCOLS
from gossiprec.network.protocols.gossip import Gossip, GossipOptions, ViewOptions


class PersGossipOptions(GossipOptions):
    """Options of Pers-Gossip."""

    exploration: Fraction = 0.4
    """fraction of a view that is drawn at random, rounded up"""
    view: ViewOptions = ViewOptions()


@PROTOCOLS.register("pers-gossip")
class PersGossip(Gossip):
    """On wake: train, push to the view. On receive: merge by performance. Or train on receive, after each merge.

    Performance is measured on the receiver's validation items (:mod:`gossiprec.compute.local_update`).
    When a view is refreshed, ``floor(P (1 - exploration))`` places go to the best senders since the refresh before
    (ties go to the lower id), the others to random peers; a node that has received nothing draws all of them.

    Notes
    -----
    As in the published code: if neither version has any performance, the own one stays and is not trained on that
    receive; a node with fewer than two validation items merges equally. Both show only in the behaviour of nodes, and
    need no message.
    """

    Options = PersGossipOptions
    options: PersGossipOptions
    merge_operation = Op.SCORE
    depends_on_values = True

    def __init__(self, options: Any, **setting: Any) -> None:
        super().__init__(options, **setting)
        self._heard: list[dict[int, float]] = [{} for _ in range(self.n_users)]
        self._view: list[list[int]] = [[] for _ in range(self.n_users)]

    @property
    def choices_follow_data(self) -> bool:
        """True: performance is measured on validation items, among items that exclude training items."""
        return True

    @functools.cached_property
    def _due(self) -> NodeStreams:
        return NodeStreams(self.n_users, self.refresh_of(self.options.view).are_redrawn)

    @functools.cached_property
    def _draws(self) -> RandomViews:
        return self.random_views(self.options.view, self.options.view.size)

    @property
    def messages_per_wake(self) -> int:
        """Size of the view."""
        return self.options.view.size

    @property
    def view_size(self) -> int:
        """Size of the view."""
        return self.options.view.size

    @property
    def n_exploited(self) -> int:
        """Places of a view for the best senders: 1 of 3 with the published ratio of 0.4."""
        size = self.options.view.size
        return size - math.ceil(size * self.options.exploration - 1e-9)

    def merge_weights(self, n_positives: I64) -> F64:
        """Return ones: weights are determined by performance."""
        return np.ones(len(n_positives))

    def on_wake(self, node: int, now: float) -> Sequence[int]:
        """Return the view, refreshed if it is due."""
        drawn = self._draws.next_receivers(node, now)
        if self._due.next_draw(node) or not self._view[node]:
            self._view[node] = self._refreshed(node, drawn)
            self._heard[node] = {}
        return self._draws.replace_offline_peers(node, self._view[node], now)

    def on_missed_wake(self, node: int, now: float) -> None:
        """Skip the draws of this wake; a refresh that was due before it is made at the next."""
        self._draws.on_missed_wake(node, now)
        if self._due.next_draw(node):
            self._view[node] = []

    def _refreshed(self, node: int, drawn: Sequence[int]) -> list[int]:
        heard = self._heard[node]
        best = sorted(heard, key=lambda sender: (-heard[sender], sender))[: self.n_exploited]
        others = [peer for peer in drawn if peer not in best]
        return best + others[: len(drawn) - len(best)]

    def receive_values(self, receiver: I64, sender: I64, found: F32) -> None:
        """Record the latest performance of each sender since the last refresh."""
        for node, peer, worth in zip(receiver.tolist(), sender.tolist(), found.tolist(), strict=True):
            self._heard[node][peer] = worth
