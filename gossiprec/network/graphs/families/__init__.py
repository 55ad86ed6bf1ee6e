"""Families of graphs, registered by name, and their preconditions; a new file in this folder adds families.

A family is a function. Its signature declares its inputs: `n` (number of nodes), `seed`, `items` (of every node's
user) and `places` are passed by the caller that draws a graph; every other argument is an option, which the decorator
describes. The emulator takes a graph as lists of out-neighbours (:func:`out_neighbors`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from gossiprec.base.arrays import I64
from gossiprec.base.registry import Registry
from gossiprec.old_names import forward

if TYPE_CHECKING:
    import networkx as nx


GIVEN = ("n", "seed", "items", "places")
"""Arguments of a family that are not options."""

REQUIRED: Any = inspect.Parameter.empty
"""The default of an option that must be given."""

Draw = TypeVar("Draw", bound=Callable[..., Any])


@dataclass(frozen=True)
class FamilyOption:
    """An argument of a family that the user chooses.

    Attributes
    ----------
    kind : type
        Any annotation, such as ``int``, ``float | None`` or ``tuple[int, ...]``.
    meaning : str
        Description in one line.
    default : object
    least, most : float, optional
        Inclusive bounds that hold for any number of nodes.
    """

    kind: Any
    meaning: str
    default: Any = REQUIRED
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class GraphFamily:
    """A family of graphs.

    Attributes
    ----------
    name : str
        The name in a scenario.
    draw : callable
        The function itself: from inputs and options to a graph over nodes 0 .. n - 1.
    options : mapping of str to FamilyOption
    asks : frozenset of str
        The inputs of :data:`GIVEN` that the function takes.
    """

    name: str
    draw: Callable[..., nx.Graph]
    options: Mapping[str, FamilyOption]
    asks: frozenset[str]

    @property
    def __wrapped__(self) -> Callable[..., nx.Graph]:
        """The function that is registered as the family."""
        return self.draw

    @property
    def summary(self) -> str:
        """Description of its graphs, in one line."""
        return (inspect.getdoc(self.draw) or "").partition("\n")[0]

    def graph(self, given: Mapping[str, Any], options: Mapping[str, Any]) -> nx.Graph:
        """Return a graph of the family.

        Parameters
        ----------
        given : mapping
            Values for :data:`GIVEN`; inputs that the family does not take are ignored.
        options : mapping
            Values for the options; omitted options take their defaults.

        Raises
        ------
        ValueError
            If there is no such graph; the message says what was found and what was expected.
        """
        defaults = {name: option.default for name, option in self.options.items()}
        arguments = {name: given[name] for name in GIVEN if name in self.asks}
        return self.draw(**arguments, **{**defaults, **options})


FAMILIES: Registry[GraphFamily] = Registry("family", "gossiprec.network.graphs.families", group="topologies")


def register_family(name: str, **options: FamilyOption) -> Callable[[Draw], Draw]:
    """Return a decorator that registers a function under `name`.

    Raises
    ------
    ValueError
        If `options` are not the function's arguments.
    PluginError
        If the name is taken.
    """

    def file_under(draw: Draw) -> Draw:
        arguments = list(inspect.signature(draw).parameters)
        if sorted(options) != sorted(set(arguments) - set(GIVEN)):
            raise ValueError(f"family {name!r} has arguments {arguments}, but options {list(options)}")
        FAMILIES.register(name)(GraphFamily(name, draw, options, frozenset(arguments) & frozenset(GIVEN)))
        return draw

    return file_under


ATTEMPTS = 100
"""Number of attempts to draw a connected graph."""


def check_size(n: int, least: int = 2) -> None:
    """Refuse a graph over too few nodes."""
    if n < least:
        raise ValueError(f"found n = {n}, must be at least {least}")


def check_probability(p: float, name: str = "p") -> None:
    """Refuse a number that is not a probability, including NaN."""
    if not 0 <= p <= 1:
        raise ValueError(f"found {name} = {p}, must be from 0 to 1")


def check_lattice_degree(n: int, k: int) -> None:
    """Refuse a degree that a ring lattice of `n` nodes cannot have."""
    if k < 2 or k % 2:
        raise ValueError(
            f"found k = {k}; expected an even number of at least 2: half of the neighbours are on each side"
        )
    if k >= n:
        raise ValueError(f"found k = {k}, but a node has only {n - 1} possible neighbours")


def draw_connected(draw: Callable[[np.random.Generator], nx.Graph], seed: int, remedy: str) -> nx.Graph:
    """Draw from the family's distribution until the graph is connected.

    Raises
    ------
    ValueError
        If none of :data:`ATTEMPTS` draws is; `remedy` is the next step of the message.
    """
    import networkx as nx

    rng = np.random.default_rng(seed)
    for _ in range(ATTEMPTS):
        graph = draw(rng)
        if nx.is_connected(graph):
            return graph
    raise ValueError(f"found no connected graph in {ATTEMPTS} attempts; {remedy}")


def out_neighbors(graph: nx.Graph) -> list[I64]:
    """Return the out-neighbours of nodes 0 .. n - 1, each list in ascending order.

    Parameters
    ----------
    graph : networkx.Graph or networkx.DiGraph
        Over nodes 0 .. n - 1; a link of an undirected graph leads both ways.

    Raises
    ------
    ValueError
        If the nodes are not 0 .. n - 1, or a node is linked to itself.
    """
    if set(graph) != set(range(len(graph))):
        raise ValueError(f"found a graph with nodes other than 0 to {len(graph) - 1}; relabel them")
    if any(graph.has_edge(node, node) for node in graph):
        raise ValueError(
            "found a node linked to itself; remove the link, because a node does not send to itself"
        )
    return [np.array(sorted(graph[node]), np.int64) for node in range(len(graph))]


forward(__name__)
