"""Places of poisoners in a fixed graph: the most central nodes, or Sybils behind a number of attack edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from gossiprec.base.arrays import I64
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import generator
from gossiprec.network.graphs.centrality import order_nodes
from gossiprec.network.overlay import PoisonerPlaces, UserProfiles
from gossiprec.network.overlay.graph_options import PlainGraph, load_graph, scenario_errors

if TYPE_CHECKING:
    import networkx as nx


def load_placed_graph(
    graph: PlainGraph,
    n_nodes: int,
    poisoners: Sequence[PoisonerPlaces],
    *,
    seed: int,
    key: str,
    profiles: UserProfiles | None = None,
) -> nx.Graph:
    """Return the run's graph over users and poisoners, with each poisoner in its place.

    Parameters
    ----------
    graph : options of a family, file or frozen graph
        Over all nodes except Sybils.
    n_nodes : int
    poisoners : sequence of PoisonerPlaces
        All poisoners; empty if none is placed: the graph is then the one of :func:`load_graph`.
    seed, key, profiles
        See :func:`load_graph`.

    Raises
    ------
    ScenarioError
        If there is no such graph over this number of nodes.

    Notes
    -----
    A poisoner that is placed exchanges places with the user there, so that the graph has the same shape.
    """
    sybils = [group for group in poisoners if group.edges is not None and len(group.nodes)]
    ids = np.setdiff1d(np.arange(n_nodes), [node for group in sybils for node in group.nodes])
    if sybils and profiles is not None:
        profiles = replace(profiles, items=Ragged.from_parts([profiles.items[node] for node in ids]))
    found = load_graph(graph, len(ids), seed=seed, key=key, profiles=profiles)
    if not poisoners:
        return found
    import networkx as nx

    with scenario_errors(key):
        holders = _holders(found, ids, [group for group in poisoners if group.edges is None], seed)
    found = nx.relabel_nodes(found, dict(enumerate(holders.tolist())))
    n_users = n_nodes - sum(len(group.nodes) for group in poisoners)
    for group in sybils:
        users = (
            generator(seed, "attack-edges", int(group.nodes[0])).permutation(n_users)[: group.edges].tolist()
        )
        nodes = np.resize(group.nodes, len(users)).tolist()
        pairs = [*zip(nodes, users, strict=True), *zip(users, nodes, strict=True)]
        found.add_edges_from(pairs + list(permutations(group.nodes.tolist(), 2)) if group.linked else pairs)
    return found


def _holders(graph: nx.Graph, ids: I64, poisoners: Sequence[PoisonerPlaces], seed: int) -> I64:
    """Return the node at each place of a graph, of which the places belong to some ascending ids at first."""
    from gossiprec.network.graphs.measures import adjacency

    moved = np.concatenate([[], *(group.nodes for group in poisoners if group.placement)]).astype(np.int64)
    if not len(moved):
        return ids
    staying = [node for group in poisoners if not group.placement for node in group.nodes]
    free, taken = ~np.isin(ids, staying), np.zeros(0, np.int64)
    towards = adjacency(graph).T.tocsr()  # orders count the senders of a node: here, those that it sends to
    for group in poisoners:
        if group.placement:
            draw = int(generator(seed, "poisoner-placement", len(taken)).integers(2**63))
            order = order_nodes(towards, group.placement, draw)
            chosen = order[free[order]][: len(group.nodes)]
            free[chosen] = False
            taken = np.append(taken, chosen)
    holders, left = ids.copy(), np.setdiff1d(np.flatnonzero(np.isin(ids, moved)), taken)
    holders[left] = np.setdiff1d(ids[taken], moved)
    holders[taken] = moved
    return holders
