"""The division of a run among shards: the threads of each, Ray, and the nodes of each.

Nodes are divided by contacts if these are known ahead, and by blocks otherwise.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from gossiprec.adversaries.attacks import Attack
from gossiprec.adversaries.attacks.observations import KnownDeliveries
from gossiprec.base.arrays import I64
from gossiprec.base.errors import ResourceError, ScenarioError
from gossiprec.base.registry import registry_name
from gossiprec.emulation.assembly.components import RunComponents
from gossiprec.network.overlay.views import NeighborOptions


def require_ray(instead: str) -> Any:
    """Return the library Ray.

    Parameters
    ----------
    instead : str
        The step that makes Ray unnecessary.

    Raises
    ------
    ResourceError
        If it is not installed.
    """
    if importlib.util.find_spec("ray") is None:
        raise ResourceError(
            f"Ray is not installed; install it with: pip install 'gossiprec[ray]', or {instead}"
        )
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # otherwise Ray hides the GPUs from its workers
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    return ray


MIN_GAIN = 0.9
"""Largest ratio of crossing messages, compared with blocks, at which a partition by contacts is used."""


def check_divisible(components: RunComponents) -> None:
    """Refuse to divide a run of which the nodes must stay together.

    Raises
    ------
    ScenarioError
    """
    server, shards = components.coordination.server, components.scenario.executor.shards
    n_nodes = components.protocol.n_nodes
    if server is not None and server.n_versions > 1:
        raise ScenarioError(
            f"executor.name: 'ray' divides nodes among processes, and the server {registry_name(server)} "
            "sends clients versions of several models; set executor.name to auto"
        )
    if shards > n_nodes:
        raise ScenarioError(f"executor.shards: found {shards}; expected up to {n_nodes}, the number of nodes")


def divide_nodes(
    components: RunComponents, attacks: Sequence[Attack], deliveries: KnownDeliveries, n_parts: int
) -> I64:
    """Return the shard of every node of a run.

    Raises
    ------
    ScenarioError
        If an attack observes at single users' nodes and cannot return the state of each of these.
    """
    protocol = components.protocol
    for attack in attacks:
        has_state = type(attack).export_node_state is not Attack.export_node_state
        if (attack.nodes < protocol.n_users).any() and not has_state:
            raise ScenarioError(
                f"observers: {attack.label} observes at single nodes but does not implement "
                "export_node_state and import_node_state (gossiprec.adversaries.attacks.Attack), so its nodes "
                "cannot be divided among shards; set executor.name to auto, or remove the observer"
            )

    pools = [pool for attack in attacks for pool in attack.pools]
    if protocol.has_coordinator:
        pools = [np.array([protocol.n_users])]  # it receives all deliveries of all pools
    view = getattr(components.scenario.protocol.options, "view", None)
    has_fixed_peers = isinstance(view, NeighborOptions)
    return partition_nodes(deliveries if has_fixed_peers else None, protocol.n_nodes, n_parts, pools)


def partition_nodes(
    deliveries: KnownDeliveries | None, n_nodes: int, n_parts: int, pools: Sequence[I64]
) -> I64:
    """Return the shard of every node.

    Nodes are divided into blocks of consecutive ids or, if fewer messages cross that way, by repeated halving of a walk
    from neighbour to neighbour. Shard 0 is the part with most members of pools, because it keeps the pools' results.

    Parameters
    ----------
    deliveries : KnownDeliveries or None
        Deliveries to divide by, or None if they are not known ahead.
    n_nodes, n_parts : int
    pools : sequence of ndarray of int64
        Groups of nodes that share what they receive.
    """
    parts = np.arange(n_nodes) * n_parts // n_nodes
    if n_parts > 1 and deliveries is not None and len(deliveries.message):
        walked = bisect_by_contacts(deliveries, n_nodes, n_parts)
        by_blocks, by_contacts = (count_crossing_messages(part, deliveries) for part in (parts, walked))
        if by_contacts <= MIN_GAIN * by_blocks:
            parts = walked
    members = np.concatenate([np.zeros(0, np.int64), *pools])
    first = int(np.bincount(parts[members], minlength=n_parts).argmax())
    swapped = np.arange(n_parts)
    swapped[[0, first]] = first, 0
    return np.asarray(swapped[parts], np.int64)


def count_crossing_messages(parts: I64, deliveries: KnownDeliveries) -> int:
    """Return the number of deliveries from one part to another."""
    return int((parts[deliveries.sender] != parts[deliveries.receiver]).sum())


def bisect_by_contacts(deliveries: KnownDeliveries, n_nodes: int, n_parts: int) -> I64:
    """Return parts of equal size (to one node), found by recursive bisection in the order of a breadth-first search.

    References
    ----------
    A. George, "Nested dissection of a regular finite element mesh", SIAM J. Numer. Anal. 10, 1973: level structures;
    from a node that is far away (a pseudo-peripheral one), as N. Gibbs, W. Poole, P. Stockmeyer, ibid. 13, 1976.
    """
    from scipy import sparse

    ends = (deliveries.sender, deliveries.receiver)
    contacts = sparse.csr_array((np.ones(len(ends[0]), np.int64), ends), shape=(n_nodes, n_nodes))
    contacts = sparse.csr_array(contacts + contacts.T)
    parts = np.zeros(n_nodes, np.int64)
    _halve(contacts, np.arange(n_nodes), 0, n_parts, parts)
    return parts


def _halve(contacts: Any, nodes: I64, first: int, n_parts: int, parts: I64) -> None:
    """Assign the given nodes to parts ``first .. first + n_parts - 1``."""
    if n_parts == 1:
        parts[nodes] = first
        return
    order = nodes[_walk(contacts[nodes][:, nodes])]
    left = n_parts // 2
    cut = len(nodes) * left // n_parts
    _halve(contacts, np.sort(order[:cut]), first, left, parts)
    _halve(contacts, np.sort(order[cut:]), first + left, n_parts - left, parts)


def _walk(contacts: Any) -> I64:
    """Return all nodes in breadth-first order by connected component, each from a node far away from its first."""
    from scipy.sparse import csgraph

    n_components, component = csgraph.connected_components(contacts, directed=False)
    orders = [np.zeros(0, np.int64)]
    for number in range(n_components):
        start = int(np.flatnonzero(component == number)[0])
        for _ in range(2):
            order = csgraph.breadth_first_order(contacts, start, directed=False, return_predecessors=False)
            start = int(order[-1])
        orders.append(order)
    return np.concatenate(orders).astype(np.int64)
