"""The arguments of ``gossiprec topology``: graph families, frozen graphs, files, and scenarios."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gossiprec.base.errors import ScenarioError, did_you_mean

if TYPE_CHECKING:
    import networkx as nx

    from gossiprec.network.overlay import ExchangedViews, Views
    from gossiprec.network.protocols import Protocol
    from gossiprec.scenario import Scenario


SCENARIOS = (".yaml", ".yml")
FROZEN = "frozen:"


@dataclass(frozen=True)
class GraphRequest:
    """Parameters for drawing graph families and for measuring graphs.

    Attributes
    ----------
    nodes : int or None
    seed : int
        The seed of the scenario that would draw the same graph.
    settings : sequence of str
        ``key=value`` pairs for every family named.
    fraction : float
        Fraction of the other nodes to be met.
    fanout : int
        Peers to which a node sends per wake; a scenario has its own.
    """

    nodes: int | None
    seed: int
    settings: Sequence[str] = ()
    fraction: float = 0.5
    fanout: int = 3


@dataclass(frozen=True)
class NamedGraph:
    """A graph under the name by which it was requested; it has no graph if views are redrawn at every wake.

    Attributes
    ----------
    more : dict
        Facts of the scenario in addition to its graph; they replace facts of the same name.
    """

    name: str
    graph: nx.Graph | None
    fanout: int
    more: dict[str, Any] = field(default_factory=dict)


def resolve_graphs(text: str, request: GraphRequest) -> list[NamedGraph]:
    """Return the graph that an argument names, or every graph of a scenario.

    Raises
    ------
    ScenarioError
        If the name is unknown, or the graph is impossible.
    """
    from gossiprec.network import graphs
    from gossiprec.network.graphs.files import SUFFIXES
    from gossiprec.network.overlay.graph_options import scenario_errors

    path = Path(text)
    if path.suffix.lower() in SCENARIOS:
        return scenario_graphs(text, request)
    if path.suffix.lower() in SUFFIXES or path.exists():
        with scenario_errors("file"):
            return [NamedGraph(path.name, graphs.read_graph(path), request.fanout)]
    return [_of_the_package(text, request)]


def _of_the_package(text: str, request: GraphRequest) -> NamedGraph:
    from gossiprec.network import graphs
    from gossiprec.network.overlay.graph_options import load_graph

    name, _, inline = text.partition(":")
    frozen = text.removeprefix(FROZEN)
    if frozen in graphs.frozen_names():
        return NamedGraph(frozen, graphs.frozen_graph(frozen), request.fanout)
    if name not in graphs.FAMILIES:
        known = [*graphs.FAMILIES, *graphs.frozen_names()]
        near = did_you_mean(frozen.partition(":")[0], known)
        raise ScenarioError(
            f"unknown topology {text!r}{near} (expected a family or bundled graph: {', '.join(known)}; a "
            "graph file, or a scenario)"
        )
    settings = [*request.settings, *(pair for pair in inline.split(",") if pair)]
    if request.nodes is None:
        raise click.UsageError(f"{text}: a graph family needs a number of nodes; pass --nodes N")
    options = _options(name, settings)
    return NamedGraph(text, load_graph(options, request.nodes, seed=request.seed, key=text), request.fanout)


def _options(name: str, settings: Sequence[str]) -> Any:
    """Return a family's options as given; an error lists every problem at once."""
    from pydantic import ValidationError

    from gossiprec.network.overlay.graph_options import family_options
    from gossiprec.scenario.problems import (
        Origin,
        Problems,
        SourceMap,
        add_validation_problems,
        reject_boolean_numbers,
    )
    from gossiprec.scenario.yaml_source import parse_overrides

    problems = Problems()
    parsed = parse_overrides(settings, problems)
    raw = {".".join(override.keys): override.value for override in parsed}
    options = None
    try:
        options = family_options(name).model_validate({"family": name, **raw})
        reject_boolean_numbers(raw, options, (), problems)
    except ValidationError as error:
        add_validation_problems(error, family_options(name), {"family": name, **raw}, (), problems)
    problems.raise_any(SourceMap(Origin(name)))
    return options


KEY = "protocol.view.graph"


def scenario_graphs(path: str, request: GraphRequest) -> list[NamedGraph]:
    """Return every graph of a scenario; if views are exchanged, the graph of the views after the last wake.

    Raises
    ------
    ScenarioError, DataError
        If the scenario or its data cannot be read, or its graph is impossible with that number of users.
    """
    from gossiprec.emulation.assembly.data_loading import load_data
    from gossiprec.emulation.assembly.schedule import make_protocol
    from gossiprec.scenario import check_sizes, load_scenario

    if request.settings or request.nodes is not None:
        raise ScenarioError(
            f"{path}: found --nodes or --set, but a scenario defines both; change the scenario, or "
            "name a graph family"
        )
    scenario: Scenario = load_scenario(path)
    split = load_data(scenario)
    check_sizes(scenario, split.n_users, split.n_items)
    return list(_graphs_of(scenario.name, make_protocol(scenario, split), request))


