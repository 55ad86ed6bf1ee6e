"""``gossiprec topology``: list, generate, measure, draw and compare communication graphs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gossiprec.base.errors import ScenarioError, did_you_mean
from gossiprec.cli.options import JSON, REPLACE, Number, WholeNumber, add_options
from gossiprec.cli.summary_text import format_percent
from gossiprec.cli.terminal import echo

if TYPE_CHECKING:
    from gossiprec.network.protocols.contact_graphs import NamedGraph

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
_GRAPHS = click.argument("what", metavar="WHAT...", nargs=-1, required=True)
_MEETING = add_options(
    _GRAPHS,
    _DRAWING,
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
"""Arguments and options for measuring graphs."""


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
                key: {
                    "meaning": option.meaning,
                    "default": "required" if option.default is graphs.REQUIRED else option.default,
                }
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
@_MEETING
def inspect(what: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Measure graphs: degrees, distances, mixing, contact times and colluders needed to observe every link."""
    measured = _measured(what, options)
    echo(
        json.dumps(measured, indent=2) if as_json else "\n\n".join(map(describe_graph, measured)),
        whole=as_json,
    )


@topology.command(epilog=_WHAT)
@_MEETING
def compare(what: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Measure graphs and print one table, a line for each."""
    measured = _measured(what, options)
    echo(json.dumps(measured, indent=2) if as_json else format_graph_table(measured), whole=as_json)


@topology.command(epilog=_WHAT)
@_GRAPHS
@_DRAWING
@click.option(
    "--layout", default="spring", show_default=True, type=click.Choice(["spring", "circular"]), help="Node layout."
)  # fmt: skip
@click.option(
    "--out", required=True, type=click.Path(dir_okay=False, path_type=Path), metavar="STEM",
    help="Files are STEM.csv, STEM.png and STEM.svg.",
)  # fmt: skip
def draw(what: tuple[str, ...], layout: Any, out: Path, **options: Any) -> None:
    """Draw graphs, one panel each, and highlight colluders that observe every link."""
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


Facts = Mapping[str, Any]
ROUNDING = 1e-12


def format_number(value: float | None) -> str:
    """Return a count in full and any other number with three digits, or ``-`` if there is none."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{0.0 if abs(value) < ROUNDING else value:.3g}"


LINES = {
    "nodes": "{nodes}",
    "links": "{links} {directed}",
    "degree": "{degree_min} to {degree_max}, mean {degree_mean}",
    "in-degree": "{in_degree_min} to {in_degree_max}, deviation {in_degree_deviation}",
    "connected parts": "{parts}",
    "diameter": "{diameter}",
    "average distance": "{average_distance}",
    "clustering": "{clustering}",
    "spectral gap": "{spectral_gap} (lazy walk {lazy_spectral_gap})",
    "can be met": "{can_meet}",
    "wakes to meet": "{fraction} % of the other nodes: {wakes_to_meet} (sending to {fanout} peers per wake)",
    "bound nP/(P+1)": "{cover_bound} colluders observe every link",
    "colluders found": "{n_colluders} suffice: {colluders}",
}
"""Label of each line, and its text with the names of facts."""
COLLUDERS_SHOWN = 12


def describe_graph(facts: Facts) -> str:
    """Return the description of one graph, a line for each measure that it has."""
    texts = {
        key: format_number(value)
        for key, value in facts.items()
        if value is None or isinstance(value, int | float)
    }
    texts["directed"] = "directed" if facts.get("directed") else "undirected"
    texts["fraction"] = f"{100 * facts['fraction']:g}"
    texts["can_meet"] = f"{format_percent(facts['can_meet'])} % of the other nodes"
    if facts["can_meet"] is None:
        texts["can_meet"] = "depends on model performance"
    if facts["wakes_to_meet"] is None:
        texts["wakes_to_meet"] = "never"
    if colluders := [*map(str, facts.get("colluders", ()))]:
        more = ["..."] if len(colluders) > COLLUDERS_SHOWN else []
        texts["colluders"] = ", ".join(colluders[:COLLUDERS_SHOWN] + more)
    lines = [str(facts["name"])]
    for label, text in LINES.items():
        with suppress(KeyError):  # of a measure that the graph does not have
            lines.append(f"  {label:22}{text.format_map(texts)}")
    return "\n".join(lines)


COLUMNS = {
    "nodes": "nodes", "links": "links", "degree": "degree_mean", "max": "degree_max", "diam": "diameter",
    "dist": "average_distance", "clust": "clustering", "gap": "spectral_gap", "lazy": "lazy_spectral_gap",
    "met %": "can_meet", "wakes": "wakes_to_meet", "bound": "cover_bound", "cover": "n_colluders",
}  # fmt: skip
"""Heading of each column, and its fact."""


def format_graph_table(measured: Sequence[Facts]) -> str:
    """Return a table with a heading and one line per graph, and the explanation of its columns."""

    def cell(facts: Facts, key: str) -> str:
        return format_percent(facts.get(key)) if key == "can_meet" else format_number(facts.get(key))

    rows = [["", *COLUMNS]]
    rows += [[str(facts["name"]), *(cell(facts, key) for key in COLUMNS.values())] for facts in measured]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join([name.ljust(widths[0]), *map(str.rjust, cells, widths[1:])]) for name, *cells in rows]
    lines += [
        "",
        "diam, dist: largest and mean distance in hops; gap: 1 - |second eigenvalue| of the random walk (lazy: of",
        "the lazy random walk); met: fraction of the other nodes that a node can ever receive from; wakes: mean",
        f"number of wakes until that fraction is {100 * measured[0]['fraction']:g} %; bound: nP/(P+1) colluders "
        "observe every link,",
        "with P the mean degree; cover: number of colluders found to suffice; -: not defined.",
    ]
    least = 0.9 * min(facts["can_meet"] or 0.0 for facts in measured)
    if least > 0 and all(facts["wakes_to_meet"] is None for facts in measured):
        lines.append(f"No node has that many neighbours in any of these graphs; try --fraction {least:.2g}.")
    return "\n".join(lines)


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


