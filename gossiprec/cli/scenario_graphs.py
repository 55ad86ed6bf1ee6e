"""The graphs that the nodes of a scenario send along."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gossiprec.cli.named_graphs import Asked, Named
from gossiprec.errors import ScenarioError

if TYPE_CHECKING:
    import networkx as nx

    from gossiprec.overlay.exchange import Exchange
    from gossiprec.protocols import Protocol
    from gossiprec.scenario import Scenario

KEY = "protocol.view.graph"


def graphs_in(path: str, asked: Asked) -> list[Named]:
    """Return every graph of a scenario; of views that are exchanged, the views as they stand after the last wake.

    Raises
    ------
    ScenarioError, DataError
        If the scenario or its data cannot be read, or there is no such graph over so many users.
    """
    from gossiprec.emulation.assembly.data import load_data
    from gossiprec.emulation.assembly.rehearsal import make_protocol
    from gossiprec.scenario import check_sizes, load_scenario

    if asked.settings or asked.nodes is not None:
        raise ScenarioError(
            f"{path}: found --nodes or --set, but a scenario defines both; change the scenario, or "
            "name a graph family"
        )
    scenario: Scenario = load_scenario(path)
    split = load_data(scenario)
    check_sizes(scenario, split.n_users, split.n_items)
    return list(_graphs_of(scenario.name, make_protocol(scenario, split), asked))


def _graphs_of(name: str, protocol: Protocol, asked: Asked) -> Iterator[Named]:
    from gossiprec.overlay.exchange import ExchangeOptions
    from gossiprec.overlay.static import StaticViewOptions

    view = getattr(protocol.options, "view", None)
    fanout: int = getattr(protocol.options, "fanout", getattr(view, "size", asked.fanout))
    if protocol.has_coordinator:
        yield Named(name, _star_around(protocol.n_users), protocol.n_users)
    elif isinstance(view, StaticViewOptions):
        for label, graph in _in_force(view.graph, protocol):
            yield Named(f"{name}{label}", graph, fanout)
    elif isinstance(view, ExchangeOptions):
        yield _exchanged(name, view, protocol, fanout, asked.fraction)
    elif view is None:
        raise ScenarioError(
            f"{name}: its protocol has no view, so it has no graph; choose a scenario with a gossip protocol"
        )
    else:
        yield Named(name, None, fanout, _of_random_views(protocol, view.size, asked.fraction))


def _in_force(graph: Any, protocol: Protocol) -> Iterator[tuple[str, nx.Graph]]:
    """Yield a scenario's one graph, or those of its sequence with the times from which on they hold."""
    from gossiprec.overlay.graph_options import GraphSequence
    from gossiprec.overlay.graphs import graph_of, graphs_of

    where: Any = {"seed": protocol.seed, "key": KEY, "profiles": protocol.profiles}
    if isinstance(graph, GraphSequence):
        starts, graphs = graphs_of(graph, protocol.n_users, **where)
        yield from ((f" from {start:g}", found) for start, found in zip(starts, graphs, strict=True))
    else:
        yield "", graph_of(graph, protocol.n_users, **where)


def _star_around(coordinator: int) -> nx.Graph:
    import networkx as nx

    return nx.Graph((client, coordinator) for client in range(coordinator))


def _exchanged(name: str, view: Any, protocol: Protocol, fanout: int, fraction: float) -> Named:
    """Play the scenario's wakes without models; return the last views, and how soon nodes met on the way."""
    from gossiprec.overlay import SAMPLINGS
    from gossiprec.overlay.base import Setting
    from gossiprec.overlay.play import first_heard, fraction_heard, time_to_meet

    setting = Setting(protocol.n_users, fanout, protocol.seed, protocol.availability, protocol.profiles)
    views = SAMPLINGS[view.sampling](view, setting)
    first = first_heard(views, protocol.clock, protocol.wakes)
    met = {"can_meet": fraction_heard(first), "wakes_to_meet": time_to_meet(first, fraction)}
    return Named(f"{name} ({view.sampling})", _graph_of_views(views), fanout, met)


def _graph_of_views(views: Exchange) -> nx.DiGraph:
    import networkx as nx

    graph = nx.empty_graph(views.n_nodes, create_using=nx.DiGraph)
    graph.add_edges_from((node, peer) for node, peers in enumerate(views.views) for peer in peers)
    return graph


def _of_random_views(protocol: Protocol, size: int, fraction: float) -> dict[str, Any]:
    from gossiprec.graphs.cover import edge_cover_bound

    n = protocol.n_users
    return {
        "nodes": n,
        "directed": True,
        "degree_min": size,
        "degree_mean": float(size),
        "degree_max": size,
        "can_meet": protocol.predicted_fraction_met(protocol.wakes),
        "wakes_to_meet": _rounds_until(fraction, protocol),
        "cover_bound": edge_cover_bound(n, min(2 * size, n - 1)),
    }


def _rounds_until(fraction: float, protocol: Protocol) -> float | None:
    """Return after how many wakes of each node this share of the others is met, where that is foretold."""
    from scipy.optimize import brentq

    end = protocol.predicted_fraction_met(protocol.wakes)
    if end is None or end < fraction:
        return None
    return float(
        brentq(lambda rounds: (protocol.predicted_fraction_met(rounds) or 0.0) - fraction, 0, protocol.wakes)
    )
