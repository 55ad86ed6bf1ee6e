"""``gossiprec topology``: list, generate, measure, draw and compare communication graphs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gossiprec.base.errors import ScenarioError, did_you_mean
from gossiprec.cli.options import JSON, REPLACE, Number, WholeNumber, add_options
from gossiprec.cli.summary_text import format_percent
from gossiprec.cli.terminal import echo

if TYPE_CHECKING:
    import networkx as nx

    from gossiprec.network.overlay import ExchangedViews, Views
    from gossiprec.network.protocols import Protocol
    from gossiprec.scenario import Scenario

_WHAT = (
    "WHAT is a graph family (ring, or with options ring:k=4), a bundled graph, a graph file or a scenario."
)


@click.group()
def topology() -> None:
    """List, generate, measure, draw and compare communication graphs.

    \b
    gossiprec topology list
    gossiprec topology make watts-strogatz --nodes 100 --set k=6 --out small-world.graphml
    gossiprec topology inspect karate-club
    gossiprec topology inspect rand_gossip.yaml
    gossiprec topology compare ring:k=4 torus random-regular:degree=4 --nodes 100
    gossiprec topology draw karate-club small-world.graphml --out pictures/two
    """  # noqa: D301


_DRAWING = add_options(
    click.option("--nodes", type=WholeNumber(min=1), help="Number of nodes, for graph families."),
    click.option(
        "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Set a family option (repeatable)."
    ),
    click.option(
        "--seed", default=1, show_default=True, type=WholeNumber(0, 2**63 - 1),
        help="Seed for graph families; gives the same graph as a scenario with this seed and size.",
    ),
)  # fmt: skip
"""Options for drawing a family."""
_MEETING = add_options(
    click.option(
        "--fraction", default=0.5, show_default=True, type=Number(0, 1),
        help='Fraction of other nodes for the column "wakes".',
    ),
    click.option(
        "--fanout", default=3, show_default=True, type=WholeNumber(min=1),
        help="Number of peers a node sends to per wake (ignored for scenarios).",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON, with the ids of the colluders."),
)  # fmt: skip
"""Options for measuring graphs."""


@topology.command("list")
@JSON
def list_(as_json: bool) -> None:
    """List the families with their options, and the frozen graphs."""
    from gossiprec.network import graphs
    from gossiprec.network.graphs.files import frozen_summary

    families: dict[str, Any] = {
        name: {
            "summary": family.summary,
            "options": {
                key: {"meaning": option.meaning, "default": _default(option)}
                for key, option in family.options.items()
            },
        }
        for name, family in graphs.FAMILIES.members()
    }
    frozen = {name: frozen_summary(name) for name in graphs.frozen_names()}
    if as_json:
        echo(json.dumps({"families": families, "frozen": frozen}, indent=2), whole=True)
        return
    echo("families:")
    for name, about in families.items():
        echo(f"  {name:22} {about['summary'].removeprefix('Return ')}")
        for key, option in about["options"].items():
            echo(f"    {key:20} {option['meaning']}  [{option['default']}]")
    echo("frozen graphs:")
    for name, summary in frozen.items():
        echo(f"  {name:22} {summary}")


@topology.command()
@click.argument("what", metavar="WHAT")
@_DRAWING
@click.option(
    "--out", required=True, type=click.Path(dir_okay=False, path_type=Path),
    help="File to write: .graphml, .edges or .json.",
)  # fmt: skip
@REPLACE
def make(what: str, out: Path, overwrite: bool, **options: Any) -> None:
    """Write the graph that WHAT names to a file: draw a family, or convert a file."""
    from gossiprec.base.errors import ScenarioError
    from gossiprec.network.graphs.files import graph_text, infer_graph_format
    from gossiprec.network.overlay.graph_options import scenario_errors
    from gossiprec.runs.run_files import replace_file

    with scenario_errors("--out"):
        kind = infer_graph_format(out)
    if out.exists() and not overwrite:
        raise ScenarioError(f"{out} exists; choose another name, or pass --overwrite")
    found = resolve_graphs(what, GraphRequest(**options))
    if len(found) != 1 or found[0].graph is None:
        raise ScenarioError(
            f"{what}: found {'no graph' if len(found) == 1 else f'{len(found)} graphs'}; expected one graph"
        )
    replace_file(out, graph_text(found[0].graph, kind).encode())
    echo(f"{out}: {len(found[0].graph)} nodes, {found[0].graph.number_of_edges()} links")


@topology.command(epilog=_WHAT)
@click.argument("what", metavar="WHAT...", nargs=-1, required=True)
@_DRAWING
@_MEETING
def inspect(what: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Measure graphs: degrees, distances, mixing, contact times and colluders needed to observe every link."""
    measured = _measured(what, options)
    echo(
        json.dumps(measured, indent=2) if as_json else "\n\n".join(map(describe_graph, measured)),
        whole=as_json,
    )


