"""Claims about runs of a model: every executor that can run it trains it, and shows it to observers, alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gossiprec.arrays import F32
from gossiprec.compute.executors import EXECUTORS
from gossiprec.emulation import Prepared
from gossiprec.models import MODELS
from gossiprec.scenario import load_scenario
from gossiprec.testing.worlds import WITHHELD, carried_out, models_of

OBSERVED = {"name": "cda", "community_size": 3, "reference_items": 8, "momentum": [0, 0.9]}
OBSERVERS = [
    {**OBSERVED, **who, "relevance": ["standardized", "mean_score"]}
    for who in ({"who": "single", "refit_every": 2}, {"who": "coalition", "members": [0, 1, 6]})
]
SAME = 1e-3
"""Of the way that all models have gone, a Frobenius norm: float32 rounding (6e-8) after some hundred steps."""
ALIKE = 5e-3
"""Of observers' scores, which divide what is left of the models by deviations that may be small."""


def executors_agree(run: Mapping[str, Any]) -> None:
    """Train alike in every executor that can, and be observed alike."""
    _compare(run, {"observers": OBSERVERS})


def executors_agree_where_user_rows_are_withheld(run: Mapping[str, Any]) -> None:
    """Train and be observed alike where some nodes keep their user row."""
    if MODELS[run["model"]["name"]](load_scenario(run).model.options).layout(1).user_width:
        _compare(run, {"observers": OBSERVERS, "policies": [WITHHELD]})


CLAIMS = (executors_agree, executors_agree_where_user_rows_are_withheld)


def _compare(run: Mapping[str, Any], sections: Mapping[str, Any]) -> None:
    expected, first = carried_out({**run, **sections}, name="reference", threads=2)
    models, scores = models_of(expected), _scores(expected)
    way = np.linalg.norm(models - first)
    assert 0 < way < np.inf, "The models have not moved, or have become numbers that are none."
    assert any(np.isfinite(part).any() for part in scores), "Nobody was observed."
    for name in EXECUTORS:
        if name == "reference" or _lacks(expected, name):
            continue
        found, _ = carried_out({**run, **sections}, name=name, threads=2)
        distance = np.linalg.norm(models_of(found) - models) / way
        assert distance < SAME, f"{name}: models end {distance:.2g} of their way off the reference's."
        for one, other in zip(scores, _scores(found), strict=True):
            np.testing.assert_allclose(
                other, one, rtol=ALIKE, atol=ALIKE, err_msg=f"{name}: observers' scores differ"
            )


def _lacks(prepared: Prepared, name: str) -> str | None:
    work = prepared.executor.work
    return EXECUTORS[name].lacks(work.model, work.training, work.arena.rows.dtype.name, work.node_settings)


def _scores(prepared: Prepared) -> list[F32]:
    return [ranking.scores for attack in prepared.attacks for ranking in attack.rankings()]
