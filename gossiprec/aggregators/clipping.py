"""Clipping changes: no row of an item is longer than a bound, nor the shared weights of a client as one vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gossiprec.aggregators.base import Change, Inbox
from gossiprec.arrays import F32, F64


def finite_only(inbox: Inbox) -> Inbox:
    """Return an inbox without the changes in which a number is not finite."""
    assert inbox.changes is not None
    changes = [change for change in inbox.changes if change.is_finite]
    kept = inbox.is_finite
    return replace(inbox, places=inbox.places[kept], weights=inbox.weights[kept], changes=changes)


def norms(changes: Sequence[Change]) -> tuple[F64, F64]:
    """Return the Euclidean norms of all rows, and of all clients' shared weights."""
    rows = [lengths(change.rows) for change in changes]
    return np.concatenate(rows), np.concatenate([lengths(change.shared[None]) for change in changes])


def lengths(rows: F32) -> F64:
    """Return the Euclidean norm of each row, in double precision."""
    found: F64 = np.linalg.norm(rows.astype(np.float64), axis=1)
    return found


def clipped(inbox: Inbox, bound: float, shared_bound: float) -> Inbox:
    """Return an inbox in which rows and shared weights are scaled down to bounds."""
    assert inbox.changes is not None
    changes = [
        Change(change.items, clip(change.rows, bound), clip(change.shared[None], shared_bound)[0])
        for change in inbox.changes
    ]
    return replace(inbox, changes=changes)


def clip(rows: F32, bound: float) -> F32:
    """Return rows, scaled down where they are longer than the bound."""
    found = lengths(rows)
    scale = np.divide(bound, found, out=np.ones_like(found), where=found > bound)
    return (scale[:, None] * rows).astype(np.float32)
