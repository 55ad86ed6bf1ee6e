"""Vectors of users by a version of a sequence model: the state after the whole history of each user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gossiprec.base.arrays import F32, I32
from gossiprec.base.ragged import Ragged
from gossiprec.models.base import BlockRole, Layout
from gossiprec.models.base.analytic_gradients import SequenceGradient, has_own_states
from gossiprec.models.base.sequence_model import SequenceModel
from gossiprec.models.feeds.lists import pad_row
from gossiprec.numerics.torch_threads import single_torch_thread
from gossiprec.rules.servers.base import ALONE, ThreadPoolLike

AT_ONCE = 16
"""Number of users per block, always the same: the last user is repeated in the last block."""


def compute_user_vectors(
    model: SequenceModel, layout: Layout, version: F32, histories: Sequence[I32], users: F32,
    threads: ThreadPoolLike = ALONE,
) -> F32:  # fmt: skip
    """Return the vector of each user, shape (n, d); its bytes do not depend on the other users.

    Parameters
    ----------
    model : SequenceModel
    layout : Layout
        Of whole models.
    version : ndarray of float32, shape (n_columns,)
        ``[items | shared]``.
    histories : sequence of ndarray of int32
        The items that each user has taken, in the order of time.
    users : ndarray of float32, shape (n, user_width)
        Rows of users, for models that have such rows.
    threads : ThreadPoolLike
        Threads for compiled code; other models run on one thread.
    """
    gradient = model.sequence_gradient() if has_own_states(model) else None
    if gradient is not None:
        return _read(gradient, layout, version, histories, threads)
    return _looked_at(model, layout, version, histories, users)


def _read(
    gradient: SequenceGradient,
    layout: Layout,
    version: F32,
    histories: Sequence[I32],
    threads: ThreadPoolLike,
) -> F32:
    """Return the vectors by compiled code, for models without rows of users."""
    found = np.empty((len(histories), vector_dim(layout)), np.float32)
    table, weights = item_table(layout, version), version[len(version) - layout.n_shared :]

    def read(part: int) -> None:
        for state, history in zip(found[part :: threads.size], histories[part :: threads.size], strict=True):
            gradient.read(weights, table, np.asarray(history, np.int32), gradient.shape, state)

    threads.run(read)
    return found


def _looked_at(
    model: SequenceModel, layout: Layout, version: F32, histories: Sequence[I32], users: F32
) -> F32:
    """Return the vectors by tensors, several users together."""
    import torch

    tables = layout.version_tables(torch.from_numpy(np.require(version, requirements=["C", "W"])))
    rows = [pad_row(history) for history in histories]
    widths = np.array([row.shape[1] for row in rows])
    parts = [
        some[low : low + AT_ONCE]
        for some in (np.flatnonzero(widths == width) for width in np.unique(widths).tolist())
        for low in range(0, len(some), AT_ONCE)
    ]
    found = np.empty((len(rows), vector_dim(layout)), np.float32)
    with torch.no_grad(), single_torch_thread():
        for part in parts:
            each = part[np.minimum(np.arange(AT_ONCE), len(part) - 1)]
            own = {"users": torch.from_numpy(users[each])} if layout.user_width else {}
            history = torch.from_numpy(np.concatenate([rows[k] for k in each]).astype(np.int64))
            states = model.state_after(layout.named({**own, **tables}), history, torch.arange(AT_ONCE))
            found[part] = states.numpy()[: len(part)]
    return found


def item_table(layout: Layout, version: F32) -> F32:
    """Return the item rows that states are multiplied with, a view of the version, shape (n_items, d)."""
    table, at = layout.version_tables(version)["items"], 0  # a table of all blocks of items
    for block in layout.of(BlockRole.ITEM):
        if block.name == "items":
            break
        at += block.width
    rows: F32 = table[:, at : at + vector_dim(layout)]
    return rows


def vector_dim(layout: Layout) -> int:
    """Return the width of users' vectors, which is the width of items' rows."""
    return next(block.width for block in layout.blocks if block.name == "items")


def set_mean_matrix(sets: Ragged, n_items: int) -> Any:
    """Return the matrix that turns values of items into the mean over each set, sparse, shape (n_sets, n_items)."""
    from scipy import sparse

    share = np.repeat(1.0 / np.maximum(sets.sizes, 1), sets.sizes).astype(np.float32)
    return sparse.csr_array((share, sets.values, sets.offsets), shape=(len(sets), n_items))
