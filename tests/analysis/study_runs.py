"""Runs of a study with every number chosen by hand, and a study whose folder holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from analysis.cda_paper.measures import RULES
from gossiprec.runs import Run, RunDirectory, open_run

RANDOM = 0.053


def line(
    observer: str,
    aac: float,
    *,
    momentum: float = 0.99,
    k: int = 50,
    relevance: str = "standardized",
    upper_bound: float = 1.0,
) -> dict[str, Any]:
    """Return one line of the attacks of ``summary.json``; accuracies are fractions."""
    return {
        "observer": observer,
        "relevance": relevance,
        "momentum": momentum,
        "community_size": k,
        "max_aac": aac,
        "at_round": 20,
        "last_aac": 0.9 * aac,
        "best10_min": min(1.0, 1.5 * aac),
        "best10_mean": min(1.0, 1.6 * aac),
        "upper_bound": upper_bound,
        "random_bound": RANDOM,
    }


def every_rule(observer: str, aac: float, **more: Any) -> list[dict[str, Any]]:
    """Return the lines of an attack under each relevance rule, the later ones a tenth weaker."""
    return [line(observer, aac * (1 - 0.1 * i), relevance=rule, **more) for i, rule in enumerate(RULES)]


def write_study_run(
    path: Path,
    attacks: Sequence[Mapping[str, Any]],
    *,
    scenario: Mapping[str, Any] | None = None,
    seed: int = 1,
    utility: float = 0.7,
    metric: str = "hr@20",
    status: str = "complete",
    **summary: Any,
) -> Run:
    """Write a run whose attacks reach their accuracy by round 20; its adversaries lie about the mean."""
    directory = RunDirectory.create(path, scenario=scenario or {"name": path.name}, seed=seed)
    for share, at in ((0.5, 10), (1.0, 20)):
        directory.attacks.append(_row(attack, at, share * attack["max_aac"]) for attack in attacks)
    directory.metrics.append([{"time": 20.0, "round": 20, "metric": metric, "value": utility}])
    if status == "complete":
        directory.write_adversaries(
            {
                _key(a): (np.arange(20), np.linspace(0.2, 1.8, 20).clip(0, 1 / a["max_aac"]) * a["max_aac"])
                for a in attacks
            }
        )
        directory.write_summary(
            {
                "nodes": 943,
                "items": 1682,
                "interactions": 100_000,
                "node_updates": 1000,
                "node_updates_per_second": 100.0,
                "wall_seconds": 60.0,
                "peak_rss_mib": 1024.0,
                "seconds": {"compute": 10.0, "compile": 0.0},
                "utility": {metric: utility},
                "attacks": list(attacks),
                **summary,
            }
        )
    directory.finish(status)
    return open_run(path)


def one_run(
    folder: Path, experiment: str, attacks: Sequence[Mapping[str, Any]], **more: Any
) -> dict[str, dict[int, Run]]:
    """Return one experiment's run in the form that measures read."""
    run = write_study_run(folder / f"{experiment}-s1", attacks, **more)
    return {experiment: {1: run}}


def some_runs(
    folder: Path, experiment: str, attacks: Sequence[Mapping[str, Any]], *, seeds: int = 3, **more: Any
) -> dict[str, dict[int, Run]]:
    """Return runs of several seeds whose attacks find a little more with each, so that pairs differ alike."""

    def found(seed: int) -> list[dict[str, Any]]:
        return [{**attack, "max_aac": attack["max_aac"] + 0.002 * seed} for attack in attacks]

    return {
        experiment: {
            seed: write_study_run(folder / f"{experiment}-s{seed}", found(seed), seed=seed, **more)
            for seed in range(1, seeds + 1)
        }
    }


def _row(attack: Mapping[str, Any], at: int, aac: float) -> dict[str, Any]:
    keys = ("observer", "relevance", "momentum", "community_size", "upper_bound", "random_bound")
    own = {key: attack[key] for key in keys}
    return {**own, "time": float(at), "round": at, "aac": aac, "best10_min": aac, "best10_mean": aac}


def _key(attack: Mapping[str, Any]) -> str:
    return f"{attack['observer']}/{attack['relevance']}/b{attack['momentum']:g}/k{attack['community_size']}"