def resolve_graphs(text: str, request: GraphRequest) -> list[NamedGraph]:
    """Return the graph that an argument names, or every graph of a scenario.

    Raises
    ------
    ScenarioError, DataError
        If the name is unknown, a scenario or its data cannot be read, or the graph is impossible.
    """
    from gossiprec.network import graphs
    from gossiprec.network.graphs.files import SUFFIXES
    from gossiprec.network.overlay.graph_options import load_graph, scenario_errors
    from gossiprec.network.protocols.contact_graphs import NamedGraph

    path, fanout = Path(text), request.fanout
    if path.suffix.lower() in SCENARIOS:
        return _scenario_graphs(text, request)
    if path.suffix.lower() in SUFFIXES or path.exists():
        with scenario_errors("file"):
            return [NamedGraph(path.name, graphs.read_graph(path), fanout)]
    name, _, inline = text.partition(":")
    frozen = text.removeprefix(FROZEN)
    if frozen in graphs.frozen_names():
        return [NamedGraph(frozen, graphs.frozen_graph(frozen), fanout)]
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
    graph = load_graph(_family_options(name, settings), request.nodes, seed=request.seed, key=text)
    return [NamedGraph(text, graph, fanout)]


def _family_options(name: str, settings: Sequence[str]) -> Any:
    from gossiprec.network.overlay.graph_options import family_options
    from gossiprec.scenario.problems import Origin, Problems, SourceMap, validate_options
    from gossiprec.scenario.yaml_source import parse_overrides

    problems = Problems()
    given = {".".join(override.keys): override.value for override in parse_overrides(settings, problems)}
    problems.raise_any(SourceMap(Origin(name)))
    return validate_options(family_options(name), {"family": name, **given}, name)


def _scenario_graphs(path: str, request: GraphRequest) -> list[NamedGraph]:
    from gossiprec.emulation.assembly.data_loading import load_data
    from gossiprec.emulation.assembly.schedule import make_protocol
    from gossiprec.network.protocols.contact_graphs import protocol_graphs
    from gossiprec.scenario import load_scenario
    from gossiprec.scenario.section_checks import check_sizes

    if request.settings or request.nodes is not None:
        raise ScenarioError(
            f"{path}: found --nodes or --set, but a scenario defines both; change the scenario, or "
            "name a graph family"
        )
    scenario = load_scenario(path)
    split = load_data(scenario)
    check_sizes(scenario, split.n_users, split.n_items)
    protocol = make_protocol(scenario, split)
    return [*protocol_graphs(scenario.name, protocol, fanout=request.fanout, fraction=request.fraction)]
