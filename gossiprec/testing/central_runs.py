"""Claims about runs in which a coordinator that holds all data trains a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.emulation import PreparedRun
from gossiprec.testing.tiny_runs import CENTRAL, current_models, run_to_end


def a_coordinator_trains_it(run: Mapping[str, Any]) -> None:
    """Be trained on the samples of all users: to finite numbers, byte-identical for any number of threads."""
    first, begin = _ended(run, threads=1)
    again, _ = _ended(run, threads=2)
    assert np.isfinite(first).all(), "The model has become numbers that are none."
    assert (first != begin).any(), "The model has not moved."
    assert first.tobytes() == again.tobytes(), "Bytes depend on threads."


def executors_score_it_alike(run: Mapping[str, Any]) -> None:
    """Get the same scores, for all users, from every executor that supports a coordinator's run."""
    plain, batched = (
        _scores(run_to_end({**run, "protocol": CENTRAL}, name=name)[0]) for name in ("reference", "batched")
    )
    np.testing.assert_allclose(batched, plain, rtol=1e-4, atol=1e-5)


CLAIMS = (a_coordinator_trains_it, executors_score_it_alike)


def _ended(run: Mapping[str, Any], threads: int) -> tuple[F64, F64]:
    prepared, begin = run_to_end({**run, "protocol": CENTRAL}, threads=threads)
    return current_models(prepared), begin


def _scores(prepared: PreparedRun) -> F64:
    users = np.arange(prepared.split.n_users)
    models = prepared.executor.store.readable(prepared.planner.current, users)
    contexts = prepared.executor.work.feed.before_next(prepared.split)
    return prepared.executor.score_all(models, contexts, prepared.threads).astype(np.float64)
