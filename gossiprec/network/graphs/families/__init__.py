"""Families of graphs, registered by name, and their preconditions.

Graphs of a formula or of draws (complete, star, ring lattice, torus, independent links, equal degrees, small-world),
and graphs of communities and of neighbours: dense within blocks of nodes, or linked to the nearest by taste or place.
A new file in this folder adds families.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F64, I64
from gossiprec.base.registry import Registry
from gossiprec.network.graphs.similarity import (
    check_connected,
    check_self_links,
    nearest_neighbors,
    spatial_proximity,
    taste_similarity,
)

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
    check_self_links(graph)
    return [np.array(sorted(graph[node]), np.int64) for node in range(len(graph))]


@register_family("complete")
def complete(n: int) -> nx.Graph:
    """Return the graph in which every two of `n` nodes are linked.

    Raises
    ------
    ValueError
        If n < 2: a node would have no peer.
    """
    import networkx as nx

    check_size(n)
    return nx.complete_graph(n)


@register_family("star")
def star(n: int) -> nx.Graph:
    """Return the graph in which node 0, the centre, is linked to each of the n - 1 others, and no others are linked.

    Raises
    ------
    ValueError
        If n < 2: a node would have no peer.
    """
    import networkx as nx

    check_size(n)
    return nx.star_graph(n - 1)


@register_family(
    "ring", k=FamilyOption(int, "degree (even; half of the neighbours are on each side)", 2, least=2)
)
def ring(n: int, k: int) -> nx.Graph:
    """Return a ring lattice: every node is linked to its `k` nearest nodes, half of them on each side.

    Parameters
    ----------
    n : int
        Number of nodes.
    k : int
        Degree: even, 2 <= k < n.

    Raises
    ------
    ValueError
        If there is no such lattice.

    References
    ----------
    D. J. Watts, S. H. Strogatz, "Collective dynamics of 'small-world' networks", Nature 393 (1998): the lattice they
    start from.
    """
    import networkx as nx

    check_lattice_degree(n, k)
    graph = nx.empty_graph(n)
    graph.add_edges_from((u, (u + step) % n) for u in range(n) for step in range(1, k // 2 + 1))
    return graph


SIDE = 3
"""Minimum of rows and columns: with two, the neighbours above and below would be the same node."""


@register_family(
    "torus",
    rows=FamilyOption(
        int | None, "number of rows of the grid; none: as square as n allows", None, least=SIDE
    ),
)
def torus(n: int, rows: int | None = None) -> nx.Graph:
    """Return a grid that wraps around: every node is linked to the nodes above, below, left and right of it.

    Parameters
    ----------
    n : int
        Number of nodes: rows times columns, both at least 3. Node ``r * columns + c`` is in row r, column c.
    rows : int, optional
        If omitted, the largest divisor of n up to its square root.

    Raises
    ------
    ValueError
        If `n` nodes do not fill such a grid.
    """
    import networkx as nx

    if rows is None:
        rows = max(r for r in range(1, math.isqrt(max(n, 1)) + 1) if n % r == 0)
        if rows < SIDE:
            raise ValueError(
                f"found n = {n}, which is not a product of two numbers of at least {SIDE}; "
                f"use {max(SIDE, -(-n // SIDE)) * SIDE} nodes"
            )
    columns, left = divmod(n, rows)
    if rows < SIDE or columns < SIDE or left:
        raise ValueError(
            f"found {rows} rows for {n} nodes; expected at least {SIDE} rows and columns, with {n} as their product"
        )
    graph = nx.empty_graph(n)
    for node in range(n):
        row, column = divmod(node, columns)
        graph.add_edge(node, row * columns + (column + 1) % columns)
        graph.add_edge(node, (row + 1) % rows * columns + column)
    return graph


@register_family("erdos-renyi", p=FamilyOption(float, "probability of a link", least=0, most=1))
def erdos_renyi(n: int, p: float, seed: int) -> nx.Graph:
    """Return a connected graph in which every two nodes are linked with probability `p`.

    Parameters
    ----------
    n : int
        Number of nodes, at least 2.
    p : float
        0 <= p <= 1. Graphs with p below ln(n) / n are seldom connected.
    seed : int

    Raises
    ------
    ValueError
        If no connected graph was found.

    References
    ----------
    P. Erdős, A. Rényi, "On random graphs I", Publicationes Mathematicae 6 (1959); this is Gilbert's variant.
    """
    import networkx as nx

    check_size(n)
    check_probability(p)
    return draw_connected(lambda rng: nx.gnp_random_graph(n, p, seed=rng), seed, "raise p")


@register_family("random-regular", degree=FamilyOption(int, "number of neighbours of every node", 3, least=1))
def random_regular(n: int, degree: int, seed: int) -> nx.Graph:
    """Return a random connected graph in which every node has the same degree.

    Parameters
    ----------
    n : int
        Number of nodes.
    degree : int
        1 <= degree < n, and n * degree even.
    seed : int

    Raises
    ------
    ValueError
        If there is no such graph, or no connected one.

    References
    ----------
    A. Steger, N. Wormald, "Generating random regular graphs quickly", Combinatorics, Probability and Computing 8
    (1999).
    """
    import networkx as nx

    if not 1 <= degree < n:
        raise ValueError(f"found degree {degree}; expected 1 to {n - 1}, the number of other nodes")
    if n * degree % 2:
        raise ValueError(
            f"found degree {degree} for {n} nodes, but n * degree must be even, because a link has two ends"
        )
    return draw_connected(lambda rng: nx.random_regular_graph(degree, n, seed=rng), seed, "raise degree")


@register_family(
    "watts-strogatz",
    k=FamilyOption(int, "mean degree (even)", 4, least=2),
    p=FamilyOption(float, "probability that a link is rewired", 0.1, least=0, most=1),
)
def watts_strogatz(n: int, k: int, p: float, seed: int) -> nx.Graph:
    """Return a connected small-world graph: a ring lattice with links rewired with probability `p`.

    Parameters
    ----------
    n : int
        Number of nodes.
    k : int
        Mean degree: even, 2 <= k < n.
    p : float
        0 <= p <= 1.
    seed : int

    Raises
    ------
    ValueError
        If there is no such lattice, or no connected graph was found.

    References
    ----------
    D. J. Watts, S. H. Strogatz, "Collective dynamics of 'small-world' networks", Nature 393 (1998).
    """
    import networkx as nx

    check_lattice_degree(n, k)
    check_probability(p)
    return draw_connected(lambda rng: nx.watts_strogatz_graph(n, k, p, seed=rng), seed, "raise k or lower p")


@register_family("barabasi-albert", m=FamilyOption(int, "number of links of each new node", 2, least=1))
def barabasi_albert(n: int, m: int, seed: int) -> nx.Graph:
    """Return a graph grown node by node: each new node links to `m` others, in proportion to their degrees.

    Parameters
    ----------
    n : int
        Number of nodes.
    m : int
        1 <= m < n. The graph starts as a star of m + 1 nodes and has m (n - m) links: a few hubs, many leaves.
    seed : int

    Raises
    ------
    ValueError
        If there are too few nodes.

    References
    ----------
    A.-L. Barabási, R. Albert, "Emergence of scaling in random networks", Science 286 (1999).
    """
    import networkx as nx

    if not 1 <= m < n:
        raise ValueError(f"found m = {m}; expected 1 to {n - 1}, the number of other nodes")
    return nx.barabasi_albert_graph(n, m, seed=np.random.default_rng(seed))


@register_family(
    "stochastic-block",
    blocks=FamilyOption(int, "number of equal blocks, in order of node id", 4, least=1),
    sizes=FamilyOption(
        tuple[int, ...] | None, "sizes of the blocks, in order of node id, instead of their number", None
    ),
    within=FamilyOption(float, "probability of a link inside a block", 0.3, least=0, most=1),
    between=FamilyOption(float, "probability of a link between blocks", 0.02, least=0, most=1),
    probabilities=FamilyOption(
        tuple[tuple[float, ...], ...] | None,
        "probability for each pair of blocks, instead of within and between",
        None,
    ),
)
def stochastic_block(
    n: int,
    seed: int,
    blocks: int = 4,
    sizes: Sequence[int] | None = None,
    within: float = 0.3,
    between: float = 0.02,
    probabilities: Sequence[Sequence[float]] | None = None,
) -> nx.Graph:
    """Return a connected graph of communities: links are likelier inside a block of nodes than between two.

    Parameters
    ----------
    n : int
        Number of nodes.
    seed : int
    blocks : int
        1 <= blocks <= n: blocks of consecutive nodes, with sizes that differ by no more than one.
    sizes : sequence of int, optional
        Sizes of the blocks, which add up to n; `blocks` is then ignored.
    within, between : float
        0 <= p <= 1.
    probabilities : sequence of sequence of float, optional
        Symmetric, one row and column for each block; `within` and `between` are then ignored.

    Raises
    ------
    ValueError
        If sizes or probabilities are invalid, or no connected graph was found.

    References
    ----------
    P. W. Holland, K. B. Laskey, S. Leinhardt, "Stochastic blockmodels: first steps", Social Networks 5 (1983).
    """
    check_size(n)
    if sizes is None:
        if not 1 <= blocks <= n:
            raise ValueError(f"found {blocks} blocks, must be from 1 to {n}, the number of nodes")
        sizes = [n // blocks + (block < n % blocks) for block in range(blocks)]
    if min(sizes, default=0) < 1 or sum(sizes) != n:
        raise ValueError(
            f"found sizes {list(sizes)}, which add up to {sum(sizes)}; expected positive sizes that "
            f"add up to {n}"
        )
    block_of = [block for block, size in enumerate(sizes) for _ in range(size)]
    return draw_block_graph(block_of, within, between, probabilities, seed)


@register_family(
    "blocks-by-taste",
    nearest=FamilyOption(
        int, "number of most similar nodes that a node is linked to for community detection", 10, least=1
    ),
    within=FamilyOption(float, "probability of a link inside a community", 0.3, least=0, most=1),
    between=FamilyOption(float, "probability of a link between communities", 0.02, least=0, most=1),
)
def blocks_by_taste(
    items: Sequence[Sequence[int]],
    seed: int,
    nearest: int = 10,
    within: float = 0.3,
    between: float = 0.02,
) -> nx.Graph:
    """Return a connected stochastic block graph, the blocks of which are communities of users of similar taste.

    Parameters
    ----------
    items : sequence of sequence of int
        Item ids of each node's user.
    seed : int
        Seed of the communities and of the links.
    nearest : int
        Communities are found, by modularity, in the graph that links every node to this number of others with the
        largest Jaccard similarity, with the similarities as weights. Their number depends on the data.
    within, between : float
        0 <= p <= 1.

    Raises
    ------
    ValueError
        If an argument is out of range, or no connected graph was found.

    References
    ----------
    V. D. Blondel et al., "Fast unfolding of communities in large networks", Journal of Statistical Mechanics (2008).
    """
    return draw_block_graph(taste_communities(items, nearest, seed), within, between, None, seed)


def taste_communities(items: Sequence[Sequence[int]], nearest: int, seed: int) -> list[int]:
    """Return the community of each node; communities are numbered in the order of their lowest nodes."""
    import networkx as nx

    ties = nearest_neighbors(partial(taste_similarity, items), len(items), nearest)
    communities = nx.community.louvain_communities(ties, weight="similarity", seed=seed % 2**32)
    block_of = [0] * len(items)
    for block, members in enumerate(sorted(communities, key=min)):
        for node in sorted(members):
            block_of[node] = block
    return block_of


def draw_block_graph(
    block_of: Sequence[int],
    within: float,
    between: float,
    probabilities: Sequence[Sequence[float]] | None,
    seed: int,
) -> nx.Graph:
    """Return a connected graph of independent links, with probabilities by the blocks of their ends.

    Parameters
    ----------
    block_of : sequence of int, shape (n,)
        Block of each node, 0 .. n_blocks - 1. The graph keeps it as the node attribute ``block``.
    within, between : float
    probabilities : sequence of sequence of float, shape (n_blocks, n_blocks), or None
        Used in place of the two; symmetric.
    seed : int

    Raises
    ------
    ValueError
        If the probabilities are invalid, or no connected graph was found.
    """
    blocks = np.asarray(block_of, np.int64)
    table = _table(int(blocks.max()) + 1, within, between, probabilities)
    remedy = "raise between" if probabilities is None else "raise probabilities"
    return draw_connected(lambda rng: _drawn(blocks, table, rng), seed, remedy)


def _table(
    n_blocks: int, within: float, between: float, probabilities: Sequence[Sequence[float]] | None
) -> F64:
    if probabilities is None:
        check_probability(within, "within")
        check_probability(between, "between")
        return np.where(np.eye(n_blocks, dtype=bool), within, between)
    rows = [list(row) for row in probabilities]
    if len(rows) != n_blocks or any(len(row) != n_blocks for row in rows):
        shape = f"{len(rows)} rows of {sorted({len(row) for row in rows})} numbers"
        raise ValueError(
            f"found probabilities of {shape}; expected {n_blocks} rows of {n_blocks}, one for each block"
        )
    for p in (p for row in rows for p in row):
        check_probability(p, "probabilities")
    table = np.array(rows)
    if (table != table.T).any():
        raise ValueError(
            "found probabilities that are not symmetric; expected symmetric ones, because links are undirected"
        )
    return table


def _drawn(blocks: I64, table: F64, rng: np.random.Generator) -> nx.Graph:
    import networkx as nx

    graph = nx.empty_graph(len(blocks))
    nx.set_node_attributes(graph, dict(enumerate(blocks.tolist())), "block")
    for node in range(len(blocks) - 1):
        linked = rng.random(len(blocks) - node - 1) < table[blocks[node], blocks[node + 1 :]]
        graph.add_edges_from((node, node + 1 + int(step)) for step in np.flatnonzero(linked))
    return graph


@register_family(
    "nearest-by-taste",
    k=FamilyOption(int, "number of most similar nodes that a node is linked to", 5, least=1),
)
def nearest_by_taste(items: Sequence[Sequence[int]], k: int) -> nx.Graph:
    """Return the graph that links every node to the `k` nodes with the most similar items.

    Parameters
    ----------
    items : sequence of sequence of int
        Item ids of each node's user. The similarity is the Jaccard similarity; ties go to the lower id.
    k : int
        1 <= k < n. A link leads both ways, so a node of common taste has more than `k` neighbours.

    Raises
    ------
    ValueError
        If `k` is out of range, or the graph is not connected.
    """
    return check_connected(nearest_neighbors(partial(taste_similarity, items), len(items), k), "raise k")


@register_family(
    "nearest-by-place", k=FamilyOption(int, "number of nearest nodes that a node is linked to", 5, least=1)
)
def nearest_by_place(places: npt.ArrayLike, k: int) -> nx.Graph:
    """Return the graph that links every node to the `k` nearest nodes on the globe.

    Parameters
    ----------
    places : array-like, shape (n, 2)
        Latitude and longitude of each node in degrees. Ties go to the lower id.
    k : int
        1 <= k < n. A link leads both ways, so that a node may have more than `k` neighbours.

    Raises
    ------
    ValueError
        If `k` is out of range, a place is not on the globe, or the graph is not connected.
    """
    return check_connected(
        nearest_neighbors(partial(spatial_proximity, places), len(np.asarray(places)), k), "raise k"
    )
