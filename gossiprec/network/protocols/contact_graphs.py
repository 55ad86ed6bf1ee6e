"""The graphs along which the nodes of a protocol send, and how soon they meet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import networkx as nx
from scipy.optimize import brentq

from gossiprec.base.errors import ScenarioError
from gossiprec.network.graphs.measures import colluder_bound
from gossiprec.network.overlay import (
    SAMPLINGS,
    ExchangeOptions,
    OverlayContext,
    first_contact_matrix,
    fraction_contacted,
    time_to_meet,
)
from gossiprec.network.overlay.contacts import (
    ContactViewOptions,
    ContactViews,
    check_contacts,
    contact_graph_links,
)
from gossiprec.network.overlay.graph_options import GraphSequence, load_graph_sequence, load_placed_graph
from gossiprec.network.overlay.views import StaticViewOptions
from gossiprec.network.protocols import Protocol

KEY = "protocol.view.graph"


@dataclass(frozen=True)
class NamedGraph:
    """A graph and its name; it has no graph if views are redrawn at every wake.

    Attributes
    ----------
    fanout : int
        Number of peers to which a node sends per wake.
    more : dict
        Facts in addition to those of the graph, which they replace.
    """

    name: str
    graph: nx.Graph | None
    fanout: int
    more: dict[str, Any] = field(default_factory=dict)


def protocol_graphs(name: str, protocol: Protocol, *, fanout: int, fraction: float) -> Iterator[NamedGraph]:
    """Yield every graph of a protocol; if views are exchanged, the graph of the views after the last wake.

    Parameters
    ----------
    name : str
        Name of the scenario.
    protocol : Protocol
    fanout : int
        Number of peers to which a node sends per wake, unless the protocol has its own.
    fraction : float
        Fraction of the other nodes for `wakes_to_meet`.

    Raises
    ------
    ScenarioError
        If it has no graph, or one that is impossible with this number of users.
    """
    view, n = getattr(protocol.options, "view", None), protocol.n_users
    fanout = getattr(protocol.options, "fanout", getattr(view, "size", fanout))
    if protocol.has_coordinator:
        yield NamedGraph(name, nx.Graph((client, n) for client in range(n)), n)
    elif isinstance(view, StaticViewOptions):
        context: Any = {"seed": protocol.seed, "key": KEY, "profiles": protocol.profiles}
        if isinstance(view.graph, GraphSequence):
            for start, graph in zip(*load_graph_sequence(view.graph, n, **context), strict=True):
                yield NamedGraph(f"{name} from {start:g}", graph, fanout)
        else:
            yield NamedGraph(name, load_placed_graph(view.graph, n, protocol.poisoners, **context), fanout)
    elif isinstance(view, ContactViewOptions | ExchangeOptions):
        yield _played_graph(name, view, protocol, fanout, fraction)
    elif view is None:
        raise ScenarioError(
            f"{name}: its protocol has no view, so it has no graph; choose a scenario with a gossip protocol"
        )
    else:
        yield NamedGraph(name, None, fanout, _random_view_facts(protocol, view.size, fraction))


def _played_graph(name: str, view: Any, protocol: Any, fanout: int, fraction: float) -> NamedGraph:
    """Play the wakes without models; return all contacts of a trace, or the last views, and how soon nodes met."""
    context = OverlayContext(
        protocol.n_users, fanout, protocol.seed, protocol.availability, protocol.profiles
    )
    views: Any
    if in_trace := isinstance(view, ContactViewOptions):
        check_contacts(protocol.contacts, view, protocol.horizon)
        views = ContactViews(protocol.contacts, context, repeat=view.end == "repeat")
    else:
        views = SAMPLINGS[view.sampling](view, context)
    first = first_contact_matrix(views, protocol.clock, protocol.wakes)
    graph = nx.empty_graph(protocol.n_users, create_using=nx.Graph if in_trace else nx.DiGraph)
    graph.add_edges_from(
        contact_graph_links(protocol.contacts)
        if in_trace
        else ((node, peer) for node, peers in enumerate(views.views) for peer in peers)
    )
    met = {"can_meet": fraction_contacted(first), "wakes_to_meet": time_to_meet(first, fraction)}
    return NamedGraph(f"{name} ({'contacts' if in_trace else view.sampling})", graph, fanout, met)


def _random_view_facts(protocol: Protocol, size: int, fraction: float) -> dict[str, Any]:
    """Return the facts of views that are drawn at random at every wake."""
    n, met = protocol.n_users, protocol.predicted_fraction_met
    can_meet, wakes = met(protocol.wakes), None
    if can_meet is not None and can_meet >= fraction:
        wakes = float(brentq(lambda rounds: (met(rounds) or 0.0) - fraction, 0, protocol.wakes))
    return {
        **{"nodes": n, "directed": True, "degree_min": size, "degree_mean": float(size), "degree_max": size},
        **{"can_meet": can_meet, "wakes_to_meet": wakes},
        "cover_bound": colluder_bound(n, min(2 * size, n - 1)),
    }
