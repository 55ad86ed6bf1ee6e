"""Claims about runs of a model: all executors that support it give the same training and observations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gossiprec.base.arrays import F32
from gossiprec.base.errors import ScenarioError
from gossiprec.compute.executors import EXECUTORS
from gossiprec.emulation import PreparedRun, prepare
from gossiprec.models import MODELS
from gossiprec.scenario import load_scenario
from gossiprec.testing.tiny_runs import FEDERATED, WITHHELD, current_models, run_to_end

OBSERVED = {"name": "cda", "community_size": 3, "reference_items": 8, "momentum": [0, 0.9]}
OBSERVERS = [
    {**OBSERVED, **who, "relevance": ["standardized", "mean_score"]}
    for who in ({"who": "single", "refit_every": 2}, {"who": "coalition", "members": [0, 1, 6]})
]
SAME = 1e-3
"""Tolerance relative to all models' movement (Frobenius norm): float32 rounding (6e-8) over some hundred steps."""
ALIKE = 5e-3
"""Tolerance of observers' scores, which divide differences of models by deviations that may be small."""


VARIANTS: dict[str, dict[str, Any]] = {
    "rows of all users, two negatives": {
        "protocol": {**FEDERATED, "user_table": "averaged"},
        "training": {"negatives": 2},
    },
    "adam, full batches, two local epochs": {
        "training": {
            "optimizer": "adam", "learning_rate": 0.01, "batch_size": "full", "local_epochs": 2,
        },
    },
    "float16": {},
}  # fmt: skip
"""Sections of a scenario that kernels must compute or refuse."""
STORED = {"float16": {"storage": "float16"}}
COARSE = 0.05
"""Tolerance like :data:`SAME` for rows that are rounded to float16 at random."""


def executors_agree(run: Mapping[str, Any]) -> None:
    """Train equally in every executor that can, and be observed equally."""
    _compare(run, {"observers": OBSERVERS})


def executors_agree_where_user_rows_are_withheld(run: Mapping[str, Any]) -> None:
    """Train and be observed equally if some nodes withhold their user row."""
    if MODELS[run["model"]["name"]](load_scenario(run).model.options).layout(1).user_width:
        _compare(run, {"observers": OBSERVERS, "policies": [WITHHELD]})


def kernels_compute_what_they_do_not_refuse(run: Mapping[str, Any]) -> None:
    """Have kernels, if any, that run, and train as plain torch does in all that they do not say they lack."""
    if MODELS[run["model"]["name"]].kernels() is None:
        return
    lacking = [_lacks(prepare(load_scenario(dict(run))), "fused")]
    for about, sections in VARIANTS.items():
        training = {**run["training"], **sections.get("training", {})}
        varied = {**run, **sections, "training": training}
        try:
            expected, first = run_to_end(varied, name="reference", threads=2, **STORED.get(about, {}))
        except ScenarioError:  # an error of the model, not of the kernels
            continue
        lacks = _lacks(expected, "fused")
        if lacks is not None:
            lacking.append(lacks)
            continue
        found, _ = run_to_end(varied, name="fused", threads=2, **STORED.get(about, {}))
        models = current_models(expected)
        distance = np.linalg.norm(current_models(found) - models) / np.linalg.norm(models - first)
        most = COARSE if about in STORED else SAME
        assert distance < most, (
            f"With {about} kernels end {distance:.2g} of their way off the reference's; let lacks() name it."
        )
    assert lacking[0] is None or len(lacking) <= len(VARIANTS), (
        f"Its kernels never run: they lack {', '.join(dict.fromkeys(filter(None, lacking)))}."
    )


CLAIMS = (
    executors_agree,
    executors_agree_where_user_rows_are_withheld,
    kernels_compute_what_they_do_not_refuse,
)


def _compare(run: Mapping[str, Any], sections: Mapping[str, Any]) -> None:
    expected, first = run_to_end({**run, **sections}, name="reference", threads=2)
    models, scores = current_models(expected), _scores(expected)
    way = np.linalg.norm(models - first)
    assert 0 < way < np.inf, "The models have not moved, or have become numbers that are none."
    assert any(np.isfinite(part).any() for part in scores), "Nobody was observed."
    for name in EXECUTORS:
        if name == "reference" or _lacks(expected, name):
            continue
        found, _ = run_to_end({**run, **sections}, name=name, threads=2)
        distance = np.linalg.norm(current_models(found) - models) / way
        assert distance < SAME, f"{name}: models end {distance:.2g} of their way off the reference's."
        for one, other in zip(scores, _scores(found), strict=True):
            np.testing.assert_allclose(
                other, one, rtol=ALIKE, atol=ALIKE, err_msg=f"{name}: observers' scores differ"
            )


def _lacks(prepared: PreparedRun, name: str) -> str | None:
    work = prepared.executor.work
    storage = work.arena.rows.dtype.name
    return EXECUTORS[name].lacks(work.model, work.training, storage, work.node_settings, work.layout)


def _scores(prepared: PreparedRun) -> list[F32]:
    return [ranking.scores for attack in prepared.attacks for ranking in attack.rankings()]
