"""Values of nodes: by measure, means over similar positions, and contacts over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.base.errors import LogError
from gossiprec.base.rounding import paired_differences
from gossiprec.figures.contact_times import first_contact_times, fraction_met_at, predicted_fraction_met
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
    equal = paired_differences(position, 0.0)
    levels, place = np.unique(equal, return_inverse=True)
    if len(levels) > most:
        rank = np.searchsorted(np.sort(equal), levels, side="left")
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


N_POINTS = 201
BAND = (10, 90)


class ContactCurve(NamedTuple):
    """Fractions of the other nodes met, at some times of one run; each of shape (n_times,).

    `views` is the mean number of views that a node has drawn; it and `predicted` are NaN if the log has no views.
    `low` and `high` are the 10th and 90th percentile over nodes.
    """

    time: F64
    views: F64
    mean: F64
    low: F64
    high: F64
    predicted: F64


def contact_curve(run: Run, *, n_points: int = N_POINTS) -> ContactCurve:
    """Return the contact curve of a run at `n_points` times from its start to its last message.

    Raises
    ------
    LogError
        If the run logged no message.
    """
    span = run.log.time_span("message")
    if span is None:
        raise LogError(f"no message was delivered in {run.path}: so there is no exposure to draw")
    time, receiver, sender = first_contact_times(run.log.iter_event_blocks("message"))
    n_nodes = count_data_nodes(run, 1 + int(max(sender.max(), receiver.max())))
    between = np.maximum(sender, receiver) < n_nodes
    if not between.any():
        raise LogError(
            f"in {run.path} nodes receive models only from the coordinator, so there are no contacts to draw"
        )
    at = np.linspace(0.0, span[1], n_points)
    met = fraction_met_at(time[between], receiver[between], at=at, n_nodes=n_nodes)
    low, high = np.percentile(met, BAND, axis=1)
    views, view_size = _views(run, at, n_nodes)
    predicted = predicted_fraction_met(views, n_nodes=n_nodes, view_size=view_size)
    return ContactCurve(at, views, met.mean(axis=1), low, high, predicted)


def count_data_nodes(run: Run, seen: int) -> int:
    """Return the number of nodes with data, from the summary or the `seen` ids; a coordinator is not counted."""
    summary = run.summary or {}
    return (
        int(summary["coordinator"]) if "coordinator" in summary else max(seen, int(summary.get("nodes", 0)))
    )


def _views(run: Run, at: F64, n_nodes: int) -> tuple[F64, int]:
    """Return the mean number of views drawn by each time, and the number of peers per view that are sent to."""
    try:
        peers = next(column for column in run.log.schema["view"].columns if column.name == "peers")
    except LogError:  # a protocol without views logs none, so nothing can be predicted
        return np.full(at.size, np.nan), 0
    size = int(peers.size or 1)
    drawn = np.zeros(at.size, np.int64)
    for part in run.log.iter_event_blocks("view"):
        drawn += np.searchsorted(np.sort(part["time"]), at, side="right")
    return drawn / n_nodes, min(size, int(run.scenario.get("protocol", {}).get("fanout", size)))
