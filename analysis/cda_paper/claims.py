"""The orderings that the paper claims, each judged by paired differences over seeds: held, not held, or undecided.

Both sides of a comparison are measured in runs of the same seed, with the same data and draws. The claim is held if
the 95 % interval of their mean difference is on the claimed side, and not held if it is on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.cda_paper import experiments as ex
from analysis.cda_paper.cells import AIA, CDA_BESIDE_AIA, LOOKING, membership_number
from analysis.cda_paper.experiments import (
    AUTHORS100,
    FULL943,
    FULL_BATCH,
    MOVIELENS,
    MOVIELENS_LESS,
    PROTOCOLS,
    dp_experiment,
)
from analysis.cda_paper.figures import leakage_settings
from analysis.cda_paper.measures import (
    AttackNumber,
    FunctionNumber,
    RunNumber,
    attack_seconds,
    combine,
    difference_of,
    format_mean_number,
    single_attack,
    utility_number,
)
from analysis.papers.verdict import (
    NOT_MEASURED,
    ClaimVerdict,
    PerSeed,
    Runs,
    combine_verdicts,
    decide,
    describe_margin,
)
from gossiprec.runs import Run

THRESHOLDS = ("0.2", "0.4", "0.6", "0.8", "1")
GOSSIP = ("rand-gossip", "pers-gossip")
SHARES = (5, 10, 20)
IN_GOSSIP = {AUTHORS100: (ex.AUTHORS_RAND, 5), FULL943: (ex.ML_RAND, 50), FULL_BATCH: (ex.ML_FULL_BATCH, 50)}
"""Experiment and K of Rand-Gossip with full models, by setting."""


@dataclass(frozen=True)
class ClaimComparison:
    """Two numbers, of which a claim says that the first is larger.

    Attributes
    ----------
    label : str
    first, second : RunNumber
    words : str
        Text of the claim, with ``{first}`` and ``{second}``.
    margin : callable
        Maps both numbers of a seed to the margin of the claim; negative if it does not hold.
    """

    label: str
    first: RunNumber
    second: RunNumber
    words: str
    margin: Callable[[float, float], float] = lambda first, second: first - second

    def margins(self, runs: Runs) -> PerSeed:
        """Return the margin of the claim for each seed that both sides have."""
        return combine(self.first, self.second, self.margin).per_seed(runs)


def judge_claims(runs: Runs) -> list[ClaimVerdict]:
    """Return the verdict on each claim."""
    return [
        _judged("Federated learning leaks more than gossip", _federated_leaks_more(), runs),
        _judged("Share less protects in federated learning", _share_less_federated(), runs),
        _judged(
            "Share less hardly changes leakage in gossip (by less than half of its change in FedAvg, in points)",
            _share_less_gossip(),
            runs,
        ),
        _judged("More colluders find more", _collusion(), runs),
        _judged("Momentum is what makes collusion pay", _momentum(), runs),
        *(_privacy(runs, protocol) for protocol in ("fedavg", "rand-gossip")),
        _judged("CDA beats membership inference as a proxy", [_membership(runs)], runs),
        _judged("CDA beats attribute inference as a proxy", [_inference()], runs),
        _judged("CDA costs less than attribute inference", [_cost()], runs),
    ]


def _judged(claim: str, comparisons: Sequence[ClaimComparison], runs: Runs) -> ClaimVerdict:
    evidence, verdicts = [], []
    for one in comparisons:
        margins = one.margins(runs)
        verdicts.append(decide(margins))
        if margins:
            words = one.words.format(
                first=format_mean_number(one.first, runs), second=format_mean_number(one.second, runs)
            )
            evidence.append(f"{one.label}: {words}; {describe_margin(margins)}")
        else:
            evidence.append(f"{one.label}: {NOT_MEASURED}")
    return ClaimVerdict(claim, combine_verdicts(verdicts), tuple(evidence))


def _federated_leaks_more() -> list[ClaimComparison]:
    words = "Max AAC {first} % in FedAvg, {second} % in gossip"
    sides = {title: (one.full, one.k) for title, one in leakage_settings().items()}
    sides[f"MovieLens-100k, {AUTHORS100}"] = (ex.AUTHORS, 5)
    return [
        ClaimComparison(
            f"{title}, {PROTOCOLS[key]}", single_attack(full["fedavg"], k), single_attack(full[key], k), words
        )
        for title, (full, k) in sides.items()
        for key in GOSSIP
    ]


def _share_less_federated() -> list[ClaimComparison]:
    words = "Max AAC {first} % with full models, {second} % with Share less"
    found = [
        ClaimComparison(
            title, single_attack(one.full["fedavg"], one.k), single_attack(one.less["fedavg"], one.k), words
        )
        for title, one in leakage_settings().items()
    ]
    for kind, less in (("paper", ex.ML_FEDAVG_LESS_PAPER), ("fitted", ex.ML_FEDAVG_LESS_FITTED)):
        label = f"MovieLens-100k, {LOOKING[kind]}"
        found.append(ClaimComparison(label, single_attack(ex.ML_FEDAVG), single_attack(less), words))
    return found


def _share_less_gossip() -> list[ClaimComparison]:
    words = "Max AAC changes by {first} points, in FedAvg by {second}"
    found = []
    for title, one in leakage_settings().items():
        change = {
            key: difference_of(single_attack(one.less[key], one.k), single_attack(one.full[key], one.k))
            for key in PROTOCOLS
        }
        found += [
            ClaimComparison(
                f"{title}, {PROTOCOLS[key]}", change[key], change["fedavg"], words,
                lambda gossip, federated: 0.5 * abs(federated) - abs(gossip),
            )
            for key in GOSSIP
        ]  # fmt: skip
    return found


def _collusion() -> list[ClaimComparison]:
    words = "Max AAC {first} %, with fewer {second} %"
    found = []
    for setting, (experiment, k) in IN_GOSSIP.items():
        sizes = [single_attack(experiment, k), *(_pool(experiment, k, share) for share in SHARES)]
        for share, fewer, more in zip(SHARES, sizes, sizes[1:], strict=False):
            found.append(ClaimComparison(f"{setting}, {share} % colluders", more, fewer, words))
    return found


def _momentum() -> list[ClaimComparison]:
    words = "Max AAC {first} % with momentum 0.99, {second} % without"
    return [
        ClaimComparison(
            f"{setting}, {share} % colluders",
            _pool(experiment, k, share, 0.99),
            _pool(experiment, k, share, 0.0),
            words,
        )
        for setting, (experiment, k) in IN_GOSSIP.items()
        for share in SHARES
    ]


def _pool(experiment: str, k: int, share: int, momentum: float | None = None) -> AttackNumber:
    return AttackNumber(experiment, f"coalition-{share}%", momentum, k)


def _membership(runs: Runs) -> ClaimComparison:
    """Return the comparison of CDA with the best threshold of membership inference."""
    attacks = [membership_number(threshold) for threshold in THRESHOLDS]
    best = max(attacks, key=lambda attack: np.nan_to_num(attack.mean(runs), nan=-1.0))
    words = "Max AAC {first} % by CDA, {second} % by membership inference at its best threshold"
    return ClaimComparison("MovieLens-100k, FedAvg", single_attack(ex.ML_FEDAVG), best, words)


def _inference() -> ClaimComparison:
    words = "accuracy {first} % by CDA, {second} % by attribute inference, for the same community"
    return ClaimComparison("MovieLens-100k, FedAvg", CDA_BESIDE_AIA, AIA, words)


def _cost() -> ClaimComparison:
    words = "{first} s for CDA on all communities, {second} s for attribute inference on one"
    first, second = (attack_seconds(ex.ML_AIA, f"{name}-coordinator") for name in ("cda", "aia"))
    return ClaimComparison("MovieLens-100k, FedAvg", first, second, words, lambda cda, aia: aia - cda)


def _privacy(runs: Runs, protocol: str) -> ClaimVerdict:
    """Return the verdict on the utility of DP-SGD, interpolated in leakage, against Share less."""
    claim = f"At equal leakage DP-SGD costs more utility than Share less, {PROTOCOLS[protocol]}"
    points = [
        name
        for name in (dp_experiment(protocol, epsilon) for epsilon in (*ex.EPSILONS, None))
        if name in runs
    ]
    plain, less = MOVIELENS[protocol], MOVIELENS_LESS[protocol]
    if len(points) < 2 or less not in runs:
        return ClaimVerdict(
            claim, NOT_MEASURED, (f"needs Share less and two points of DP-SGD; has {len(points)}",)
        )
    margins = FunctionNumber((less, *points), lambda own, rule: _kept_more(own, rule, less, points)).per_seed(
        runs
    )
    known = sorted((single_attack(point).mean(runs), utility_number(point).mean(runs)) for point in points)
    leak, kept = single_attack(less).mean(runs), utility_number(less).mean(runs)
    outside = not known[0][0] <= leak <= known[-1][0]
    evidence = (
        f"Share less: Max AAC {leak:.1f} %, HR@20 {kept:.1f} % (full models without DP: "
        f"{format_mean_number(single_attack(plain), runs)} %, {format_mean_number(utility_number(plain), runs)} %)",
        f"DP-SGD: HR@20 {float(np.interp(leak, *np.array(known).T)):.1f} % at the same leakage"
        + (" or the nearest that was measured" if outside else "")
        + f", between points of Max AAC {', '.join(f'{a:.1f}' for a, _ in known)} %; {describe_margin(margins)}",
    )
    return ClaimVerdict(claim, decide(margins), evidence)


def _kept_more(own: Mapping[str, Run], rule: str, less: str, points: Sequence[str]) -> float | None:
    """Return the utility that Share less keeps beyond DP-SGD at equal leakage, in the runs of one seed."""
    sides = [
        (single_attack(name).of_seed(own, rule), utility_number(name).of_seed(own, rule))
        for name in (less, *points)
    ]
    known = [(leak, kept) for leak, kept in sides if leak is not None and kept is not None]
    if len(known) < len(sides):
        return None
    (leak, kept), *others = known
    return kept - float(np.interp(leak, *np.array(sorted(others)).T))
