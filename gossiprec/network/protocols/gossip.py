"""The base of gossip protocols: clocks, views, and the behaviour of every node."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

from pydantic import PositiveFloat, model_validator

from gossiprec.base.options import Count, Options, Problem
from gossiprec.compute.plan.tape import Behaviour, Op
from gossiprec.network.overlay import too_many_peers
from gossiprec.network.overlay.views import PeriodicRefresh, PoissonRefresh, RandomViews, RefreshSchedule
from gossiprec.network.protocols import Protocol
from gossiprec.network.sim.clock import WakeClock


class WakeOptions(Options):
    """Clock of a node's wakes."""

    law: Literal["exponential", "constant"] = "exponential"
    """distribution of the intervals"""
    mean: PositiveFloat = 1.0
    """mean interval: the unit of virtual time, usually 1"""
    redraw: bool = True
    """draw every interval; false: one draw per node, as in the published code"""


class ClockedRefreshOptions(Options):
    """Views are refreshed by an exponential clock."""

    law: Literal["exponential"] = "exponential"
    mean: PositiveFloat = 0.1
    """mean time between refreshes of the view"""


class CountedRefreshOptions(Options):
    """Views are refreshed at a fixed number of wakes."""

    every: Count
    """wakes between refreshes of the view"""


class ViewOptions(Options):
    """Random views of nodes."""

    size: Count = 3
    """view size P: number of distinct other nodes"""
    refresh: ClockedRefreshOptions | CountedRefreshOptions = ClockedRefreshOptions()
    heal: bool = True
    """replace offline peers of a view by random online ones; if false, messages to them are lost"""
    follows_data: ClassVar[bool] = False
    """Whether peers depend on the users' items."""

    def check_sizes(self, n_users: int, n_items: int) -> Iterator[Problem]:
        """Yield a view of more peers than there are."""
        return too_many_peers("size", self.size, n_users)

    @model_validator(mode="before")
    @classmethod
    def _uniform(cls, raw: Any) -> Any:
        """Remove ``sampling: uniform``, the default; other samplings have options of their own."""
        if isinstance(raw, dict) and raw.get("sampling", "") in (None, "uniform"):
            return {key: value for key, value in raw.items() if key != "sampling"}
        return raw


class GossipOptions(Options):
    """Options of every gossip protocol."""

    train_on: Literal["wake", "receive"] = "wake"
    """when a node runs its local update"""
    user_table: Literal["own", "averaged"] = "own"
    """own: a node has only its own user row; averaged: every node has and merges all rows (published code)"""
    start: Literal["common", "own"] = "common"
    """initial item tables and shared weights: the same for all nodes, or drawn per node"""
    wake: WakeOptions = WakeOptions()
    wakes: Count = 500
    """wakes of each node"""


class Gossip(Protocol):
    """Nodes that have their own clocks and the same role."""

    options: GossipOptions

    @property
    @abstractmethod
    def merge_operation(self) -> Op:
        """Operation of a node on a model that it receives."""

    @property
    def common_start(self) -> bool:
        """Whether the option `start` is ``common``."""
        return self.options.start == "common"

    @property
    def role_behaviours(self) -> Sequence[Behaviour]:
        """The only role."""
        if self.options.train_on == "wake":
            return [Behaviour(on_wake=(Op.TRAIN, Op.PUSH), on_receive=(self.merge_operation,))]
        return [Behaviour(on_wake=(Op.PUSH,), on_receive=(self.merge_operation, Op.TRAIN))]

    @functools.cached_property
    def clock(self) -> WakeClock:
        """One clock per node."""
        nodes, wake = range(self.n_users), self.options.wake
        return WakeClock(nodes, mean=wake.mean, distribution=wake.law, redraw=wake.redraw, seed=self.seed)

    def refresh_of(self, view: ViewOptions) -> RefreshSchedule:
        """Return the schedule by which random views are redrawn."""
        if isinstance(view.refresh, ClockedRefreshOptions):
            return PoissonRefresh(self.clock, mean=view.refresh.mean, seed=self.seed)
        return PeriodicRefresh(self.n_users, every=view.refresh.every)

    def random_views(self, view: ViewOptions, fanout: int, clock: WakeClock | None = None) -> RandomViews:
        """Return uniform views; a node sends to `fanout` of its peers per wake."""
        return RandomViews(
            self.n_users,
            size=view.size,
            fanout=fanout,
            refresh=self.refresh_of(view),
            seed=self.seed,
            availability=self.availability if view.heal else None,
            clock=clock,
        )

    @property
    def wakes(self) -> int:
        """Number of wakes of each node."""
        return self.options.wakes

    @property
    def whole_user_table(self) -> bool:
        """Whether the option `user_table` is ``averaged``."""
        return self.options.user_table == "averaged"
