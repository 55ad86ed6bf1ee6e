"""Stochastic blocks that are communities of taste."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from gossiprec.network.graphs.checks import draw_block_graph
from gossiprec.network.graphs.registry import FamilyOption, register_family
from gossiprec.network.graphs.similarity import nearest_neighbors, taste_similarity

if TYPE_CHECKING:
    import networkx as nx


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
