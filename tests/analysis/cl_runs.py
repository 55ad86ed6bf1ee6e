"""Runs of a comparison with every number chosen by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gossiprec.runs import Run, RunDirectory, open_run

RECALL, NDCG, POPULAR = "recall@20", "full_ndcg@20", "recall@20[popularity]"


def write_run(
    path: Path,
    curves: Mapping[str, Sequence[float]],
    *,
    seed: int = 1,
    version: Mapping[str, Any] | None = None,
    summary: Mapping[str, Any] | None = None,
) -> Run:
    """Write a run whose metrics have these values at epochs 1, 2, ..."""
    directory = RunDirectory.create(path, scenario={"name": path.name}, seed=seed)
    length = max(map(len, curves.values()))
    for epoch in range(1, length + 1):
        directory.metrics.append(
            {"time": float(epoch), "round": epoch, "metric": name, "value": values[epoch - 1]}
            for name, values in curves.items()
            if epoch <= len(values)
        )
    if version is not None:
        directory.write_version({name: np.asarray(array) for name, array in version.items()})
    told = {"nodes": 6040, "items": 3706, "interactions": 1000209, "wall_seconds": 90.0}
    directory.write_summary(told | dict(summary or {}))
    directory.finish("complete")
    return open_run(path)


def runs_of(
    folder: Path, told: Mapping[str, Sequence[Mapping[str, Sequence[float]]]], **more: Any
) -> dict[str, dict[int, Run]]:
    """Return runs by experiment and seed: for each experiment the curves of seeds 1, 2, ..."""
    return {
        name: {
            seed: write_run(folder / f"{name}-s{seed}", curves, seed=seed, **more)
            for seed, curves in enumerate(seeds, start=1)
        }
        for name, seeds in told.items()
    }


def level(recall: float, seeds: int = 3, **more: Sequence[float]) -> list[dict[str, Sequence[float]]]:
    """Return curves that rise to a recall by epoch 2, a little higher with each seed; NDCG is twice as high."""
    return [
        {
            RECALL: [0.5 * recall, recall + 0.0001 * seed],
            NDCG: [recall, 2 * recall + 0.0001 * seed],
            POPULAR: [0.0175] * 2,
            "full_ndcg@20[popularity]": [0.0284] * 2,
            "recall@20[random]": [0.005] * 2,
            "full_ndcg@20[random]": [0.006] * 2,
            **more,
        }
        for seed in range(seeds)
    ]
