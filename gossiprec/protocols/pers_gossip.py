"""Pers-Gossip (PEPPER): merge by performance, and stay with peers whose models do well.

References
----------
CDA paper (arXiv 2306.08929), section 2.2; PEPPER's published code: merge weights and views.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from gossiprec.compute.tape import Behaviour, Op
from gossiprec.options import Options
from gossiprec.overlay.views import RandomViews, Refresh
from gossiprec.protocols import PROTOCOLS
from gossiprec.protocols.base import I64, Protocol
from gossiprec.protocols.rand_gossip import ViewOptions, WakeOptions, refresh_of
from gossiprec.rng import NodeStreams
from gossiprec.sim.clock import WakeClock


class PersGossipOptions(Options):
    """Options of Pers-Gossip."""

    exploration: float = Field(
        default=0.4, ge=0, le=1, description="share of a view that is drawn at random, rounded up"
    )
    train_on: Literal["wake", "receive"] = Field(
        default="wake", description="when a node runs its local update"
    )
    user_table: Literal["own", "averaged"] = Field(
        default="own",
        description="own: a node holds its user's row; averaged: every node holds and merges all rows (published code)",
    )
    wake: WakeOptions = WakeOptions()
    view: ViewOptions = ViewOptions()
    wakes: int = Field(default=500, ge=1, description="wakes of each node")


@PROTOCOLS.register("pers-gossip")
class PersGossip(Protocol):
    """On wake: train, push to the view. On receive: merge by performance. Or train on receive, after each merge.

    Performance is measured on the receiver's validation items (:mod:`gossiprec.compute.appraisal`). When a view is
    refreshed, ``floor(P (1 - exploration))`` places go to the best senders since the refresh before (ties: the lower
    id), the others to random peers; a node that has received nothing draws all of them.

    Notes
    -----
    As in the published code: if neither version is worth anything, the own one stays and is not trained on that
    receive; a node with fewer than two validation items merges equally. Both are seen only in what nodes do, and need
    no message.
    """

    Options = PersGossipOptions
    options: PersGossipOptions

    def __init__(self, options: Any, *, n_users: int, seed: int) -> None:
        super().__init__(options, n_users=n_users, seed=seed)
        self._heard: list[dict[int, float]] = [{} for _ in range(n_users)]
        self._view: list[list[int]] = [[] for _ in range(n_users)]

    @property
    def behaviours(self) -> Sequence[Behaviour]:
        """One role."""
        if self.options.train_on == "wake":
            return [Behaviour(on_wake=(Op.TRAIN, Op.PUSH), on_receive=(Op.APPRAISE,))]
        return [Behaviour(on_wake=(Op.PUSH,), on_receive=(Op.APPRAISE, Op.TRAIN))]

    @functools.cached_property
    def clock(self) -> WakeClock:
        """A clock per node."""
        wake = self.options.wake
        return WakeClock(
            range(self.n_users), mean=wake.mean, law=wake.law, redraw=wake.redraw, seed=self.seed
        )

    @functools.cached_property
    def _refresh(self) -> Refresh:
        return refresh_of(self.options.view.refresh, self.clock, self.seed)

    @functools.cached_property
    def _due(self) -> NodeStreams:
        return NodeStreams(self.n_users, self._refresh.drawn)

    @functools.cached_property
    def _draws(self) -> RandomViews:
        size = self.options.view.size
        return RandomViews(self.n_users, size=size, fanout=size, refresh=self._refresh, seed=self.seed)

    @property
    def wakes(self) -> int:
        """Wakes of each node."""
        return self.options.wakes

    @property
    def messages_per_wake(self) -> int:
        """The whole view."""
        return self.options.view.size

    @property
    def view_size(self) -> int:
        """The whole view."""
        return self.options.view.size

    @property
    def chooses_by_value(self) -> bool:
        """Views depend on performance."""
        return True

    @property
    def whole_user_table(self) -> bool:
        """As the scenario says."""
        return self.options.user_table == "averaged"

    @property
    def n_exploited(self) -> int:
        """Places of a view that go to the best senders: 1 of 3 with the published ratio of 0.4."""
        size = self.options.view.size
        return size - math.ceil(size * self.options.exploration - 1e-9)

    def merge_weights(self, n_positives: I64) -> npt.NDArray[np.float64]:
        """Return ones: weights are found by performance."""
        return np.ones(len(n_positives))

    def on_wake(self, node: int) -> Sequence[int]:
        """Return the view, refreshed if it is time."""
        drawn = self._draws.next_receivers(node)
        if self._due.take(node) or not self._view[node]:
            self._view[node] = self._refreshed(node, drawn)
            self._heard[node] = {}
        return self._view[node]

    def _refreshed(self, node: int, drawn: Sequence[int]) -> list[int]:
        heard = self._heard[node]
        best = sorted(heard, key=lambda sender: (-heard[sender], sender))[: self.n_exploited]
        others = [peer for peer in drawn if peer not in best]
        return best + others[: len(drawn) - len(best)]

    def learn(self, receiver: I64, sender: I64, found: npt.NDArray[np.float32]) -> None:
        """Remember the latest performance of each sender since the last refresh."""
        for node, peer, worth in zip(receiver.tolist(), sender.tolist(), found.tolist(), strict=True):
            self._heard[node][peer] = worth
