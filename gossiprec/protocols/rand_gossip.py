"""Rand-Gossip: push to random peers, merge what arrives.

References
----------
CDA paper (arXiv 2306.08929), section 2.2; its published code trains on receive, Table 3's reading is on wake.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Discriminator, Field, Tag, model_validator

from gossiprec.compute.tape import Behaviour, Op
from gossiprec.options import Options
from gossiprec.overlay.static import StaticViewOptions, neighbors_in
from gossiprec.overlay.views import PeriodicRefresh, PoissonRefresh, RandomViews, Refresh, StaticViews
from gossiprec.protocols import PROTOCOLS
from gossiprec.protocols.base import I64, Protocol
from gossiprec.sim.clock import WakeClock


class WakeOptions(Options):
    """When a node wakes."""

    law: Literal["exponential", "constant"] = Field(default="exponential", description="law of the intervals")
    mean: float = Field(default=1.0, gt=0, description="mean interval: the unit of virtual time, usually 1")
    redraw: bool = Field(
        default=True,
        description="draw each interval anew; false: one draw per node, as in the published code",
    )


class ClockedRefresh(Options):
    """Views are refreshed on an exponential clock."""

    law: Literal["exponential"] = "exponential"
    mean: float = Field(default=0.1, gt=0, description="mean time between refreshes")


class CountedRefresh(Options):
    """Views are refreshed every so many wakes."""

    every: int = Field(ge=1, description="wakes between refreshes")


class ViewOptions(Options):
    """Whom a node knows."""

    size: int = Field(default=3, ge=1, description="view size P: distinct other nodes")
    refresh: ClockedRefresh | CountedRefresh = ClockedRefresh()


def refresh_of(options: ClockedRefresh | CountedRefresh, clock: WakeClock, seed: int) -> Refresh:
    """Return when the views of a clock's nodes are drawn anew."""
    if isinstance(options, ClockedRefresh):
        return PoissonRefresh(clock, mean=options.mean, seed=seed)
    return PeriodicRefresh(len(clock.node_ids), every=options.every)


def _kind_of_view(raw: Any) -> str:
    graph = raw.get("graph") if isinstance(raw, dict) else getattr(raw, "graph", None)
    return "ViewOptions" if graph is None else "StaticViewOptions"


View: TypeAlias = Annotated[
    Annotated[ViewOptions, Tag("ViewOptions")] | Annotated[StaticViewOptions, Tag("StaticViewOptions")],
    Discriminator(_kind_of_view),
]


class RandGossipOptions(Options):
    """Options of Rand-Gossip."""

    fanout: int = Field(default=3, ge=1, description="peers of the view that a wake pushes to")
    train_on: Literal["wake", "receive"] = Field(
        default="wake", description="when a node runs its local update"
    )
    merge: Literal["samples", "mean"] = Field(
        default="samples", description="weight of a model in a merge: its number of positives, or 1"
    )
    user_table: Literal["own", "averaged"] = Field(
        default="own",
        description="own: a node holds its user's row; averaged: every node holds and merges all rows (published code)",
    )
    wake: WakeOptions = WakeOptions()
    view: View = ViewOptions()
    wakes: int = Field(default=500, ge=1, description="wakes of each node")

    @model_validator(mode="after")
    def _fanout_fits(self) -> RandGossipOptions:
        if self.view.size is not None and self.fanout > self.view.size:
            raise ValueError(f"fanout {self.fanout} is larger than view.size {self.view.size}")
        return self


@PROTOCOLS.register("rand-gossip")
class RandGossip(Protocol):
    """On wake: train, push to the view. On receive: merge. Or train on receive, after each merge."""

    Options = RandGossipOptions
    options: RandGossipOptions

    @property
    def behaviours(self) -> Sequence[Behaviour]:
        """One role."""
        if self.options.train_on == "wake":
            return [Behaviour(on_wake=(Op.TRAIN, Op.PUSH), on_receive=(Op.BLEND,))]
        return [Behaviour(on_wake=(Op.PUSH,), on_receive=(Op.BLEND, Op.TRAIN))]

    @functools.cached_property
    def clock(self) -> WakeClock:
        """A clock per node."""
        wake = self.options.wake
        return WakeClock(
            range(self.n_users), mean=wake.mean, law=wake.law, redraw=wake.redraw, seed=self.seed
        )

    @functools.cached_property
    def _views(self) -> RandomViews | StaticViews:
        view = self.options.view
        if isinstance(view, StaticViewOptions):
            neighbors = neighbors_in(view.graph, self.n_users, seed=self.seed, key="protocol.view.graph")
            return StaticViews(neighbors, fanout=self.options.fanout, seed=self.seed)
        refresh = refresh_of(view.refresh, self.clock, self.seed)
        return RandomViews(
            self.n_users, size=view.size, fanout=self.options.fanout, refresh=refresh, seed=self.seed
        )

    @property
    def wakes(self) -> int:
        """Wakes of each node."""
        return self.options.wakes

    @property
    def view_size(self) -> int | None:
        """The whole view, unless a wake picks some of it."""
        size = self.options.view.size
        return size if self.options.fanout == size else None

    @property
    def whole_user_table(self) -> bool:
        """As the scenario says."""
        return self.options.user_table == "averaged"

    def merge_weights(self, n_positives: I64) -> npt.NDArray[np.float64]:
        """Return the number of positives, or ones."""
        return (n_positives if self.options.merge == "samples" else np.ones_like(n_positives)).astype(float)

    def on_wake(self, node: int) -> Sequence[int]:
        """Return the peers of this wake."""
        return self._views.next_receivers(node)

    def predicted_fraction_met(self, rounds: float) -> float | None:
        """Return ``1 - exp(-P V / (N - 1))`` after V random views (specification, section 0.1b).

        P is the number of peers of a view that are sent to while it lasts: fewer than its size, if `fanout` is.
        """
        view, wake = self.options.view, self.options.wake
        if isinstance(view, StaticViewOptions):
            return None
        unsent = (
            1.0 - self.options.fanout / view.size
        )  # probability that a wake leaves out a peer of the view
        if isinstance(view.refresh, CountedRefresh):
            fresh = 1.0 / view.refresh.every
            never_sent = unsent**view.refresh.every
        else:
            ratio = wake.mean / view.refresh.mean
            fresh = ratio / (1.0 + ratio) if wake.law == "exponential" else -math.expm1(-ratio)
            never_sent = (
                fresh * unsent / (1.0 - (1.0 - fresh) * unsent)
            )  # it lasts a geometric number of wakes
        peers, views = view.size * (1.0 - never_sent), rounds * fresh
        return 1.0 - math.exp(-peers * views / (self.n_users - 1))
