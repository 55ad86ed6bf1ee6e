"""Contract of graph families: connected graphs over nodes 0 to n - 1 that follow from the arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gossiprec.network.graphs import GraphFamily
from gossiprec.testing.contract_checks import check_claims

if TYPE_CHECKING:
    import networkx as nx

SEEDS = range(20)


@dataclass(frozen=True)
class TopologyCase:
    """A family with its options, and a number of nodes."""

    family: GraphFamily
    options: Mapping[str, Any]
    n_nodes: int

    def graph(self, seed: int = 0, n_nodes: int | None = None) -> nx.Graph:
        """Return a graph over nodes that have users with random items and places."""
        n, draw = self.n_nodes if n_nodes is None else n_nodes, np.random.default_rng(7)
        given = {
            "n": n,
            "seed": seed,
            "items": [draw.choice(30, 12, replace=False) for _ in range(n)],
            "places": draw.uniform((40, 0), (50, 10), (n, 2)),
        }
        return self.family.graph(given, self.options)


def check_topology(
    family: GraphFamily, options: Mapping[str, Any] | None = None, *, n_nodes: int = 12
) -> None:
    """Check a graph family by drawing graphs.

    Parameters
    ----------
    family : GraphFamily
        The family, as in ``gossiprec.network.graphs.FAMILIES["..."]``.
    options : mapping, optional
        Options as in a scenario.
    n_nodes : int
        A number of nodes for which the family has graphs.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    """
    check_claims(f"the family {family.name}", TopologyCase(family, options or {}, n_nodes), CLAIMS)


def _edges(graph: nx.Graph) -> list[tuple[int, ...]]:
    return sorted(tuple(sorted(edge)) for edge in graph.edges)


def it_says_what_it_is(case: TopologyCase) -> None:
    """Say in its docstring what it returns, and of each option what it means."""
    summary, options = case.family.summary, case.family.options
    assert summary.startswith("Return "), f"It begins with {summary!r}, must begin with 'Return '."
    mute = [name for name, option in options.items() if not option.meaning]
    assert not mute, f"Nothing is said of {', '.join(mute)}."


def graphs_are_over_the_first_numbers(case: TopologyCase) -> None:
    """Have the nodes 0 to n - 1, with no link from a node to itself."""
    for seed in SEEDS:
        graph = case.graph(seed)
        assert sorted(graph) == list(range(case.n_nodes)), f"Found {sorted(graph)} for n = {case.n_nodes}."
        loops = [node for node in graph if graph.has_edge(node, node)]
        assert not loops, f"Nodes {loops} are linked to themselves."


def graphs_are_connected(case: TopologyCase) -> None:
    """Be undirected and connected, whatever the seed."""
    import networkx as nx

    for seed in SEEDS:
        graph = case.graph(seed)
        assert not graph.is_directed(), "Links lead one way."
        assert nx.is_connected(graph), (
            f"Found {nx.number_connected_components(graph)} parts with seed {seed}."
        )


def graphs_follow_from_the_arguments(case: TopologyCase) -> None:
    """Be the same for the same arguments."""
    assert _edges(case.graph(3)) == _edges(case.graph(3)), "Two calls gave different graphs."


def another_seed_gives_another_graph(case: TopologyCase) -> None:
    """Be another with another seed, if it asks for one."""
    if "seed" in case.family.asks:
        different = len({str(_edges(case.graph(seed))) for seed in range(10)})
        assert different > 5, f"Ten seeds gave {different} different graphs."


def the_impossible_is_refused(case: TopologyCase) -> None:
    """Refuse what there is no graph for by a ValueError: scenarios make their message of it."""
    try:
        found = case.graph(n_nodes=1)
    except ValueError:
        return
    assert sorted(found) == [0], f"Found {sorted(found)} for n = 1."


CLAIMS = (
    it_says_what_it_is,
    graphs_are_over_the_first_numbers,
    graphs_are_connected,
    graphs_follow_from_the_arguments,
    another_seed_gives_another_graph,
    the_impossible_is_refused,
)
