"""Fraction of the network that nodes have met over time: measured, and predicted for uniform views."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.base.errors import LogError
from gossiprec.measures.attack_accuracy import first_contact_times, fraction_met_at, predicted_fraction_met
from gossiprec.runs import Run
from gossiprec.runs.reader import Columns

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
    messages = run.events("message")
    if not messages["time"].size:
        raise LogError(f"no message was delivered in {run.path}: so there is no exposure to draw")
    n_nodes = count_nodes(run, messages)
    between = np.maximum(messages["sender"], messages["receiver"]) < n_nodes
    if not between.any():
        raise LogError(
            f"in {run.path} nodes receive models only from the coordinator, so there are no contacts to draw"
        )
    at = np.linspace(0.0, float(messages["time"].max()), n_points)
    meetings = first_contact_times(*(messages[column][between] for column in ("time", "sender", "receiver")))
    met = fraction_met_at(*meetings, at=at, n_nodes=n_nodes)
    low, high = np.percentile(met, BAND, axis=1)
    views, view_size = _views(run, at, n_nodes)
    predicted = predicted_fraction_met(views, n_nodes=n_nodes, view_size=view_size)
    return ContactCurve(at, views, met.mean(axis=1), low, high, predicted)


def count_nodes(run: Run, messages: Columns) -> int:
    """Return the number of nodes with data, from the summary or the highest id; a coordinator is not counted."""
    seen = 1 + max(int(messages["sender"].max()), int(messages["receiver"].max()))
    summary = run.summary or {}
    return (
        int(summary["coordinator"]) if "coordinator" in summary else max(seen, int(summary.get("nodes", 0)))
    )


def _views(run: Run, at: F64, n_nodes: int) -> tuple[F64, int]:
    """Return the mean number of views drawn by each time, and the number of peers per view that are sent to."""
    try:
        events = run.events("view")
    except LogError:  # a protocol without views logs none, so nothing can be predicted
        return np.full(at.size, np.nan), 0
    size = events["peers"].shape[1]
    drawn = np.searchsorted(np.sort(events["time"]), at, side="right") / n_nodes
    return drawn, min(size, int(run.scenario.get("protocol", {}).get("fanout", size)))
