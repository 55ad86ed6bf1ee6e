"""Values of nodes: by measure, means over similar positions, and contacts over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F64, I64
from gossiprec.base.errors import LogError
from gossiprec.base.rounding import paired_differences
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


def predicted_fraction_met(views: npt.ArrayLike, *, n_nodes: int, view_size: int) -> F64:
    """Return the expected fraction of other nodes met, ``1 - exp(-P V / (N - 1))``.

    Parameters
    ----------
    views : array_like
        V, the number of uniform views drawn by each node so far (fractions are averages over nodes).
    n_nodes : int
        N.
    view_size : int
        P, the number of peers in a view that are sent to.

    Notes
    -----
    Each of V views of another node holds this node with probability P/(N - 1); the exponential replaces
    ``(1 - P/(N - 1)) ** V``.
    """
    return np.asarray(-np.expm1(-view_size * np.asarray(views, dtype=np.float64) / (n_nodes - 1)))


FOLD_PAIRS = 2**16
"""Messages of new pairs that are kept, at least, before they are sorted among the known pairs."""


def first_contact_times(parts: Iterable[Mapping[str, npt.NDArray[Any]]]) -> tuple[F64, I64, I64]:
    """Return the time of each receiver's first message from each of its senders.

    Memory grows with the number of pairs, not of messages.

    Parameters
    ----------
    parts : iterable of mapping
        Receptions, in any order, piece by piece: ``time``, ``sender`` and ``receiver``, each of shape (n_messages,).

    Returns
    -------
    time : ndarray of float64, shape (n_pairs,)
        Ascending.
    receiver, sender : ndarray of int64, shape (n_pairs,)
        The node that met a new sender at that time, and the sender.
    """
    pairs, first = np.zeros(0, np.int64), np.zeros(0)
    held: list[tuple[I64, F64]] = []
    for part in parts:
        pair = part["receiver"].astype(np.int64) << 32 | part["sender"]
        place = np.minimum(np.searchsorted(pairs, pair), max(len(pairs) - 1, 0))
        new = part["time"] < first[place] if len(pairs) else np.ones(len(pair), np.bool_)
        if len(pairs):
            new |= pairs[place] != pair
        held.append((pair[new], part["time"][new]))
        if sum(len(each) for each, _ in held) >= max(FOLD_PAIRS, len(pairs)):
            pairs, first = _earliest((pairs, first), *held)
            held = []
    pairs, first = _earliest((pairs, first), *held)
    order = np.argsort(first, kind="stable")
    return first[order], pairs[order] >> 32, pairs[order] & (2**32 - 1)


def _earliest(*parts: tuple[I64, F64]) -> tuple[I64, F64]:
    """Return the pairs, ascending and once each, and the earliest time of each."""
    pair, time = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.lexsort((time, pair))
    pair, time = pair[order], time[order]
    kept = np.diff(pair, prepend=-1) != 0
    return pair[kept], time[kept]


def fraction_met_at(time: F64, receiver: I64, *, at: F64, n_nodes: int) -> F64:
    """Return the fraction of the other nodes that each node has met at given times.

    Parameters
    ----------
    time, receiver : ndarray, shape (n_pairs,)
        From :func:`first_contact_times`.
    at : ndarray of float64, shape (n_times,)
        Ascending; a contact counts from its own time on.
    n_nodes : int

    Returns
    -------
    ndarray of float64, shape (n_times, n_nodes)
    """
    slot = np.searchsorted(at, time, side="left")
    counts = np.bincount(slot * n_nodes + receiver, minlength=(at.size + 1) * n_nodes)
    met = np.cumsum(counts.reshape(at.size + 1, n_nodes)[:-1], axis=0)
    return np.asarray(met / (n_nodes - 1), dtype=np.float64)
