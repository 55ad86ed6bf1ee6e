"""Claims: the orderings of ``claims.yaml``, judged by paired differences over seeds, and targets of ``targets.yaml``.

Both sides of a comparison are measured in runs of the same seed, with the same data and draws. The claim is held if
the 95 % interval of their mean difference is on the claimed side, and not held if it is on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.cda_paper import STUDY
from analysis.cda_paper.figures import selectable_names
from analysis.cda_paper.measures import (
    RULES,
    AttackNumber,
    FunctionNumber,
    RunNumber,
    combine_by_seed,
    format_mean_number,
    read_number,
    single_attack,
    summary_number,
    utility_number,
)
from analysis.papers.verdict import (
    NOT_MEASURED,
    ClaimVerdict,
    PerSeed,
    Runs,
    combine_verdicts,
    describe_margin,
    judge_margins,
)
from gossiprec.runs import Run

_MARGINS: dict[str, Callable[[float, float], float]] = {
    "larger": lambda first, second: first - second,
    "smaller": lambda first, second: second - first,
    "half": lambda first, second: 0.5 * abs(second) - abs(first),
}
"""Margin of a claim from both numbers of a seed; negative if the claim does not hold."""


@dataclass(frozen=True)
class ClaimComparison:
    """Two numbers, of which a claim says that the first is larger.

    Attributes
    ----------
    label : str
    first, second : RunNumber
    margin : callable
        Maps both numbers of a seed to the margin of the claim.
    """

    label: str
    first: RunNumber
    second: RunNumber
    margin: Callable[[float, float], float]

    def margins(self, runs: Runs) -> PerSeed:
        """Return the margin of the claim for each seed that both sides have."""
        return combine_by_seed(self.first, self.second, self.margin).values_by_seed(runs)


def judge_claims(runs: Runs) -> list[ClaimVerdict]:
    """Return the verdict on each claim."""
    return [_privacy(one, runs) if "dp" in one else _judged(one, runs) for one in STUDY.read("claims")]


def _judged(claim: Mapping[str, Any], runs: Runs) -> ClaimVerdict:
    evidence, verdicts = [], []
    for entry in claim["comparisons"]:
        one = _comparison(entry, _MARGINS[claim.get("margin", "larger")], runs)
        margins = one.margins(runs)
        verdicts.append(judge_margins(margins))
        if margins:
            words = claim["words"].format(
                first=format_mean_number(one.first, runs), second=format_mean_number(one.second, runs)
            )
            evidence.append(f"{one.label}: {words}; {describe_margin(margins)}")
        else:
            evidence.append(f"{one.label}: {NOT_MEASURED}")
    return ClaimVerdict(claim["claim"], combine_verdicts(verdicts), tuple(evidence))


def _comparison(
    entry: Mapping[str, Any], margin: Callable[[float, float], float], runs: Runs
) -> ClaimComparison:
    """Return a comparison; of several second numbers the largest is compared."""
    seconds = [read_number(spec) for spec in entry.get("best_second", [entry.get("second")])]
    second = max(seconds, key=lambda number: np.nan_to_num(number.mean_over_seeds(runs), nan=-1.0))
    return ClaimComparison(entry["label"], read_number(entry["first"]), second, margin)


def _privacy(claim: Mapping[str, Any], runs: Runs) -> ClaimVerdict:
    """Return the verdict on the utility of DP-SGD, interpolated in leakage, against Share less."""
    points = [name for name in claim["dp"] if name in runs]
    plain, less = claim["full_models"], claim["share_less"]
    if len(points) < 2 or less not in runs:
        reason = f"needs Share less and two points of DP-SGD; has {len(points)}"
        return ClaimVerdict(claim["claim"], NOT_MEASURED, (reason,))
    margins = FunctionNumber(
        (less, *points), lambda own, rule: _kept_more(own, rule, less, points)
    ).values_by_seed(runs)
    known = sorted(
        (single_attack(point).mean_over_seeds(runs), utility_number(point).mean_over_seeds(runs))
        for point in points
    )
    leak, kept = single_attack(less).mean_over_seeds(runs), utility_number(less).mean_over_seeds(runs)
    outside = not known[0][0] <= leak <= known[-1][0]
    evidence = (
        f"Share less: Max AAC {leak:.1f} %, HR@20 {kept:.1f} % (full models without DP: "
        f"{format_mean_number(single_attack(plain), runs)} %, {format_mean_number(utility_number(plain), runs)} %)",
        f"DP-SGD: HR@20 {float(np.interp(leak, *np.array(known).T)):.1f} % at the same leakage"
        + (" or the nearest that was measured" if outside else "")
        + f", between points of Max AAC {', '.join(f'{a:.1f}' for a, _ in known)} %; {describe_margin(margins)}",
    )
    return ClaimVerdict(claim["claim"], judge_margins(margins), evidence)


def _kept_more(own: Mapping[str, Run], rule: str, less: str, points: Sequence[str]) -> float | None:
    """Return the utility that Share less keeps beyond DP-SGD at equal leakage, in the runs of one seed."""
    sides = [
        (single_attack(name).value_of_runs(own, rule), utility_number(name).value_of_runs(own, rule))
        for name in (less, *points)
    ]
    known = [(leak, kept) for leak, kept in sides if leak is not None and kept is not None]
    if len(known) < len(sides):
        return None
    (leak, kept), *others = known
    return kept - float(np.interp(leak, *np.array(sorted(others)).T))


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
    totals = STUDY.read("targets")["totals"]
    return [
        *(_judged_target(target, runs) for target in acceptance_targets()),
        *(_time_of_tables(one, runs) if "select" in one else _total(one, runs) for one in totals),
    ]


def acceptance_targets() -> list[AcceptanceTarget]:
    """Return the targets that depend on one measure."""
    return [
        AcceptanceTarget(
            one["label"], read_number(one["number"]), one["range"][0], one["range"][1], one.get("unit", "")
        )
        for one in STUDY.read("targets")["targets"]
    ]


def _judged_target(target: AcceptanceTarget, runs: Runs) -> TargetResult:
    unit = f" {target.unit}" if target.unit else ""
    if np.isinf(target.low):
        wanted = f"up to {target.high:.3g}{unit}"
    elif np.isinf(target.high):
        wanted = f"at least {target.low:.2g}{unit}"
    else:
        wanted = f"{target.low:.1f} to {target.high:.1f}{unit}"
    value = target.measure.mean_over_seeds(runs)
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
    others = {rule: measure.mean_over_seeds(runs, rule) for rule in RULES[1:]}
    parts = [f"{value:.1f} % under {rule}" for rule, value in others.items() if np.isfinite(value)]
    best_round, last, bound = (
        measure.with_quantity(name).mean_over_seeds(runs) for name in ("at_round", "last_aac", "upper_bound")
    )
    parts.append(f"best at round {best_round / 100:.0f}")  # a round, not a percentage
    return "; ".join([*parts, f"{last:.1f} % at the end", f"upper bound {bound:.1f} %"])


def _time_of_tables(target: Mapping[str, Any], runs: Runs) -> TargetResult:
    """Judge the time on two cores of all selected experiments, from the thread time of each run."""
    minutes, missing = 0.0, []
    for name in selectable_names()[target["select"]]:
        n_seeds = STUDY.experiments[name].get("seeds", 1)
        threads = combine_by_seed(
            summary_number(name, "wall_seconds"), summary_number(name, "threads"), lambda wall, n: wall * n
        )
        known = [value for seed, value in threads.values_by_seed(runs).items() if seed <= n_seeds]
        minutes += sum(known) / 120
        if len(known) < n_seeds:
            missing.append(name)
    return _within_limit(target, minutes or None, missing, "without all runs of")


def _total(target: Mapping[str, Any], runs: Runs) -> TargetResult:
    """Judge the total time, or the largest memory, of the first seeds of some experiments."""
    key, per = ("wall_seconds", 60.0) if target["unit"] == "min" else ("peak_rss_mib", 1024.0)
    found = {name: summary_number(name, key).values_by_seed(runs).get(1) for name in target["experiments"]}
    known = [value / per for value in found.values() if value is not None]
    value = (sum if target["unit"] == "min" else max)(known) if known else None
    return _within_limit(target, value, [name for name, one in found.items() if one is None], "without")


def _within_limit(
    target: Mapping[str, Any], value: float | None, missing: Iterable[str], words: str
) -> TargetResult:
    """Return the result of an upper limit; without some runs it can be missed but not reached."""
    unit, missing = target["unit"], list(missing)
    wanted = f"up to {target['most']:g} {unit}"
    if value is None:
        return TargetResult(target["label"], wanted, "", NOT_MEASURED)
    verdict = NOT_REACHED if value > target["most"] else NOT_MEASURED if missing else REACHED
    evidence = f"{words} {', '.join(missing)}" if missing else ""
    return TargetResult(target["label"], wanted, f"{value:.1f} {unit}", verdict, evidence)
