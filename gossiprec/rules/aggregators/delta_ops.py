"""Operations on the deltas of an inbox: norms, clipping of item rows and of shared weights, and weighted sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np

from gossiprec.base.arrays import F32, F64, I32
from gossiprec.native.loop_jit import jit_cached
from gossiprec.rules.aggregators.base import Inbox, ModelDelta


def drop_nonfinite(inbox: Inbox) -> Inbox:
    """Return an inbox without the deltas that have a non-finite value."""
    assert inbox.deltas is not None
    changes = [change for change in inbox.deltas if change.is_finite]
    kept = inbox.is_finite
    return replace(inbox, row_index=inbox.row_index[kept], weights=inbox.weights[kept], deltas=changes)


def delta_norms(changes: Sequence[ModelDelta]) -> tuple[F64, F64]:
    """Return the Euclidean norms of all rows, and of all clients' shared weights."""
    rows = [row_norms(change.rows) for change in changes]
    return np.concatenate(rows), np.concatenate([row_norms(change.shared[None]) for change in changes])


def row_norms(rows: F32) -> F64:
    """Return the Euclidean norm of each row, in double precision."""
    found: F64 = np.linalg.norm(rows.astype(np.float64), axis=1)
    return found


def clip_inbox(inbox: Inbox, bound: float, shared_bound: float) -> Inbox:
    """Return an inbox in which rows and shared weights are scaled down to bounds."""
    assert inbox.deltas is not None
    changes = [
        ModelDelta(
            change.items, clip_rows(change.rows, bound), clip_rows(change.shared[None], shared_bound)[0]
        )
        for change in inbox.deltas
    ]
    return replace(inbox, deltas=changes)


def clip_rows(rows: F32, bound: float) -> F32:
    """Return rows, scaled down if they are longer than the bound."""
    found = row_norms(rows)
    scale = np.divide(bound, found, out=np.ones_like(found), where=found > bound)
    return (scale[:, None] * rows).astype(np.float32)


How: TypeAlias = Literal["touched-mean", "mean", "sum"]
"""The mean over the clients that touched an item, the mean over all (others count as zero), or the sum."""


@runtime_checkable
class SummableDeltas(Protocol):
    """Deltas that are summed without being materialised one by one."""

    def summed(self, weights: F64, /) -> tuple[F64, F64, F64]:
        """Return the weighted sum of each item's rows, the weight of its clients, and the sum of shared weights.

        The shapes are (n_items, item_width), (n_items,) and (n_shared,).
        """


def add_deltas(own: F32, inbox: Inbox, how: How) -> F32:
    """Return a model with the deltas of an inbox added; only means use weights."""
    assert inbox.deltas is not None
    weights = np.ones(len(inbox)) if how == "sum" else inbox.weights
    total, mass, shared = (
        inbox.deltas.summed(weights)
        if isinstance(inbox.deltas, SummableDeltas)
        else _summed(inbox.deltas, weights, len(own))
    )
    if how == "touched-mean":
        total /= np.where(mass > 0, mass, 1.0)[:, None]
    elif how == "mean":
        total /= weights.sum()
    if how != "sum":
        shared /= weights.sum()
    found = np.empty_like(own)
    found[: total.size] = own[: total.size] + total.ravel()  # in double precision, then rounded
    found[total.size :] = own[total.size :] + shared
    return found


def _summed(changes: Sequence[ModelDelta], weights: F64, n_columns: int) -> tuple[F64, F64, F64]:
    """Return the result of :meth:`SummableDeltas.summed` for a list of deltas."""
    width, n_shared = changes[0].rows.shape[1], len(changes[0].shared)
    n_items = (n_columns - n_shared) // max(width, 1)
    total, mass, shared = np.zeros((n_items, width)), np.zeros(n_items), np.zeros(n_shared)
    add_rows = jit_cached(_add_rows)
    for change, weight in zip(changes, weights, strict=True):
        add_rows(change.items, change.rows, weight, total, mass)
        shared += weight * change.shared
    return total, mass, shared


def _add_rows(items: I32, rows: F32, weight: float, total: F64, mass: F64) -> None:
    """Add weighted rows of some items to ``total``, and the weight to their ``mass``."""
    for place in range(len(items)):
        item = items[place]
        mass[item] += weight
        for column in range(rows.shape[1]):
            total[item, column] += weight * rows[place, column]
