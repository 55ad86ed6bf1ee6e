"""Models that an adversary trains for itself, by the run's own recipe."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gossiprec.attacks.base import F32
from gossiprec.compute.arena import Arena
from gossiprec.compute.executors.base import Executor, Workload
from gossiprec.compute.program import Program
from gossiprec.compute.training import LocalData, Moves
from gossiprec.compute.treatment import Treatment
from gossiprec.ragged import Ragged


def private_model(
    work: Workload,
    positives: npt.NDArray[np.int32],
    start: F32,
    *,
    updates: int,
    seed: int,
    kind: type[Executor],
    moves: Moves | None = None,
) -> F32:
    """Return a model trained on some items, as a node with these positives would train it.

    Parameters
    ----------
    work : Workload
        Of the run: its model and training settings are used, its arena is not touched.
    positives : ndarray of int32
    start : ndarray of float32, shape (>= size,)
        First version, in the layout of a node that holds its own user row alone.
    updates : int
        Local updates.
    seed : int
        Of negatives and orders.
    kind : type of Executor
    moves : Moves, optional
        For models that train on moves: those of node 0, between its positives.

    Returns
    -------
    ndarray of float32, shape (row_size,)
    """
    layout = replace(work.layout, n_users=1)
    arena = Arena(layout, n_nodes=1, capacity=1, moments=work.training.optimizer == "adam")
    arena.rows[0, : layout.size] = start[: layout.size]
    items = np.sort(positives).astype(np.int64)
    data = LocalData(Ragged.sets(np.zeros(len(items), np.int64), items, 1), layout.n_items, moves)
    alone = replace(work, layout=layout, data=data, arena=arena, seed=seed, treatment=Treatment.none(1))
    executor = kind(alone, "cpu")
    for update in range(updates):
        executor.run(_one_update(update), np.zeros(1, np.int64))
    trained: F32 = arena.rows[0]
    return trained


def _one_update(update: int) -> Program:
    """Return the program in which node 0 trains once, in place."""
    node, none = np.zeros(1, np.int32), np.zeros(0, np.int32)
    return Program(
        node=node,
        source=node,
        target=node,
        update=np.array([update], np.int32),
        merge_offsets=np.zeros(2, np.int64),
        merge_row=none,
        merge_keep=np.zeros(0, np.float32),
        merge_message=none,
    )
