"""The acceptance targets of ``targets.yaml``, each reached or not, with evidence for those that are missed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from analysis.cda_paper.experiments import STUDY
from analysis.cda_paper.measures import (
    RULES,
    AttackNumber,
    RunNumber,
    combine,
    format_mean_number,
    read_number,
    summary_number,
)
from analysis.cda_paper.plan import selectable_names
from analysis.papers.verdict import NOT_MEASURED, Runs

REACHED, NOT_REACHED = "reached", "not reached"


@dataclass(frozen=True)
class AcceptanceTarget:
    """A number and its target range."""

    label: str
    measure: RunNumber
    low: float = -np.inf
    high: float = np.inf
    unit: str = ""


@dataclass(frozen=True)
class TargetResult:
    """The result of a target: the target range, the number found, the verdict and the evidence."""

    label: str
    wanted: str
    found: str
    verdict: str
    evidence: str = ""


def judge_targets(runs: Runs) -> list[TargetResult]:
    """Return the result of each target."""
    totals = (_time_of_tables if "select" in one else _total for one in _plan()["totals"])
    found = [judge(one, runs) for judge, one in zip(totals, _plan()["totals"], strict=True)]
    return [*(_judged(target, runs) for target in acceptance_targets()), *found]


def acceptance_targets() -> list[AcceptanceTarget]:
    """Return the targets that depend on one measure."""
    return [
        AcceptanceTarget(
            one["label"], read_number(one["number"]), one["range"][0], one["range"][1], one.get("unit", "")
        )
        for one in _plan()["targets"]
    ]


def _judged(target: AcceptanceTarget, runs: Runs) -> TargetResult:
    unit = f" {target.unit}" if target.unit else ""
    if np.isinf(target.low):
        wanted = f"at most {target.high:.3g}{unit}"
    elif np.isinf(target.high):
        wanted = f"at least {target.low:.2g}{unit}"
    else:
        wanted = f"{target.low:.1f} to {target.high:.1f}{unit}"
    value = target.measure.mean(runs)
    if not np.isfinite(value):
        return TargetResult(target.label, wanted, "", NOT_MEASURED)
    found = format_mean_number(target.measure, runs, digits=1 if target.unit else 2) + unit
    if target.low <= value <= target.high:
        return TargetResult(target.label, wanted, found, REACHED)
    return TargetResult(target.label, wanted, found, NOT_REACHED, _evidence(target.measure, runs))


def _evidence(measure: RunNumber, runs: Runs) -> str:
    """Return further results of an attack that misses its target."""
    if not isinstance(measure, AttackNumber) or measure.quantity != "max_aac":
        return ""
    others = {rule: measure.mean(runs, rule) for rule in RULES[1:]}
    parts = [f"{value:.1f} % under {rule}" for rule, value in others.items() if np.isfinite(value)]
    best_round, last, bound = (
        measure.of(name).mean(runs) for name in ("at_round", "last_aac", "upper_bound")
    )
    parts.append(f"best at round {best_round / 100:.0f}")  # a round, not a percentage
    return "; ".join([*parts, f"{last:.1f} % at the end", f"upper bound {bound:.1f} %"])


def _time_of_tables(target: Mapping[str, Any], runs: Runs) -> TargetResult:
    """Judge the time on two cores of all selected experiments, from the thread time of each run."""
    minutes, missing = 0.0, []
    for name in selectable_names()[target["select"]]:
        n_seeds = STUDY.experiments[name].get("seeds", 1)
        threads = combine(
            summary_number(name, "wall_seconds"), summary_number(name, "threads"), lambda wall, n: wall * n
        )
        known = [value for seed, value in threads.per_seed(runs).items() if seed <= n_seeds]
        minutes += sum(known) / 120
        if len(known) < n_seeds:
            missing.append(name)
    return _within_limit(target, minutes or None, missing, "without all runs of")


def _total(target: Mapping[str, Any], runs: Runs) -> TargetResult:
    """Judge the total time, or the largest memory, of the first seeds of some experiments."""
    key, per = ("wall_seconds", 60.0) if target["unit"] == "min" else ("peak_rss_mib", 1024.0)
    found = {name: summary_number(name, key).per_seed(runs).get(1) for name in target["experiments"]}
    known = [value / per for value in found.values() if value is not None]
    value = (sum if target["unit"] == "min" else max)(known) if known else None
    return _within_limit(target, value, [name for name, one in found.items() if one is None], "without")


def _within_limit(
    target: Mapping[str, Any], value: float | None, missing: Iterable[str], words: str
) -> TargetResult:
    """Return the result of an upper limit; without some runs it can be missed but not reached."""
    unit, missing = target["unit"], list(missing)
    wanted = f"at most {target['most']:g} {unit}"
    if value is None:
        return TargetResult(target["label"], wanted, "", NOT_MEASURED)
    verdict = NOT_REACHED if value > target["most"] else NOT_MEASURED if missing else REACHED
    evidence = f"{words} {', '.join(missing)}" if missing else ""
    return TargetResult(target["label"], wanted, f"{value:.1f} {unit}", verdict, evidence)


@cache
def _plan() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(
        Path(__file__).with_name("targets.yaml").read_text(encoding="utf-8")
    )
    return found
