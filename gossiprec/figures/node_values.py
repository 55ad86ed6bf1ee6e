"""Values of each node by measure, and means over nodes of similar position."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.base.errors import LogError
from gossiprec.runs import Run

ByNode = dict[int, float]

GROUPS = 8


@dataclass(frozen=True)
class NodeGroup:
    """Nodes with similar values of a measure: their mean position, and the mean of a quantity with its interval."""

    position: float
    mean: float
    low: float
    high: float
    nodes: int


def group_by_position(position: F64, value: F64, *, most: int = GROUPS) -> list[NodeGroup]:
    """Return means of a quantity over nodes of similar position, in ascending order.

    Parameters
    ----------
    position, value : ndarray of float64, shape (n,)
    most : int
        Limit on the number of groups. If positions have more distinct values, nodes are divided into this number of
        groups of about equal size; equal positions stay together.
    """
    levels, place = np.unique(position, return_inverse=True)
    if len(levels) > most:
        rank = np.searchsorted(np.sort(position), levels, side="left")
        group = np.unique(rank * most // len(position), return_inverse=True)[1][place]
    else:
        group = place
    found = []
    for number in range(int(group.max()) + 1):
        at, inside = position[group == number], value[group == number]
        error = 1.96 * inside.std(ddof=1) / np.sqrt(len(inside)) if len(inside) > 1 else float("nan")
        mean = float(inside.mean())
        found.append(NodeGroup(float(at.mean()), mean, mean - error, mean + error, len(inside)))
    return found


def values_by_node(run: Run) -> dict[str, ByNode]:
    """Return the values of the nodes of a run, by measure and node."""
    columns = run.positions
    if not columns or not len(columns["node"]):
        raise LogError(
            f"no positions in {run.path} ({run.manifest.get('status', 'status unknown')}): a run writes positions.csv "
            "at its end; run it again with this version of gossiprec"
        )
    found: dict[str, ByNode] = {}
    rows = zip(*(columns[name].tolist() for name in ("measure", "node", "value")), strict=True)
    for measure, node, value in rows:
        found.setdefault(measure, {})[node] = value
    return found
