"""Rand-Gossip: push to random peers, merge what arrives.

References
----------
CDA paper (arXiv 2306.08929), section 2.3; its published code trains on receive, Table 3 is read as on wake.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Tag, field_validator, model_validator

from gossiprec.base.arrays import F64, I64
from gossiprec.base.options import Count, registered_name
from gossiprec.compute.plan.tape import Op
from gossiprec.network.overlay import SAMPLINGS, ExchangeOptions, ExchangeView, OverlayContext, Views
from gossiprec.network.overlay.contacts import (
    Contacts,
    ContactViewOptions,
    ContactViews,
    check_contacts,
    read_contacts,
)
from gossiprec.network.overlay.views import GraphViews, StaticViewOptions, make_graph_views
from gossiprec.network.protocols import PROTOCOLS
from gossiprec.network.protocols.gossip import CountedRefreshOptions, Gossip, GossipOptions, ViewOptions
from gossiprec.rules.aggregators import Rule, make_aggregator


def _kind_of_view(raw: Any) -> str:
    graph, contacts, sampling = (
        raw.get(key) if isinstance(raw, dict) else getattr(raw, key, None)
        for key in ("graph", "contacts", "sampling")
    )
    if graph is not None:
        return "StaticViewOptions"
    if contacts is not None:
        return "ContactViewOptions"
    return "ViewOptions" if sampling in (None, "uniform") else "ExchangeOptions"


View: TypeAlias = Annotated[
    Annotated[ViewOptions, Tag("ViewOptions")]
    | Annotated[StaticViewOptions, Tag("StaticViewOptions")]
    | Annotated[ContactViewOptions, Tag("ContactViewOptions")]
    | Annotated[ExchangeView, Tag("ExchangeOptions")],
    Discriminator(_kind_of_view),
]


class RandGossipOptions(GossipOptions):
    """Options of Rand-Gossip."""

    fanout: Count = 3
    """number of peers of the view to which a node sends per wake"""
    merge: Rule = "samples"
    """weight of a model in a merge: samples (its positives), mean (1), or another streaming rule"""
    average: Literal["pairwise", "all"] = "pairwise"
    """pairwise: a model is averaged with the node's model on arrival, so that earlier models fade (three models with
    equal weights get 1/8, 1/8, 1/4, 1/2); all: the weighted mean of the node's model and all models that arrived
    since its last wake"""
    view: View = ViewOptions()

    def remarks(self) -> dict[str, str]:
        """Return the remark that pairwise averages are not means."""
        if self.average == "all":
            return {}
        return {"merge": "pairwise: the latest arrival counts most; average: all gives the weighted mean"}

    @field_validator("merge")
    @classmethod
    def _streams(cls, merge: Any) -> Any:
        if not make_aggregator(merge).streaming:
            raise ValueError(
                f"found {registered_name(merge)!r}, which requires an inbox, but gossip merges models one by one on "
                "arrival; use the policy robust-merge with this rule"
            )
        return merge

    @model_validator(mode="after")
    def _reads_all(self) -> RandGossipOptions:
        if self.average == "all" and self.train_on == "receive":
            raise ValueError(
                "average all requires training at wakes, but with train_on receive a node trains after each "
                "merge; set train_on to wake, or average to pairwise"
            )
        return self

    @model_validator(mode="after")
    def _fanout_fits(self) -> RandGossipOptions:
        if self.view.size is not None and self.fanout > self.view.size:
            raise ValueError(
                f"fanout {self.fanout} is larger than view.size {self.view.size}; lower fanout, or raise "
                "view.size"
            )
        return self


@PROTOCOLS.register("rand-gossip")
class RandGossip(Gossip):
    """On wake: train, push to the view. On receive: merge. Or train on receive, after each merge."""

    Options = RandGossipOptions
    options: RandGossipOptions

    @property
    def merge_operation(self) -> Op:
        """Operation that the option `average` selects."""
        return Op.AVERAGE if self.options.average == "all" else Op.BLEND

    @property
    def choices_follow_data(self) -> bool:
        """Whether nodes are linked by taste or place."""
        return self.options.view.follows_data

    @functools.cached_property
    def _views(self) -> Views:
        view, fanout = self.options.view, self.options.fanout
        setting = OverlayContext(
            self.n_users, fanout, self.seed, self.availability, self.profiles, self.poisoners
        )
        if isinstance(view, StaticViewOptions):
            return make_graph_views(view.graph, setting, key="protocol.view.graph")
        if isinstance(view, ContactViewOptions):
            check_contacts(self.contacts, view, self.horizon)
            return ContactViews(self.contacts, setting, repeat=view.end == "repeat")
        if isinstance(view, ExchangeOptions):
            return SAMPLINGS[view.sampling](view, setting)
        return self.random_views(view, fanout, self.clock)

    @functools.cached_property
    def contacts(self) -> Contacts:
        """The contacts of a view of contacts, from its file."""
        view = self.options.view
        assert isinstance(view, ContactViewOptions)
        return read_contacts(view, self.n_users, seconds_per_wake=self.seconds_per_wake, seed=self.seed)

    @property
    def view_size(self) -> int | None:
        """Size of the view, or None if wakes send to part of it."""
        size = self.options.view.size
        return size if self.options.fanout == size else None

    @property
    def messages_per_wake(self) -> int | None:
        """The fanout, if views are always full."""
        full = isinstance(self.options.view, ViewOptions) and self.availability.always
        return self.options.fanout if full else None

    @property
    def max_messages_per_wake(self) -> int:
        """The fanout, or the largest number of contacts at a time; a node of a graph may have fewer neighbours."""
        if isinstance(self.options.view, ContactViewOptions):
            return min(self.options.fanout, self.contacts.most_peers(self.n_users))
        return self.options.fanout

    def merge_weights(self, n_positives: I64) -> F64:
        """Return the weights of the rule."""
        return make_aggregator(self.options.merge).weights(n_positives)

    def fixed_neighbors(self) -> Sequence[Sequence[int]] | None:
        """Return the neighbours in a fixed graph, or None if there is none."""
        return self._views.fixed_neighbors if isinstance(self._views, GraphViews) else None

    def receivers_in_step(self, reader: str) -> Sequence[Sequence[int]]:
        """Return the neighbours in a fixed graph, if nodes wake at one interval and send to all of them."""
        views, wake = self._views, self.options.wake
        fixed = views.fixed_receivers if isinstance(views, GraphViews) else None
        return fixed if fixed and wake.law == "constant" else super().receivers_in_step(reader)

    def on_wake(self, node: int, now: float) -> Sequence[int]:
        """Return the peers of this wake."""
        return self._views.next_receivers(node, now)

    def on_missed_wake(self, node: int, now: float) -> None:
        """Skip the draws of a missed wake."""
        self._views.on_missed_wake(node, now)

    def predicted_fraction_met(self, rounds: float) -> float | None:
        """Return ``1 - exp(-P V / (N - 1))`` after V random views (specification, section 0.1b).

        P is the number of peers of a view that are sent to while it lasts, which is below its size if `fanout` is.
        """
        view, wake = self.options.view, self.options.wake
        if not isinstance(view, ViewOptions):
            return None
        # probability that one wake leaves out a given peer of the view
        unsent = 1.0 - self.options.fanout / view.size
        if isinstance(view.refresh, CountedRefreshOptions):
            fresh = 1.0 / view.refresh.every
            never_sent = unsent**view.refresh.every
        else:
            ratio = wake.mean / view.refresh.mean
            fresh = ratio / (1.0 + ratio) if wake.law == "exponential" else -math.expm1(-ratio)
            # a view lasts a geometric number of wakes
            never_sent = fresh * unsent / (1.0 - (1.0 - fresh) * unsent)
        peers, views = view.size * (1.0 - never_sent), rounds * fresh
        return 1.0 - math.exp(-peers * views / (self.n_users - 1))