@topology.command(epilog=_WHAT)
@click.argument("what", metavar="WHAT...", nargs=-1, required=True)
@_DRAWING
@_MEETING
def compare(what: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Measure graphs and print one table, a line for each."""
    measured = _measured(what, options)
    echo(json.dumps(measured, indent=2) if as_json else format_graph_table(measured), whole=as_json)


@topology.command(epilog=_WHAT)
@click.argument("what", metavar="WHAT...", nargs=-1, required=True)
@_DRAWING
@click.option(
    "--layout",
    default="spring",
    show_default=True,
    type=click.Choice(["spring", "circular"]),
    help="Node layout.",
)
@click.option(
    "--out", required=True, type=click.Path(dir_okay=False, path_type=Path), metavar="STEM",
    help="Files are STEM.csv, STEM.png and STEM.svg.",
)  # fmt: skip
def draw(what: tuple[str, ...], layout: Any, out: Path, **options: Any) -> None:
    """Draw graphs, one panel each, and highlight colluders that observe every link."""
    from gossiprec.base.errors import ScenarioError
    from gossiprec.figures import topology as picture
    from gossiprec.network.overlay.graph_options import scenario_errors

    found = _found(what, options)
    without = [one.name for one in found if one.graph is None]
    if without:
        raise ScenarioError(
            f"{', '.join(without)}: views are redrawn at random, so there is no graph to draw"
        )
    with scenario_errors("draw"):
        paths = picture.draw([(one.name, one.graph) for one in found], out, layout=layout)
    for path in paths:
        echo(path, whole=True)


def _found(what: Sequence[str], options: Mapping[str, Any]) -> list[NamedGraph]:

    return [found for text in what for found in resolve_graphs(text, GraphRequest(**options))]


def _measured(what: Sequence[str], options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the facts of each graph with its name."""
    from gossiprec.network.graphs.measures import summarise_graph
    from gossiprec.network.overlay.graph_options import scenario_errors

    measured = []
    for one in _found(what, options):
        with scenario_errors(one.name):
            about = {"fraction": options["fraction"], "fanout": one.fanout}
            facts = about if one.graph is None else summarise_graph(one.graph, **about)
        measured.append({"name": one.name, **facts, **one.more})
    return measured


def _default(option: Any) -> Any:
    from gossiprec.network import graphs

    return "required" if option.default is graphs.REQUIRED else option.default


Facts = Mapping[str, Any]
LABEL_WIDTH = 22
ROUNDING = 1e-12


def format_number(value: float | None) -> str:
    """Return a count in full and any other number with three digits, or ``-`` if there is none."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{0.0 if abs(value) < ROUNDING else value:.3g}"


def _links(facts: Facts) -> str:
    return f"{format_number(facts['links'])} {'directed' if facts['directed'] else 'undirected'}"


def _degree(facts: Facts) -> str:
    low, mean, high = (format_number(facts[f"degree_{which}"]) for which in ("min", "mean", "max"))
    return low if low == mean == high else f"{low} to {high}, mean {mean}"


def _in_degree(facts: Facts) -> str:
    deviation = format_number(facts["in_degree_deviation"])
    return f"{facts['in_degree_min']} to {facts['in_degree_max']}, deviation {deviation}"


def _parts(facts: Facts) -> str:
    parts: int = facts["parts"]
    return "1" if parts == 1 else f"{parts}, not connected to one another"


def _gap(facts: Facts) -> str:
    return f"{format_number(facts['spectral_gap'])} (lazy walk {format_number(facts['lazy_spectral_gap'])})"


def _can_meet(facts: Facts) -> str:
    return (
        "depends on model performance"
        if facts["can_meet"] is None
        else f"{format_percent(facts['can_meet'])} % of the other nodes"
    )


def _wakes(facts: Facts) -> str:
    share = f"{100 * facts['fraction']:g} % of the other nodes"
    wakes = facts["wakes_to_meet"]
    return (
        f"{share}: never"
        if wakes is None
        else f"{share}: {format_number(wakes)} (sending to {facts['fanout']} peers per wake)"
    )


def _colluders(facts: Facts) -> str:
    return f"{facts['n_colluders']} suffice: {', '.join(map(str, facts['colluders'][:12]))}" + (
        ", ..." if facts["n_colluders"] > 12 else ""
    )


ROWS: tuple[tuple[str, str, Callable[[Facts], str]], ...] = (
    ("nodes", "nodes", lambda facts: format_number(facts["nodes"])),
    ("links", "links", _links),
    ("degree", "degree_mean", _degree),
    ("in-degree", "in_degree_min", _in_degree),
    ("connected parts", "parts", _parts),
    ("diameter", "diameter", lambda facts: format_number(facts["diameter"])),
    ("average distance", "average_distance", lambda facts: format_number(facts["average_distance"])),
    ("clustering", "clustering", lambda facts: format_number(facts["clustering"])),
    ("spectral gap", "spectral_gap", _gap),
    ("can be met", "can_meet", _can_meet),
    ("wakes to meet", "wakes_to_meet", _wakes),
    (
        "bound nP/(P+1)",
        "cover_bound",
        lambda facts: f"{format_number(facts['cover_bound'])} colluders observe every link",
    ),
    ("colluders found", "n_colluders", _colluders),
)
"""Label, required fact, and format of each line."""


def describe_graph(facts: Facts) -> str:
    """Return the description of one graph, a line per measure."""
    lines = [f"  {label:{LABEL_WIDTH}}{put(facts)}" for label, key, put in ROWS if key in facts]
    return "\n".join([f"{facts['name']}", *lines])


COLUMNS = {
    "nodes": "nodes", "links": "links", "degree": "degree_mean", "max": "degree_max", "diam": "diameter",
    "dist": "average_distance", "clust": "clustering", "gap": "spectral_gap", "lazy": "lazy_spectral_gap",
    "met %": "can_meet", "wakes": "wakes_to_meet", "bound": "cover_bound", "cover": "n_colluders",
}  # fmt: skip
"""Heading of each column, and its fact."""


def format_graph_table(measured: Sequence[Facts]) -> str:
    """Return a table with a heading and one line per graph, and the explanation of its columns."""
    rows = [["", *COLUMNS]]
    rows += [[str(facts["name"]), *(_cell(facts, key) for key in COLUMNS.values())] for facts in measured]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
    return "\n".join(
        [*(line.rstrip() for line in lines), "", _note(measured[0]["fraction"]), *_never(measured)]
    )


def _never(measured: Sequence[Facts]) -> list[str]:
    """Return the fraction to use instead, if none of the graphs has enough links for the one given."""
    if any(facts["wakes_to_meet"] is not None for facts in measured):
        return []
    least = 0.9 * min(facts["can_meet"] or 0.0 for facts in measured)
    return (
        [f"No node has that many neighbours in any of these graphs; try --fraction {least:.2g}."]
        if least > 0
        else []
    )


def _cell(facts: Facts, key: str) -> str:
    return format_percent(facts.get(key)) if key == "can_meet" else format_number(facts.get(key))


def _note(fraction: float) -> str:
    return (
        "diam, dist: largest and mean distance in hops; gap: 1 - |second eigenvalue| of the random walk (lazy: of\n"
        "the lazy random walk); met: fraction of the other nodes that a node can ever receive from; wakes: mean\n"
        f"number of wakes until that fraction is {100 * fraction:g} %; bound: nP/(P+1) colluders observe every link,\n"
        "with P the mean degree; cover: number of colluders found to suffice; -: not defined."
    )


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
        reject_disguised_numbers,
    )
    from gossiprec.scenario.yaml_source import parse_overrides

    problems = Problems()
    parsed = parse_overrides(settings, problems)
    raw = {".".join(override.keys): override.value for override in parsed}
    options = None
    try:
        options = family_options(name).model_validate({"family": name, **raw})
        reject_disguised_numbers(raw, options, (), problems)
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
    from gossiprec.network.overlay.graph_options import GraphSequence, load_graph_sequence, load_placed_graph

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
