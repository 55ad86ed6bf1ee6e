"""What the arguments of ``gossiprec topology`` name: families, frozen graphs, files, and scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gossiprec.errors import ScenarioError, suggestion

if TYPE_CHECKING:
    import networkx as nx

SCENARIOS = (".yaml", ".yml")
FROZEN = "frozen:"


@dataclass(frozen=True)
class Asked:
    """How a family is to be drawn, and what is asked of graphs.

    Attributes
    ----------
    nodes : int or None
    seed : int
        Of the scenario that would draw the same graph.
    settings : sequence of str
        ``key=value`` for every family named.
    fraction : float
        Share of the others to be met.
    fanout : int
        Peers that a node sends to at a wake; a scenario states its own.
    """

    nodes: int | None
    seed: int
    settings: Sequence[str] = ()
    fraction: float = 0.5
    fanout: int = 3


@dataclass(frozen=True)
class Named:
    """A graph under the name by which it was asked for; no graph where views are drawn anew.

    Attributes
    ----------
    more : dict
        What a scenario says beyond its graph; takes the place of facts of the same name.
    """

    name: str
    graph: nx.Graph | None
    fanout: int
    more: dict[str, Any] = field(default_factory=dict)


def named(text: str, asked: Asked) -> list[Named]:
    """Return the graph that an argument names; of a scenario, one for each graph in it.

    Raises
    ------
    ScenarioError
        If there is nothing of that name, or no such graph.
    """
    from gossiprec import graphs
    from gossiprec.graphs.files import SUFFIXES
    from gossiprec.overlay.graphs import scenario_errors

    path = Path(text)
    if path.suffix.lower() in SCENARIOS:
        from gossiprec.cli.scenario_graphs import graphs_in

        return graphs_in(text, asked)
    if path.suffix.lower() in SUFFIXES or path.exists():
        with scenario_errors("file"):
            return [Named(path.name, graphs.read_graph(path), asked.fanout)]
    return [_of_the_package(text, asked)]


def _of_the_package(text: str, asked: Asked) -> Named:
    from gossiprec import graphs
    from gossiprec.overlay.graphs import graph_of

    name, _, inline = text.partition(":")
    frozen = text.removeprefix(FROZEN)
    if frozen in graphs.frozen_names():
        return Named(frozen, graphs.frozen_graph(frozen), asked.fanout)
    if name not in graphs.FAMILIES:
        known = [*graphs.FAMILIES, *graphs.frozen_names()]
        near = suggestion(frozen.partition(":")[0], known)
        raise ScenarioError(
            f"unknown topology {text!r}{near} (expected a family or bundled graph: {', '.join(known)}; a "
            "graph file, or a scenario)"
        )
    settings = [*asked.settings, *(pair for pair in inline.split(",") if pair)]
    if asked.nodes is None:
        raise click.UsageError(f"{text}: a graph family needs a number of nodes; pass --nodes N")
    options = _options(name, settings)
    return Named(text, graph_of(options, asked.nodes, seed=asked.seed, key=text), asked.fanout)


def _options(name: str, settings: Sequence[str]) -> Any:
    """Return a family's options as set; every problem at once."""
    from pydantic import ValidationError

    from gossiprec.overlay.graph_options import family_options
    from gossiprec.scenario.explain import explain, misread_booleans
    from gossiprec.scenario.overrides import parse_overrides
    from gossiprec.scenario.problems import Origin, Problems, SourceMap

    problems = Problems()
    parsed = parse_overrides(settings, problems)
    raw = {".".join(override.keys): override.value for override in parsed}
    options = None
    try:
        options = family_options(name).model_validate({"family": name, **raw})
        misread_booleans(raw, options, (), problems)
    except ValidationError as error:
        explain(error, family_options(name), {"family": name, **raw}, (), problems)
    problems.raise_any(SourceMap(Origin(name)))
    return options
