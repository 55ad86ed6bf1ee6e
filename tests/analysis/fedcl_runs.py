"""Runs of the FedCL study with every number chosen by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analysis.fedcl import PAPER


def risen(hits: float, *, falls: bool = False, seeds: int = 3) -> list[dict[str, Sequence[float]]]:
    """Return curves whose HR@10 comes to a value by the second report and falls, or rises on by half of it."""
    factor = 0.5 if falls else 1.5
    found: list[dict[str, Sequence[float]]] = []
    for seed in range(seeds):
        top = hits + 0.0001 * seed
        own: dict[str, Sequence[float]] = {
            name: [0.5 * share * top, share * top, factor * share * top]
            for name, share in zip(PAPER.metrics.values(), (0.5, 1.0, 0.25, 0.4), strict=True)
        }
        own |= {f"{name}[popularity]": [0.011] * 3 for name in PAPER.metrics.values()}
        found.append({**own, PAPER.validation: [0.1, 0.3, 0.2 if falls else 0.4]})
    return found


def told(reidentified: float, cda: float, *, means: float = 0.02) -> dict[str, Any]:
    """Return what a summary tells of vectors that users told."""
    likeliest = {
        "reidentified": reidentified, "own_first": 0.002, "own_first_of_means": 0.004,
        "cda": cda, "cda_of_means": means,
    }  # fmt: skip
    guessed = {"reidentified": 0.001, "own_first": 0.001, "cda": 0.002}
    leaks = {"likeliest": likeliest, "random": guessed, "exact": {"cda": 0.2}}
    vectors = {"epsilon": 4.0, "clip": 1.0, "received_mean": 10.0, "received_max": 23, "leaks": leaks}
    return {"told_vectors": vectors, "privacy": {"epsilon_max": 92.0}}
