"""How the compiled executor calls the kernels of PRME-G."""

from __future__ import annotations

from typing import Any

import numpy as np

from gossiprec.arrays import F32, I32, I64
from gossiprec.compute.executors.base import Workload
from gossiprec.compute.plan.program import Program
from gossiprec.models.base import Layout
from gossiprec.models.prme_g import kernels as prme
from gossiprec.models.prme_g.model import PRMEG, PRMEGOptions

_NOWHERE = np.zeros((0, 3), np.float32)
_UNKNOWN = np.zeros(0, np.int32)


def run(work: Workload, program: Program, tasks: I64) -> None:
    """Run `tasks` of one wave."""
    training, moves, options, places = work.training, work.data.moves, _options(work), _places(work)
    if moves is None or places is None:
        raise ValueError("prme-g trains on moves between places, but the workload has none")
    prme.run_tasks(
        tasks, program.node, program.source, program.target, program.update, program.merge_offsets,
        program.merge_row, program.merge_keep, program.merge_message, flat(work.arena.rows),
        work.layout.row_size, work.arena.steps, moves.offsets, moves.items, moves.previous, work.data.member, places,
        work.layout.n_items, work.layout.n_users, training.negatives, training.batch_size or 0,
        training.local_epochs, training.learning_rate, options.alpha, options.l2, options.loss_reduction == "mean",
        np.uint64(work.seed), (0,) * options.dim, program.refused, work.node_settings.drift_penalty,
    )  # fmt: skip


def scores(
    work: Workload,
    layout: Layout,
    rows: F32,
    row: I64,
    user: I64,
    offsets: I64,
    items: I32,
    contexts: I32 | None,
    places: F32 | None,
) -> F32:
    """Return predicted scores (see the base class of executors)."""
    out = np.empty(len(items), np.float32)
    where = _places(work) if places is None else places
    if contexts is not None and where is None:
        raise ValueError("scores after a visit need places")
    options = _options(work)
    prme.score_items(
        flat(np.ascontiguousarray(rows)), rows.shape[1], row, user, offsets, items,
        _UNKNOWN if contexts is None else contexts, _NOWHERE if where is None else where, layout.n_users,
        options.alpha, (0,) * options.dim, out,
    )  # fmt: skip
    return out


def flat(rows: Any) -> Any:
    """Return rows as one flat array, float16 as its bits."""
    flat = rows.reshape(-1)
    return flat.view(np.uint16) if rows.dtype == np.float16 else flat


def _options(work: Workload) -> PRMEGOptions:
    options: PRMEGOptions = work.model.options
    return options


def _places(work: Workload) -> F32 | None:
    return work.model.places if isinstance(work.model, PRMEG) else None
