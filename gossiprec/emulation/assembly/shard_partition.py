"""The division of nodes among shards: by contacts if they are known ahead, and by blocks otherwise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gossiprec.adversaries.attacks import Attack
from gossiprec.adversaries.attacks.observations import KnownDeliveries
from gossiprec.base.arrays import I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.registry import registry_name
from gossiprec.emulation.assembly.components import RunComponents
from gossiprec.network.overlay.views import StaticViewOptions
from gossiprec.scenario import Scenario

WORTH = 0.9
"""Largest ratio of crossing messages, compared with blocks, at which a partition by contacts is used."""


def check_divisible(cast: RunComponents) -> None:
    """Refuse to divide a run of which the nodes must stay together.

    Raises
    ------
    ScenarioError
    """
    scenario, protocol = cast.scenario, cast.protocol
    together = _together(cast)
    if together:
        raise ScenarioError(
            f"executor.name: 'ray' divides nodes among processes, and {together}; set executor.name to auto"
        )
    if scenario.executor.shards > protocol.n_nodes:
        raise ScenarioError(
            f"executor.shards: found {scenario.executor.shards}; expected at most "
            f"{protocol.n_nodes}, the number of nodes"
        )


def _together(cast: RunComponents) -> str | None:
    """Return the reason why the nodes cannot be divided, or None."""
    server = cast.server
    if server is not None and server.n_versions > 1:
        return f"the server {registry_name(server)} sends clients versions of several models"
    return None


def check_attacks_divisible(attacks: Sequence[Attack], n_users: int) -> None:
    """Refuse attacks by single users' nodes that cannot return the state of each of these.

    Raises
    ------
    ScenarioError
    """
    for attack in attacks:
        if (attack.nodes < n_users).any() and type(attack).export_node_state is Attack.export_node_state:
            raise ScenarioError(
                f"observers: {attack.label} observes at single nodes but does not implement "
                "export_node_state and import_node_state (gossiprec.adversaries.attacks.Attack), so its nodes "
                "cannot be divided among shards; set executor.name to auto, or remove the observer"
            )


def has_fixed_neighbours(scenario: Scenario) -> bool:
    """Return whether nodes keep the same few peers throughout, as neighbours in a graph do."""
    return isinstance(getattr(scenario.protocol.options, "view", None), StaticViewOptions)


def partition_nodes(
    meetings: KnownDeliveries | None, n_nodes: int, n_parts: int, pools: Sequence[I64]
) -> I64:
    """Return the shard of every node.

    Nodes are divided into blocks of consecutive ids or, if fewer messages cross that way, by repeated halving of a walk
    from neighbour to neighbour. Shard 0 is the part with most members of pools, because it keeps the pools' results.

    Parameters
    ----------
    meetings : Meetings or None
        Deliveries to divide by, or None if they are not known ahead.
    n_nodes, n_parts : int
    pools : sequence of ndarray of int64
        Groups of nodes that share what they receive.
    """
    found = np.arange(n_nodes) * n_parts // n_nodes
    if n_parts > 1 and meetings is not None and len(meetings.message):
        walked = bisect_by_contacts(meetings, n_nodes, n_parts)
        if count_crossing_messages(walked, meetings) <= WORTH * count_crossing_messages(found, meetings):
            found = walked
    members = np.concatenate([np.zeros(0, np.int64), *pools])
    first = int(np.bincount(found[members], minlength=n_parts).argmax())
    swapped = np.arange(n_parts)
    swapped[[0, first]] = first, 0
    return np.asarray(swapped[found], np.int64)


def count_crossing_messages(of: I64, meetings: KnownDeliveries) -> int:
    """Return the number of deliveries from one part to another."""
    return int((of[meetings.sender] != of[meetings.receiver]).sum())


def bisect_by_contacts(meetings: KnownDeliveries, n_nodes: int, n_parts: int) -> I64:
    """Return parts of equal size (to one node), found by recursive bisection in the order of a breadth-first search.

    References
    ----------
    A. George, "Nested dissection of a regular finite element mesh", SIAM J. Numer. Anal. 10, 1973: level structures;
    from a node that is far away (a pseudo-peripheral one), as N. Gibbs, W. Poole, P. Stockmeyer, ibid. 13, 1976.
    """
    from scipy import sparse

    ends = (meetings.sender, meetings.receiver)
    contacts = sparse.csr_array((np.ones(len(ends[0]), np.int64), ends), shape=(n_nodes, n_nodes))
    contacts = sparse.csr_array(contacts + contacts.T)
    found = np.zeros(n_nodes, np.int64)
    _halve(contacts, np.arange(n_nodes), 0, n_parts, found)
    return found


def _halve(contacts: object, nodes: I64, first: int, n_parts: int, found: I64) -> None:
    """Assign the given nodes to parts ``first .. first + n_parts - 1``."""
    if n_parts == 1:
        found[nodes] = first
        return
    order = nodes[_walk(contacts[nodes][:, nodes])]  # type: ignore[index]
    left = n_parts // 2
    cut = len(nodes) * left // n_parts
    _halve(contacts, np.sort(order[:cut]), first, left, found)
    _halve(contacts, np.sort(order[cut:]), first + left, n_parts - left, found)


def _walk(contacts: object) -> I64:
    """Return all nodes in breadth-first order by connected component, each from a node far away from its first."""
    from scipy.sparse import csgraph

    n_nodes = contacts.shape[0]  # type: ignore[attr-defined]
    _, piece = csgraph.connected_components(contacts, directed=False)
    orders = []
    for number in range(piece.max(initial=-1) + 1):
        start = int(np.flatnonzero(piece == number)[0])
        for _ in range(2):
            order = csgraph.breadth_first_order(contacts, start, directed=False, return_predecessors=False)
            start = int(order[-1])
        orders.append(order)
    whole = np.concatenate(orders).astype(np.int64)
    assert len(whole) == n_nodes
    return whole
