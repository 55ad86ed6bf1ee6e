"""The orderings of ``claims.yaml``, each judged by paired differences over seeds: held, not held, or undecided.

Both sides of a comparison are measured in runs of the same seed, with the same data and draws. The claim is held if
the 95 % interval of their mean difference is on the claimed side, and not held if it is on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from analysis.cda_paper.measures import (
    FunctionNumber,
    RunNumber,
    combine,
    format_mean_number,
    read_number,
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
        return combine(self.first, self.second, self.margin).per_seed(runs)


def judge_claims(runs: Runs) -> list[ClaimVerdict]:
    """Return the verdict on each claim."""
    plan = yaml.safe_load(Path(__file__).with_name("claims.yaml").read_text(encoding="utf-8"))
    return [_privacy(one, runs) if "dp" in one else _judged(one, runs) for one in plan]


def _judged(claim: Mapping[str, Any], runs: Runs) -> ClaimVerdict:
    evidence, verdicts = [], []
    for entry in claim["comparisons"]:
        one = _comparison(entry, _MARGINS[claim.get("margin", "larger")], runs)
        margins = one.margins(runs)
        verdicts.append(decide(margins))
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
    second = max(seconds, key=lambda number: np.nan_to_num(number.mean(runs), nan=-1.0))
    return ClaimComparison(entry["label"], read_number(entry["first"]), second, margin)


def _privacy(claim: Mapping[str, Any], runs: Runs) -> ClaimVerdict:
    """Return the verdict on the utility of DP-SGD, interpolated in leakage, against Share less."""
    points = [name for name in claim["dp"] if name in runs]
    plain, less = claim["full_models"], claim["share_less"]
    if len(points) < 2 or less not in runs:
        reason = f"needs Share less and two points of DP-SGD; has {len(points)}"
        return ClaimVerdict(claim["claim"], NOT_MEASURED, (reason,))
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
    return ClaimVerdict(claim["claim"], decide(margins), evidence)


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
