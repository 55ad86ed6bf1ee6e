"""The orderings that the paper claims, each checked on the numbers of the study: held, or not held."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.cda_paper import experiments as ex
from analysis.cda_paper.cells import AIA, AIA_CDA, membership_attack
from analysis.cda_paper.experiments import dp
from analysis.cda_paper.figures import MOVIELENS, MOVIELENS_LESS, alone, settings
from analysis.cda_paper.measures import (
    Attack,
    Measure,
    Runs,
    SameAdversaries,
    Utility,
    attack_seconds,
    difference,
    mean,
    spread,
)

HELD, NOT_HELD, NOT_MEASURED = "held", "not held", "not measured"
THRESHOLDS = ("0.2", "0.4", "0.6", "0.8", "1")


@dataclass(frozen=True)
class Comparison:
    """One number that a claim says is larger than another.

    Attributes
    ----------
    label : str
    first, second : Measure
    words : str
        What the two are, with ``{first}`` and ``{second}`` for the numbers.
    holds : callable
        From the means to whether the claim holds.
    """

    label: str
    first: Measure
    second: Measure
    words: str
    holds: Callable[[float, float], bool] = lambda first, second: first > second


@dataclass(frozen=True)
class Finding:
    """A claim and what became of it.

    Attributes
    ----------
    claim : str
    verdict : str
        ``held`` (in every comparison that was measured), ``not held`` or ``not measured``.
    evidence : tuple of str
        A line per comparison.
    """

    claim: str
    verdict: str
    evidence: tuple[str, ...]


def findings(runs: Runs) -> list[Finding]:
    """Return what became of each claim."""
    return [
        _judged("Federated learning leaks more than gossip", _federated_leaks_more(), runs),
        _judged("Share less protects in federated learning", _share_less_federated(), runs),
        _judged(
            "Share less hardly changes leakage in gossip (by less than half of its change in FedAvg, in points)",
            _share_less_gossip(),
            runs,
        ),
        _judged("Momentum is what makes collusion pay", _momentum(), runs),
        *(_privacy(runs, protocol) for protocol in ("FedAvg", "Rand-Gossip")),
        _judged("CDA beats membership inference as a proxy", _membership(runs), runs),
        _judged("CDA beats attribute inference as a proxy", [_inference()], runs),
        _judged("CDA costs less than attribute inference", [_cost()], runs),
    ]


def number(measure: Measure, runs: Runs, digits: int = 1) -> str:
    """Return a mean over seeds as text, with the spread where there are several."""
    values = measure.per_seed(runs)
    text = f"{mean(values):.{digits}f}"
    return f"{text} ± {spread(values):.{digits}f}" if len(values) > 1 else text


def _judged(claim: str, comparisons: Sequence[Comparison], runs: Runs) -> Finding:
    evidence, held = [], []
    for one in comparisons:
        first, second = mean(one.first.per_seed(runs)), mean(one.second.per_seed(runs))
        if np.isfinite(first) and np.isfinite(second):
            held.append(one.holds(first, second))
            words = one.words.format(first=number(one.first, runs), second=number(one.second, runs))
            evidence.append(f"{one.label}: {words}: {HELD if held[-1] else NOT_HELD}")
        else:
            evidence.append(f"{one.label}: {NOT_MEASURED}")
    verdict = NOT_MEASURED if not held else HELD if all(held) else NOT_HELD
    return Finding(claim, verdict, tuple(evidence))


def _federated_leaks_more() -> list[Comparison]:
    words = "Max AAC {first} % in FedAvg, {second} % in gossip"
    return [
        Comparison(f"{title}, {name}", alone(full["FedAvg"], k), alone(full[name], k), words)
        for title, (full, _, k, _) in settings().items()
        for name in ("Rand-Gossip", "Pers-Gossip")
    ]


def _share_less_federated() -> list[Comparison]:
    words = "Max AAC {first} % with full models, {second} % with Share less"
    return [
        Comparison(title, alone(full["FedAvg"], k), alone(less["FedAvg"], k), words)
        for title, (full, less, k, _) in settings().items()
    ]


def _share_less_gossip() -> list[Comparison]:
    words = "Max AAC changes by {first} points, in FedAvg by {second}"
    return [
        Comparison(
            f"{title}, {name}",
            difference(alone(less[name], k), alone(full[name], k)),
            difference(alone(less["FedAvg"], k), alone(full["FedAvg"], k)),
            words,
            lambda gossip, federated: abs(gossip) < 0.5 * abs(federated),
        )
        for title, (full, less, k, _) in settings().items()
        for name in ("Rand-Gossip", "Pers-Gossip")
    ]


def _momentum() -> list[Comparison]:
    words = "Max AAC {first} % with momentum 0.99, {second} % without"
    return [
        Comparison(
            f"{share} % colluders",
            Attack(ex.ML_RAND, f"coalition-{share}%", 0.99),
            Attack(ex.ML_RAND, f"coalition-{share}%", 0.0),
            words,
        )
        for share in (5, 10, 20)
    ]


def _membership(runs: Runs) -> list[Comparison]:
    """Return CDA against the threshold that serves membership inference best."""
    attacks = [membership_attack(threshold) for threshold in THRESHOLDS]
    best = max(attacks, key=lambda attack: np.nan_to_num(mean(attack.per_seed(runs)), nan=-1.0))
    words = "Max AAC {first} % by CDA, {second} % by membership inference at its best threshold"
    return [Comparison("MovieLens-100k, FedAvg", Attack(ex.ML_FEDAVG, "coordinator"), best, words)]


def _inference() -> Comparison:
    words = "accuracy {first} % by CDA, {second} % by attribute inference, for the same community"
    return Comparison("MovieLens-100k, FedAvg", SameAdversaries(AIA_CDA, AIA), AIA, words)


def _cost() -> Comparison:
    words = "{first} s for CDA on all communities, {second} s for attribute inference on one"
    first, second = (attack_seconds(ex.ML_AIA, f"{name}-coordinator") for name in ("cda", "aia"))
    return Comparison("MovieLens-100k, FedAvg", first, second, words, lambda cda, aia: cda < aia)


def _privacy(runs: Runs, protocol: str) -> Finding:
    """Compare the utility of DP-SGD, between its points in leakage, with that of Share less."""
    claim = f"At equal leakage DP-SGD costs more utility than Share less, {protocol}"
    key = {"FedAvg": "fedavg", "Rand-Gossip": "rand_gossip"}[protocol]
    experiments = [dp(key, epsilon) for epsilon in (*ex.EPSILONS, None)]
    points = [(mean(alone(e).per_seed(runs)), mean(Utility(e).per_seed(runs))) for e in experiments]
    known = sorted(point for point in points if np.isfinite(point).all())
    less = MOVIELENS_LESS[protocol]
    leak, kept = mean(alone(less).per_seed(runs)), mean(Utility(less).per_seed(runs))
    if len(known) < 2 or not np.isfinite((leak, kept)).all():
        return Finding(claim, NOT_MEASURED, (f"needs Share less and two points of DP-SGD; has {len(known)}",))
    leaks, utilities = np.array(known).T
    at = float(np.interp(leak, leaks, utilities))
    outside = not known[0][0] <= leak <= known[-1][0]
    plain = MOVIELENS[protocol]
    evidence = [
        f"Share less: Max AAC {leak:.1f} %, HR@20 {kept:.1f} % (full models without DP: "
        f"{number(alone(plain), runs)} %, {number(Utility(plain), runs)} %)",
        f"DP-SGD: HR@20 {at:.1f} % at the same leakage"
        + (" or the nearest that was measured" if outside else "")
        + f", between points of Max AAC {', '.join(f'{a:.1f}' for a, _ in known)} %",
    ]
    return Finding(claim, HELD if at < kept else NOT_HELD, tuple(evidence))