def _graphs_of(name: str, protocol: Protocol, request: GraphRequest) -> Iterator[NamedGraph]:
    from gossiprec.network.overlay import ExchangeOptions
    from gossiprec.network.overlay.contacts import ContactViewOptions
    from gossiprec.network.overlay.views import StaticViewOptions

    view = getattr(protocol.options, "view", None)
    fanout: int = getattr(protocol.options, "fanout", getattr(view, "size", request.fanout))
    if protocol.has_coordinator:
        yield NamedGraph(name, _star_around(protocol.n_users), protocol.n_users)
    elif isinstance(view, StaticViewOptions):
        for label, graph in _in_force(view.graph, protocol):
            yield NamedGraph(f"{name}{label}", graph, fanout)
    elif isinstance(view, ContactViewOptions):
        yield _in_contact(name, view, protocol, fanout, request.fraction)
    elif isinstance(view, ExchangeOptions):
        yield _exchanged(name, view, protocol, fanout, request.fraction)
    elif view is None:
        raise ScenarioError(
            f"{name}: its protocol has no view, so it has no graph; choose a scenario with a gossip protocol"
        )
    else:
        yield NamedGraph(name, None, fanout, _of_random_views(protocol, view.size, request.fraction))


def _in_force(graph: Any, protocol: Protocol) -> Iterator[tuple[str, nx.Graph]]:
    """Yield a scenario's one graph, or each graph of its sequence with the time from which it is used."""
    from gossiprec.network.overlay.graph_options import GraphSequence, load_graph_sequence
    from gossiprec.network.overlay.poisoner_places import load_placed_graph

    context: Any = {"seed": protocol.seed, "key": KEY, "profiles": protocol.profiles}
    if isinstance(graph, GraphSequence):
        starts, graphs = load_graph_sequence(graph, protocol.n_users, **context)
        yield from ((f" from {start:g}", found) for start, found in zip(starts, graphs, strict=True))
    else:
        yield "", load_placed_graph(graph, protocol.n_users, protocol.poisoners, **context)


def _star_around(coordinator: int) -> nx.Graph:
    import networkx as nx

    return nx.Graph((client, coordinator) for client in range(coordinator))


def _in_contact(name: str, view: Any, protocol: Any, fanout: int, fraction: float) -> NamedGraph:
    """Play the scenario's wakes without models; return all contacts of the trace, and how soon nodes met."""
    import networkx as nx

    from gossiprec.network.overlay import OverlayContext
    from gossiprec.network.overlay.contacts import ContactViews, check_contacts, contact_graph_links

    check_contacts(protocol.contacts, view, protocol.horizon)
    setting = OverlayContext(protocol.n_users, fanout, protocol.seed, protocol.availability)
    views = ContactViews(protocol.contacts, setting, repeat=view.end == "repeat")
    graph = nx.empty_graph(protocol.n_users)
    graph.add_edges_from(contact_graph_links(protocol.contacts))
    return NamedGraph(f"{name} (contacts)", graph, fanout, _meetings(views, protocol, fraction))


def _meetings(views: Views, protocol: Protocol, fraction: float) -> dict[str, Any]:
    """Return the share of nodes that can meet, and the wakes until this fraction has met."""
    from gossiprec.network.overlay import first_contact_matrix, fraction_contacted, time_to_meet

    first = first_contact_matrix(views, protocol.clock, protocol.wakes)
    return {"can_meet": fraction_contacted(first), "wakes_to_meet": time_to_meet(first, fraction)}


def _exchanged(name: str, view: Any, protocol: Protocol, fanout: int, fraction: float) -> NamedGraph:
    """Play the scenario's wakes without models; return the last views, and how soon nodes met."""
    from gossiprec.network.overlay import SAMPLINGS, OverlayContext

    setting = OverlayContext(
        protocol.n_users, fanout, protocol.seed, protocol.availability, protocol.profiles
    )
    views = SAMPLINGS[view.sampling](view, setting)
    met = _meetings(views, protocol, fraction)
    return NamedGraph(f"{name} ({view.sampling})", _graph_of_views(views), fanout, met)


def _graph_of_views(views: ExchangedViews) -> nx.DiGraph:
    import networkx as nx

    graph = nx.empty_graph(views.n_nodes, create_using=nx.DiGraph)
    graph.add_edges_from((node, peer) for node, peers in enumerate(views.views) for peer in peers)
    return graph


def _of_random_views(protocol: Protocol, size: int, fraction: float) -> dict[str, Any]:
    from gossiprec.network.graphs.measures import colluder_bound

    n = protocol.n_users
    return {
        "nodes": n,
        "directed": True,
        "degree_min": size,
        "degree_mean": float(size),
        "degree_max": size,
        "can_meet": protocol.predicted_fraction_met(protocol.wakes),
        "wakes_to_meet": _rounds_until(fraction, protocol),
        "cover_bound": colluder_bound(n, min(2 * size, n - 1)),
    }


def _rounds_until(fraction: float, protocol: Protocol) -> float | None:
    """Return the number of wakes per node after which this fraction is met, or None if it is not predicted."""
    from scipy.optimize import brentq

    end = protocol.predicted_fraction_met(protocol.wakes)
    if end is None or end < fraction:
        return None
    return float(
        brentq(lambda rounds: (protocol.predicted_fraction_met(rounds) or 0.0) - fraction, 0, protocol.wakes)
    )
