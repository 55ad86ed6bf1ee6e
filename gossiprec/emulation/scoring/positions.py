"""Leakage by position: each node's place among its contacts, its findings, and how often it was found.

Contacts are the deliveries in the log. The truth comes in through the results of attacks only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.adversaries.attacks import Attack
from gossiprec.base.arrays import I64
from gossiprec.runs import RunDirectory
from gossiprec.runs.reader import EventLog, read_log
from gossiprec.runs.run_files import log_path

Values = npt.NDArray[Any]
Measured = tuple[str, I64, Values]
"""A measure, node ids, and the value of each."""

DENSEST = 0.25
"""Share of the possible contacts above which the graph is not measured: nearly all paths have one hop or two."""

FOLD_ROWS = 1 << 22
"""Messages that are held until they are counted."""


def write_positions(
    directory: RunDirectory, attacks: Iterable[Attack], of_attacks: Iterable[Measured], n_nodes: int
) -> None:
    """Write ``positions.csv`` from a run's log and the findings of attacks about each node.

    Parameters
    ----------
    directory : RunDirectory
    attacks : iterable of Attack
    of_attacks : iterable of (measure, node ids, values)
    n_nodes : int
        The coordinator included.
    """
    log = read_log(log_path(directory.path))
    contacts = contact_counts(log, n_nodes)
    measures = [*contact_measures(contacts, members_by_coalition(attacks)), *of_attacks]
    sent = sent_counts(log, n_nodes)
    if sent.any():
        measures.insert(0, ("sent", np.arange(n_nodes), sent))
    known = [(name, nodes[~np.isnan(values)], values[~np.isnan(values)]) for name, nodes, values in measures]
    directory.write_positions(
        {
            "node": [node for _, nodes, _ in known for node in nodes.tolist()],
            "measure": [name for name, nodes, _ in known for _ in range(len(nodes))],
            "value": [float(value) for _, _, values in known for value in values.tolist()],
        }
    )


def contact_counts(log: EventLog, n_nodes: int) -> Any:
    """Return the number of messages that each node received from each other one.

    Returns
    -------
    scipy.sparse.csr_array of int64, shape (n_nodes, n_nodes)
        Entry (u, v): deliveries from u to v.
    """
    from scipy import sparse

    total = sparse.csr_array((n_nodes, n_nodes), dtype=np.int64)
    for parts in _folded(log.iter_event_blocks("message")):
        ends = tuple(np.concatenate([part[end] for part in parts]) for end in ("sender", "receiver"))
        total = total + sparse.csr_array((np.ones(len(ends[0]), np.int64), ends), shape=total.shape)
    return total


def _folded(parts: Iterable[Mapping[str, Values]]) -> Iterator[list[Mapping[str, Values]]]:
    """Yield several parts together: adding up graphs costs as much as they have links."""
    held: list[Mapping[str, Values]] = []
    for part in parts:
        held.append(part)
        if sum(len(one["sender"]) for one in held) >= FOLD_ROWS:
            yield held
            held = []
    if held:
        yield held


def sent_counts(log: EventLog, n_nodes: int) -> I64:
    """Return the number of messages of each node that arrived or were dropped, shape (n_nodes,)."""
    sent = np.zeros(n_nodes, np.int64)
    for kind in ("message", "drop"):
        for part in log.iter_event_blocks(kind):
            sent += np.bincount(part["sender"], minlength=n_nodes)
    return sent


def members_by_coalition(attacks: Iterable[Attack]) -> dict[str, I64]:
    """Return the members of every coalition by observer, except names that two different coalitions have."""
    found: dict[str, set[tuple[int, ...]]] = {}
    for attack in attacks:
        for name, members in attack.coalitions.items():
            found.setdefault(name, set()).add(tuple(members.tolist()))
    return {name: np.array(groups.pop()) for name, groups in found.items() if len(groups) == 1}


def contact_measures(contacts: Any, coalitions: Mapping[str, I64]) -> list[Measured]:
    """Return measure, node ids and values of every node's position among its contacts.

    Parameters
    ----------
    contacts : scipy.sparse.csr_array, shape (n_nodes, n_nodes)
    coalitions : mapping of str to ndarray of int64
        Members by observer.

    Returns
    -------
    list of (str, ndarray of int64, ndarray)
        Empty if no node has received anything; without pagerank and paths if contacts are denser than
        :data:`DENSEST`.
    """
    n = contacts.shape[0]
    if not contacts.nnz:
        return []
    nodes = np.arange(n)
    found = {
        "in_contacts": np.bincount(contacts.indices, minlength=n),
        "out_contacts": np.diff(contacts.indptr),
        "received": contacts.sum(axis=0),
    }
    if contacts.nnz <= DENSEST * n * (n - 1):
        from gossiprec.network.graphs.centrality import (  # here: networkx takes 0.3 s
            betweenness,
            hops_to,
            pagerank,
        )

        found |= {"pagerank": pagerank(contacts), "betweenness": betweenness(contacts)}
        for observer, members in coalitions.items():
            hops = hops_to(contacts, members)
            found[f"distance[{observer}]"] = np.where(np.isinf(hops), np.nan, hops)
    return [(name, nodes, values) for name, values in found.items()]
