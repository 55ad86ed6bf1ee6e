"""The figures that the study sets out to reach, each reached or not, with what is known where it is not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.cda_paper import experiments as ex
from analysis.cda_paper.cells import all_cells
from analysis.cda_paper.experiments import Experiment, checkins, dp
from analysis.cda_paper.figures import alone
from analysis.cda_paper.findings import NOT_MEASURED, number
from analysis.cda_paper.measures import (
    RULES,
    Attack,
    Combined,
    Fact,
    Measure,
    Runs,
    attack_seconds,
    factor,
    mean,
)

REACHED, NOT_REACHED = "reached", "not reached"
MINUTE_S, GIB_MIB = 60.0, 1024.0


@dataclass(frozen=True)
class Target:
    """A number and the range that it should be in."""

    label: str
    measure: Measure
    low: float = -np.inf
    high: float = np.inf
    unit: str = "%"


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
    near = [
        ("Max AAC, FedAvg, full models", alone(ex.ML_FEDAVG), 57.4, 8),
        ("Max AAC, FedAvg, Share less", alone(ex.ML_FEDAVG_LESS), 39.4, 8),
        ("Max AAC, Rand-Gossip", alone(ex.ML_RAND), 14.6, 4),
        ("Max AAC, Pers-Gossip", alone(ex.ML_PERS), 14.6, 5),
        ("Upper bound, Rand-Gossip", alone(ex.ML_RAND).of("upper_bound"), 81, 3),
        ("Upper bound, Pers-Gossip", alone(ex.ML_PERS).of("upper_bound"), 72, 4),
        *(
            (
                f"{share} % colluders, momentum {beta:g}",
                Attack(ex.ML_RAND, f"coalition-{share}%", beta),
                value,
                by,
            )
            for beta, by, values in ((0.99, 8, (24.8, 31, 45)), (0.0, 6, (18.4, 21.8, 17.6)))
            for share, value in zip((5, 10, 20), values, strict=True)
        ),
    ]
    found = [Target(label, measure, value - by, value + by) for label, measure, value, by in near]
    found += [
        Target(
            f"Max AAC, Share less, {share} % colluders", Attack(ex.ML_RAND_LESS, f"coalition-{share}%"), 8, 20
        )
        for share in (5, 10, 20)
    ]
    none = dp("rand_gossip", None)
    return [
        *found,
        Target(
            "Pers-Gossip over Rand-Gossip, local epochs/s",
            factor(_pace(ex.ML_PERS), _pace(ex.ML_RAND)),
            1 / 3,
            unit="",
        ),
        Target(
            "DP-SGD over none, local epochs/s",
            factor(_pace(dp("rand_gossip", 100)), _pace(none)),
            1 / 4,
            unit="",
        ),
        Target(
            "All 943 adversaries over the simulation without them, thread time",
            _attack_share(none),
            high=0.5,
            unit="",
        ),
    ]


def _pace(experiment: Experiment) -> Measure:
    """Return local epochs a second of the data plane, kernels compiled."""
    return factor(Fact(experiment, ("node_updates",)), Fact(experiment, ("seconds", "compute")))


def _attack_share(experiment: Experiment) -> Measure:
    """Return the thread time of the attacks over that of everything else, compiling left out."""
    wall, compiling = Fact(experiment, ("wall_seconds",)), Fact(experiment, ("seconds", "compile"))
    running = Combined(wall, compiling, lambda whole, part: whole - part)
    threads = Combined(running, Fact(experiment, ("threads",)), lambda seconds, count: seconds * count)
    attack = attack_seconds(experiment, "cda-single")
    return Combined(attack, threads, lambda part, whole: part / (whole - part))


def _judged(target: Target, runs: Runs) -> Reached:
    unit = f" {target.unit}" if target.unit else ""
    if np.isinf(target.low):
        wanted = f"at most {target.high:.3g}{unit}"
    elif np.isinf(target.high):
        wanted = f"at least {target.low:.2g}{unit}"
    else:
        wanted = f"{target.low:.1f} to {target.high:.1f}{unit}"
    value = mean(target.measure.per_seed(runs))
    if not np.isfinite(value):
        return Reached(target.label, wanted, "", NOT_MEASURED)
    is_reached = target.low <= value <= target.high
    found = number(target.measure, runs, digits=1 if target.unit else 2) + unit
    evidence = "" if is_reached else _evidence(target.measure, runs)
    return Reached(target.label, wanted, found, REACHED if is_reached else NOT_REACHED, evidence)


def _evidence(measure: Measure, runs: Runs) -> str:
    """Return what else the runs know about an attack that misses its target."""
    if not isinstance(measure, Attack) or measure.quantity != "max_aac":
        return ""
    others = [
        f"{mean(measure.per_seed(runs, rule)):.1f} % under {rule}"
        for rule in RULES[1:]
        if measure.per_seed(runs, rule)
    ]
    at = mean(measure.of("at_round").per_seed(runs)) / 100  # a round, not a percentage
    bound, last = (mean(measure.of(name).per_seed(runs)) for name in ("upper_bound", "last_aac"))
    parts = [*others, f"best at round {at:.0f}", f"{last:.1f} % at the end", f"upper bound {bound:.1f} %"]
    return "; ".join(parts)


def _totals(runs: Runs) -> list[Reached]:
    """Return the targets that are sums or maxima over experiments, first seeds alone."""
    tables = {f"table{place}" for place in range(4, 11)}
    movielens = {
        experiment.name: experiment
        for cell in all_cells()
        if cell.measure and cell.printed.table in tables
        for experiment in cell.measure.experiments()
        if experiment.data == "ml-100k"
    }
    places = [checkins("foursquare", p, m) for p in ("fedavg", "rand_gossip") for m in ("gmf", "prme")]
    wall, memory = ("wall_seconds",), ("peak_rss_mib",)
    return [
        _total(
            "MovieLens-100k, Tables 4-10, one seed", list(movielens.values()), wall, MINUTE_S, 15, "min", runs
        ),
        _total("Foursquare-NYC at full size, time", places, wall, MINUTE_S, 120, "min", runs),
        _total("Foursquare-NYC at full size, memory", places, memory, GIB_MIB, 24, "GiB", runs),
    ]


def _total(
    label: str,
    experiments: list[Experiment],
    keys: tuple[str, ...],
    per: float,
    most: float,
    unit: str,
    runs: Runs,
) -> Reached:
    """Judge the total time, or the largest memory, of the first seeds."""
    found = {e.name: Fact(e, keys).per_seed(runs).get(1) for e in experiments}
    known = [value / per for value in found.values() if value is not None]
    wanted = f"at most {most:g} {unit}"
    if not known:
        return Reached(label, wanted, "", NOT_MEASURED)
    value = max(known) if unit == "GiB" else sum(known)
    missing = [name for name, one in found.items() if one is None]
    evidence = f"without {', '.join(missing)}" if missing else ""
    verdict = NOT_REACHED if value > most else NOT_MEASURED if missing else REACHED
    return Reached(label, wanted, f"{value:.1f} {unit}", verdict, evidence)
