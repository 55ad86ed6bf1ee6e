"""The figures that the study sets out to reach, each reached or not, with what is known where it is not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from analysis.cda_paper import experiments as ex
from analysis.cda_paper.experiments import AUTHORS100, FULL943, checkins, dp, experiments, looking
from analysis.cda_paper.measures import (
    RULES,
    Attack,
    Measure,
    alone,
    attack_seconds,
    combined,
    fact,
    factor,
    shown,
)
from analysis.cda_paper.plan import subjects
from analysis.papers.claims import NOT_MEASURED
from analysis.papers.seeds import Runs

REACHED, NOT_REACHED = "reached", "not reached"


@dataclass(frozen=True)
class Target:
    """A number and the range that it should be in."""

    label: str
    measure: Measure
    low: float = -np.inf
    high: float = np.inf
    unit: str = ""


@dataclass(frozen=True)
class Reached:
    """What became of a target: the range wanted, the number found, the verdict and the evidence."""

    label: str
    wanted: str
    found: str
    verdict: str
    evidence: str = ""


def reached(runs: Runs) -> list[Reached]:
    """Return what became of each target."""
    return [*(_judged(target, runs) for target in targets()), *_totals(runs)]


def targets() -> list[Target]:
    """Return the targets that one measure decides."""
    none, speed = dp("rand-gossip", None), "local epochs/s"
    cost = "All 943 adversaries over the simulation without them, thread time"
    return [
        *_federated_targets(),
        *_gossip_targets(),
        Target(f"Pers-Gossip over Rand-Gossip, {speed}", factor(_pace(ex.ML_PERS), _pace(ex.ML_RAND)), 1 / 3),
        Target(f"DP-SGD over none, {speed}", factor(_pace(dp("rand-gossip", 100)), _pace(none)), 1 / 4),
        Target(cost, _attack_share(none), high=0.5),
    ]


def _near(label: str, measure: Measure, value: float, by: float) -> Target:
    return Target(label, measure, value - by, value + by, "%")


def _federated_targets() -> list[Target]:
    less = alone(ex.ML_FEDAVG_LESS)
    return [
        _near("Max AAC, FedAvg, full models", alone(ex.ML_FEDAVG), 57.4, 8),
        _near("Max AAC, FedAvg, Share less, own row, momentum 0", replace(less, momentum=0.0), 39.4, 8),
        _near("Max AAC, FedAvg, Share less, own row, momentum 0.99", less, 39.4, 8),
    ]


def _gossip_targets() -> list[Target]:
    """Return those of Tables 5 to 8, in the setting of the published code and at full size."""
    found = []
    for setting, rand, pers, less, k in (
        (AUTHORS100, ex.AUTHORS_RAND, ex.AUTHORS_PERS, ex.AUTHORS_RAND_LESS, 5),
        (FULL943, ex.ML_RAND, ex.ML_PERS, ex.ML_RAND_LESS, 50),
    ):
        found += [
            _near(f"Max AAC, Rand-Gossip, {setting}", alone(rand, k), 14.6, 4),
            _near(f"Max AAC, Pers-Gossip, {setting}", alone(pers, k), 14.6, 5),
            _near(f"Upper bound, Rand-Gossip, {setting}", alone(rand, k, "upper_bound"), 81, 3),
            _near(f"Upper bound, Pers-Gossip, {setting}", alone(pers, k, "upper_bound"), 72, 4),
        ]
        for beta, by, values in ((0.99, 8, (24.8, 31, 45)), (0.0, 6, (18.4, 21.8, 17.6))):
            for share, value in zip((5, 10, 20), values, strict=True):
                attack = Attack(rand, f"coalition-{share}%", beta, k)
                found.append(_near(f"{share} % colluders, momentum {beta:g}, {setting}", attack, value, by))
        for share in (5, 10, 20):
            label = f"Max AAC, Share less, row trained once, {share} % colluders, {setting}"
            found.append(Target(label, Attack(less, looking("paper", f"{share}%"), k=k), 8, 20, "%"))
    return found


def _pace(experiment: str) -> Measure:
    """Return local epochs a second of the data plane, kernels compiled."""
    return factor(fact(experiment, "node_updates"), fact(experiment, "seconds", "compute"))


def _attack_share(experiment: str) -> Measure:
    """Return the thread time of the attacks over that of everything else, compiling left out."""
    wall, compiling = fact(experiment, "wall_seconds"), fact(experiment, "seconds", "compile")
    running = combined(wall, compiling, lambda whole, part: whole - part)
    threads = combined(running, fact(experiment, "threads"), lambda seconds, count: seconds * count)
    return combined(
        attack_seconds(experiment, "cda-single"), threads, lambda part, whole: part / (whole - part)
    )


def _judged(target: Target, runs: Runs) -> Reached:
    unit = f" {target.unit}" if target.unit else ""
    if np.isinf(target.low):
        wanted = f"at most {target.high:.3g}{unit}"
    elif np.isinf(target.high):
        wanted = f"at least {target.low:.2g}{unit}"
    else:
        wanted = f"{target.low:.1f} to {target.high:.1f}{unit}"
    value = target.measure.mean(runs)
    if not np.isfinite(value):
        return Reached(target.label, wanted, "", NOT_MEASURED)
    found = shown(target.measure, runs, digits=1 if target.unit else 2) + unit
    if target.low <= value <= target.high:
        return Reached(target.label, wanted, found, REACHED)
    return Reached(target.label, wanted, found, NOT_REACHED, _evidence(target.measure, runs))


def _evidence(measure: Measure, runs: Runs) -> str:
    """Return what else the runs know about an attack that misses its target."""
    if not isinstance(measure, Attack) or measure.quantity != "max_aac":
        return ""
    others = {rule: measure.mean(runs, rule) for rule in RULES[1:]}
    parts = [f"{value:.1f} % under {rule}" for rule, value in others.items() if np.isfinite(value)]
    at, last, bound = (measure.of(name).mean(runs) for name in ("at_round", "last_aac", "upper_bound"))
    parts.append(f"best at round {at / 100:.0f}")  # a round, not a percentage
    return "; ".join([*parts, f"{last:.1f} % at the end", f"upper bound {bound:.1f} %"])


def _totals(runs: Runs) -> list[Reached]:
    """Return the targets that are sums or maxima over experiments: first seeds, and all seeds of ``authors100``."""
    places = [checkins("foursquare", p, m) for p in ("fedavg", "rand-gossip") for m in ("gmf", "prme")]
    return [
        _time_of_the_tables(runs),
        _total("Foursquare-NYC at full size, time", places, "wall_seconds", 120, runs),
        _total("Foursquare-NYC at full size, memory", places, "peak_rss_mib", 24, runs),
    ]


def _time_of_the_tables(runs: Runs) -> Reached:
    """Judge the time of Tables 4 to 10 on two cores, from what each run took on its threads."""
    most, label = 25.0, "MovieLens-100k, Tables 4-10 and switches, one seed, 20 of authors100; two cores"
    lacking, minutes = [], 0.0
    for name in subjects()["movielens-tables"]:
        wanted = experiments()[name].get("seeds", 1)
        threads = combined(fact(name, "wall_seconds"), fact(name, "threads"), lambda wall, n: wall * n)
        known = [value for seed, value in threads.per_seed(runs).items() if seed <= wanted]
        minutes += sum(known) / 120
        if len(known) < wanted:
            lacking.append(name)
    if not minutes:
        return Reached(label, f"at most {most:g} min", "", NOT_MEASURED)
    verdict = NOT_REACHED if minutes > most else NOT_MEASURED if lacking else REACHED
    evidence = f"without all runs of {', '.join(lacking)}" if lacking else ""
    return Reached(label, f"at most {most:g} min", f"{minutes:.1f} min", verdict, evidence)


def _total(label: str, experiments: Iterable[str], key: str, most: float, runs: Runs) -> Reached:
    """Judge the total time (minutes), or the largest memory (GiB), of the first seeds."""
    unit, per, take = ("min", 60.0, sum) if key == "wall_seconds" else ("GiB", 1024.0, max)
    found = {name: fact(name, key).per_seed(runs).get(1) for name in experiments}
    known = [value / per for value in found.values() if value is not None]
    wanted = f"at most {most:g} {unit}"
    if not known:
        return Reached(label, wanted, "", NOT_MEASURED)
    value = take(known)
    missing = [name for name, one in found.items() if one is None]
    verdict = NOT_REACHED if value > most else NOT_MEASURED if missing else REACHED
    evidence = f"without {', '.join(missing)}" if missing else ""
    return Reached(label, wanted, f"{value:.1f} {unit}", verdict, evidence)
