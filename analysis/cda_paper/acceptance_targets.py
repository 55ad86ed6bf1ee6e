"""The acceptance targets of the study, each reached or not, with evidence for those that are missed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from analysis.cda_paper import experiments as ex
from analysis.cda_paper.experiments import (
    AUTHORS100,
    FULL943,
    checkin_experiment,
    dp_experiment,
    experiments,
    observer_name,
)
from analysis.cda_paper.measures import (
    RULES,
    AttackNumber,
    RunNumber,
    attack_seconds,
    combine,
    format_mean_number,
    ratio_of,
    single_attack,
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
    return [*(_judged(target, runs) for target in acceptance_targets()), *_totals(runs)]


def acceptance_targets() -> list[AcceptanceTarget]:
    """Return the targets that depend on one measure."""
    none, speed = dp_experiment("rand-gossip", None), "local epochs/s"
    cost = "All 943 adversaries over the simulation without them, thread time"
    return [
        *_federated_targets(),
        *_gossip_targets(),
        AcceptanceTarget(
            f"Pers-Gossip over Rand-Gossip, {speed}", ratio_of(_pace(ex.ML_PERS), _pace(ex.ML_RAND)), 1 / 3
        ),
        AcceptanceTarget(
            f"DP-SGD over none, {speed}",
            ratio_of(_pace(dp_experiment("rand-gossip", 100)), _pace(none)),
            1 / 4,
        ),
        AcceptanceTarget(cost, _attack_share(none), high=0.5),
    ]


def _near(label: str, measure: RunNumber, value: float, by: float) -> AcceptanceTarget:
    return AcceptanceTarget(label, measure, value - by, value + by, "%")


def _federated_targets() -> list[AcceptanceTarget]:
    less = single_attack(ex.ML_FEDAVG_LESS)
    return [
        _near("Max AAC, FedAvg, full models", single_attack(ex.ML_FEDAVG), 57.4, 8),
        _near("Max AAC, FedAvg, Share less, own row, momentum 0", replace(less, momentum=0.0), 39.4, 8),
        _near("Max AAC, FedAvg, Share less, own row, momentum 0.99", less, 39.4, 8),
    ]


def _gossip_targets() -> list[AcceptanceTarget]:
    """Return the targets of Tables 5 to 8, in the setting of the published code and at full size."""
    found = []
    for setting, rand, pers, less, k in (
        (AUTHORS100, ex.AUTHORS_RAND, ex.AUTHORS_PERS, ex.AUTHORS_RAND_LESS, 5),
        (FULL943, ex.ML_RAND, ex.ML_PERS, ex.ML_RAND_LESS, 50),
    ):
        found += [
            _near(f"Max AAC, Rand-Gossip, {setting}", single_attack(rand, k), 14.6, 4),
            _near(f"Max AAC, Pers-Gossip, {setting}", single_attack(pers, k), 14.6, 5),
            _near(f"Upper bound, Rand-Gossip, {setting}", single_attack(rand, k, "upper_bound"), 81, 3),
            _near(f"Upper bound, Pers-Gossip, {setting}", single_attack(pers, k, "upper_bound"), 72, 4),
        ]
        for beta, by, values in ((0.99, 8, (24.8, 31, 45)), (0.0, 6, (18.4, 21.8, 17.6))):
            for share, value in zip((5, 10, 20), values, strict=True):
                attack = AttackNumber(rand, f"coalition-{share}%", beta, k)
                found.append(_near(f"{share} % colluders, momentum {beta:g}, {setting}", attack, value, by))
        for share in (5, 10, 20):
            label = f"Max AAC, Share less, row trained once, {share} % colluders, {setting}"
            found.append(
                AcceptanceTarget(
                    label, AttackNumber(less, observer_name("paper", f"{share}%"), k=k), 8, 20, "%"
                )
            )
    return found


def _pace(experiment: str) -> RunNumber:
    """Return the local epochs per second of the data plane, without compilation."""
    return ratio_of(
        summary_number(experiment, "node_updates"), summary_number(experiment, "seconds", "compute")
    )


def _attack_share(experiment: str) -> RunNumber:
    """Return the thread time of the attacks divided by all other thread time, without compilation."""
    wall, compiling = (
        summary_number(experiment, "wall_seconds"),
        summary_number(experiment, "seconds", "compile"),
    )
    running = combine(wall, compiling, lambda whole, part: whole - part)
    threads = combine(running, summary_number(experiment, "threads"), lambda seconds, count: seconds * count)
    return combine(
        attack_seconds(experiment, "cda-single"), threads, lambda part, whole: part / (whole - part)
    )


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
    at, last, bound = (measure.of(name).mean(runs) for name in ("at_round", "last_aac", "upper_bound"))
    parts.append(f"best at round {at / 100:.0f}")  # a round, not a percentage
    return "; ".join([*parts, f"{last:.1f} % at the end", f"upper bound {bound:.1f} %"])


def _totals(runs: Runs) -> list[TargetResult]:
    """Return the targets that are sums or maxima over experiments: first seeds, and all seeds of ``authors100``."""
    places = [
        checkin_experiment("foursquare", p, m) for p in ("fedavg", "rand-gossip") for m in ("gmf", "prme")
    ]
    return [
        _time_of_the_tables(runs),
        _total("Foursquare-NYC at full size, time", places, "wall_seconds", 120, runs),
        _total("Foursquare-NYC at full size, memory", places, "peak_rss_mib", 24, runs),
    ]


def _time_of_the_tables(runs: Runs) -> TargetResult:
    """Judge the time of Tables 4 to 10 on two cores, from the thread time of each run."""
    most, label = 25.0, "MovieLens-100k, Tables 4-10 and switches, one seed, 20 of authors100; two cores"
    lacking, minutes = [], 0.0
    for name in selectable_names()["movielens-tables"]:
        wanted = experiments()[name].get("seeds", 1)
        threads = combine(
            summary_number(name, "wall_seconds"), summary_number(name, "threads"), lambda wall, n: wall * n
        )
        known = [value for seed, value in threads.per_seed(runs).items() if seed <= wanted]
        minutes += sum(known) / 120
        if len(known) < wanted:
            lacking.append(name)
    if not minutes:
        return TargetResult(label, f"at most {most:g} min", "", NOT_MEASURED)
    verdict = NOT_REACHED if minutes > most else NOT_MEASURED if lacking else REACHED
    evidence = f"without all runs of {', '.join(lacking)}" if lacking else ""
    return TargetResult(label, f"at most {most:g} min", f"{minutes:.1f} min", verdict, evidence)


def _total(label: str, experiments: Iterable[str], key: str, most: float, runs: Runs) -> TargetResult:
    """Judge the total time (minutes), or the largest memory (GiB), of the first seeds."""
    unit, per, take = ("min", 60.0, sum) if key == "wall_seconds" else ("GiB", 1024.0, max)
    found = {name: summary_number(name, key).per_seed(runs).get(1) for name in experiments}
    known = [value / per for value in found.values() if value is not None]
    wanted = f"at most {most:g} {unit}"
    if not known:
        return TargetResult(label, wanted, "", NOT_MEASURED)
    value = take(known)
    missing = [name for name, one in found.items() if one is None]
    verdict = NOT_REACHED if value > most else NOT_MEASURED if missing else REACHED
    evidence = f"without {', '.join(missing)}" if missing else ""
    return TargetResult(label, wanted, f"{value:.1f} {unit}", verdict, evidence)
