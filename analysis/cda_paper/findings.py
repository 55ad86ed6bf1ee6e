"""The orderings that the paper claims, each checked on the numbers of the study: held, or not held."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.cda_paper import experiments as ex
from analysis.cda_paper.cells import AIA, CDA_BESIDE_AIA, membership_attack
from analysis.cda_paper.experiments import MOVIELENS, MOVIELENS_LESS, PROTOCOLS, dp
from analysis.cda_paper.figures import settings
from analysis.cda_paper.measures import (
    Attack,
    Measure,
    Runs,
    alone,
    attack_seconds,
    difference,
    shown,
    utility,
)

HELD, NOT_HELD, NOT_MEASURED = "held", "not held", "not measured"
THRESHOLDS = ("0.2", "0.4", "0.6", "0.8", "1")
GOSSIP = ("rand-gossip", "pers-gossip")


@dataclass(frozen=True)
class Comparison:
    """One number that a claim says is larger than another; `words` say it with ``{first}`` and ``{second}``."""

    label: str
    first: Measure
    second: Measure
    words: str
    holds: Callable[[float, float], bool] = lambda first, second: first > second


@dataclass(frozen=True)
class Finding:
    """A claim, its verdict (held: in every comparison that was measured), and a line of evidence per comparison."""

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
        *(_privacy(runs, protocol) for protocol in ("fedavg", "rand-gossip")),
        _judged("CDA beats membership inference as a proxy", [_membership(runs)], runs),
        _judged("CDA beats attribute inference as a proxy", [_inference()], runs),
        _judged("CDA costs less than attribute inference", [_cost()], runs),
    ]


def _judged(claim: str, comparisons: Sequence[Comparison], runs: Runs) -> Finding:
    evidence, held = [], []
    for one in comparisons:
        first, second = one.first.mean(runs), one.second.mean(runs)
        if np.isfinite(first) and np.isfinite(second):
            held.append(one.holds(first, second))
            words = one.words.format(first=shown(one.first, runs), second=shown(one.second, runs))
            evidence.append(f"{one.label}: {words}: {HELD if held[-1] else NOT_HELD}")
        else:
            evidence.append(f"{one.label}: {NOT_MEASURED}")
    verdict = NOT_MEASURED if not held else HELD if all(held) else NOT_HELD
    return Finding(claim, verdict, tuple(evidence))


def _federated_leaks_more() -> list[Comparison]:
    words = "Max AAC {first} % in FedAvg, {second} % in gossip"
    return [
        Comparison(
            f"{title}, {PROTOCOLS[key]}", alone(one.full["fedavg"], one.k), alone(one.full[key], one.k), words
        )
        for title, one in settings().items()
        for key in GOSSIP
    ]


def _share_less_federated() -> list[Comparison]:
    words = "Max AAC {first} % with full models, {second} % with Share less"
    return [
        Comparison(title, alone(one.full["fedavg"], one.k), alone(one.less["fedavg"], one.k), words)
        for title, one in settings().items()
    ]


def _share_less_gossip() -> list[Comparison]:
    words = "Max AAC changes by {first} points, in FedAvg by {second}"
    found = []
    for title, one in settings().items():
        change = {
            key: difference(alone(one.less[key], one.k), alone(one.full[key], one.k)) for key in PROTOCOLS
        }
        found += [
            Comparison(
                f"{title}, {PROTOCOLS[key]}", change[key], change["fedavg"], words,
                lambda gossip, federated: abs(gossip) < 0.5 * abs(federated),
            )
            for key in GOSSIP
        ]  # fmt: skip
    return found


def _momentum() -> list[Comparison]:
    words = "Max AAC {first} % with momentum 0.99, {second} % without"
    found = []
    for share in (5, 10, 20):
        some, none = (Attack(ex.ML_RAND, f"coalition-{share}%", beta) for beta in (0.99, 0.0))
        found.append(Comparison(f"{share} % colluders", some, none, words))
    return found


def _membership(runs: Runs) -> Comparison:
    """Compare CDA with the threshold that serves membership inference best."""
    attacks = [membership_attack(threshold) for threshold in THRESHOLDS]
    best = max(attacks, key=lambda attack: np.nan_to_num(attack.mean(runs), nan=-1.0))
    words = "Max AAC {first} % by CDA, {second} % by membership inference at its best threshold"
    return Comparison("MovieLens-100k, FedAvg", alone(ex.ML_FEDAVG), best, words)


def _inference() -> Comparison:
    words = "accuracy {first} % by CDA, {second} % by attribute inference, for the same community"
    return Comparison("MovieLens-100k, FedAvg", CDA_BESIDE_AIA, AIA, words)


def _cost() -> Comparison:
    words = "{first} s for CDA on all communities, {second} s for attribute inference on one"
    first, second = (attack_seconds(ex.ML_AIA, f"{name}-coordinator") for name in ("cda", "aia"))
    return Comparison("MovieLens-100k, FedAvg", first, second, words, lambda cda, aia: cda < aia)


def _privacy(runs: Runs, protocol: str) -> Finding:
    """Compare the utility of DP-SGD, between its points in leakage, with that of Share less."""
    claim = f"At equal leakage DP-SGD costs more utility than Share less, {PROTOCOLS[protocol]}"
    experiments = [dp(protocol, epsilon) for epsilon in (*ex.EPSILONS, None)]
    points = [(alone(e).mean(runs), utility(e).mean(runs)) for e in experiments]
    known = sorted(point for point in points if np.isfinite(point).all())
    plain, less = MOVIELENS[protocol], MOVIELENS_LESS[protocol]
    leak, kept = alone(less).mean(runs), utility(less).mean(runs)
    if len(known) < 2 or not np.isfinite((leak, kept)).all():
        return Finding(claim, NOT_MEASURED, (f"needs Share less and two points of DP-SGD; has {len(known)}",))
    at = float(np.interp(leak, *np.array(known).T))
    outside = not known[0][0] <= leak <= known[-1][0]
    evidence = (
        f"Share less: Max AAC {leak:.1f} %, HR@20 {kept:.1f} % (full models without DP: "
        f"{shown(alone(plain), runs)} %, {shown(utility(plain), runs)} %)",
        f"DP-SGD: HR@20 {at:.1f} % at the same leakage"
        + (" or the nearest that was measured" if outside else "")
        + f", between points of Max AAC {', '.join(f'{a:.1f}' for a, _ in known)} %",
    )
    return Finding(claim, HELD if at < kept else NOT_HELD, evidence)
