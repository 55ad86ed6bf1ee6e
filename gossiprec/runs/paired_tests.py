"""Paired tests of runs, over users and over seeds: an interval, and Wilcoxon's test, corrected by Holm's method."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from gossiprec.base.arrays import F64, I64
from gossiprec.base.errors import LogError, did_you_mean
from gossiprec.base.rounding import difference, paired_differences
from gossiprec.runs.run import Run
from gossiprec.runs.signed_ranks import signed_rank_p_value

N_RESAMPLES = 2_000
CONFIDENCE = 0.95
BATCH = 2**22
"""Number of values that are resampled together."""

Values = Mapping[str, tuple[I64, F64]]
"""Ascending ids of users and their values, by metric."""


class Group(NamedTuple):
    """Runs that differ only by their seeds, by seed, and their name in tests."""

    name: str
    runs: Mapping[int, Run]


@dataclass(frozen=True)
class PairedTest:
    """A test of a metric over the users, or the seeds, that two runs or groups of runs have in common.

    Attributes
    ----------
    run, reference : str
        Names of the second and of the first run or group.
    unit : str
        ``users`` or ``seeds``.
    metric : str
    n : int
        Number of users or seeds.
    first, second : float
        Means over them.
    low, high : float
        95 % interval of the mean difference, second minus first: of users the percentiles of a bootstrap, of seeds
        Student's, because a bootstrap of a few values is too narrow.
    p_value, holm : float
        Of Wilcoxon's two-sided test of signed ranks, in which pairs without a difference do not count
        (:func:`.signed_rank_p_value`); and corrected for the number of tests with this unit.
    """

    run: str
    reference: str
    unit: str
    metric: str
    n: int
    first: float
    second: float
    low: float
    high: float
    p_value: float
    holm: float = 1.0


def group_by_scenario(runs: Sequence[Run]) -> list[Group]:
    """Return the runs in groups that differ only by seed, in order; each run by itself if the first has one seed.

    A group has the name of its first run.

    Raises
    ------
    LogError
        If the first group has several runs, and a group has two runs with the same seed.
    """
    groups: dict[str, list[Run]] = {}
    for run in runs:
        about = {name: value for name, value in run.scenario.items() if name not in ("name", "seed")}
        groups.setdefault(json.dumps(about, sort_keys=True, default=str), []).append(run)
    if len(groups) < 2 or len({_seed(run) for run in next(iter(groups.values()))}) < 2:
        return [Group(str(run.path), {_seed(run): run}) for run in runs]
    for group in groups.values():
        by_seed: dict[int, Run] = {}
        for run in group:
            if by_seed.setdefault(_seed(run), run) is not run:
                raise LogError(
                    f"{by_seed[_seed(run)].path} and {run.path}: found the same scenario and seed {_seed(run)} twice; "
                    "expected a seed once per group; leave one of them out"
                )
    return [Group(str(group[0].path), {_seed(run): run for run in group}) for group in groups.values()]


def compare_groups(families: Sequence[Sequence[Group]], metrics: Sequence[str] = ()) -> list[PairedTest]:
    """Test the values of users at the last reports of runs, each group of a family against the first one.

    Groups of several runs are tested over the seeds that both have, and over users, of whom each has its mean over
    these seeds, if all seeds have the same data. If the first group has one run, all have one, of any seed.

    Parameters
    ----------
    families : sequence of sequence of Group
    metrics : sequence of str
        The metrics to test; all that are in common if there are none.

    Raises
    ------
    LogError
        If runs are on other data, have no values of users, or lack a metric or seeds in common.

    Notes
    -----
    Tests over users are about the users of these runs, not about other seeds. Users of a run learn from one another,
    so their values are not independent. With n seeds or users that differ, the p-value is at least 2^(1 - n).

    References
    ----------
    S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6, 1979.
    """
    found = [
        test for first, *others in families for other in others for test in _tests(first, other, metrics)
    ]
    for unit in ("users", "seeds"):
        places = [place for place, test in enumerate(found) if test.unit == unit]
        corrected = correct_by_holm([found[place].p_value for place in places])
        for place, p in zip(places, corrected, strict=True):
            found[place] = replace(found[place], holm=float(p))
    return found


def correct_by_holm(p_values: Sequence[float]) -> F64:
    """Return p-values corrected for their number by Holm's method, in the same order."""
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return corrected


class PairStatistics(NamedTuple):
    """The 95 % interval of the mean difference of pairs, and Wilcoxon's p-value."""

    low: float
    high: float
    p_value: float


def compare_pairs(first: F64, second: F64, unit: str = "seeds") -> PairStatistics:
    """Return the interval of the mean difference, second minus first, and the p-value of pairs.

    Rounding errors make no difference and decide no rank (:mod:`gossiprec.base.rounding`).

    Parameters
    ----------
    first, second : ndarray of float64, shape (n,)
    unit : str
        ``users`` for an interval by bootstrap, ``seeds`` for Student's.
    """
    from scipy.stats import t

    differences = paired_differences(second, first)
    if unit == "users":
        rng, n, size = np.random.default_rng(1), len(differences), max(1, BATCH // len(differences))
        means = np.concatenate([
            differences[rng.integers(n, size=(min(size, N_RESAMPLES - done), n))].mean(axis=1)
            for done in range(0, N_RESAMPLES, size)
        ])  # fmt: skip
        low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    else:
        error = differences.std(ddof=1) / np.sqrt(len(differences))
        half = t.ppf((1 + CONFIDENCE) / 2, len(differences) - 1) * error
        low, high = differences.mean() - half, differences.mean() + half
    largest = float(np.abs(differences).max())
    low, high = (float(end) if difference(largest + end, largest) else 0.0 for end in (low, high))
    return PairStatistics(low, high, signed_rank_p_value(differences))


def _tests(first: Group, other: Group, metrics: Sequence[str]) -> Iterator[PairedTest]:
    """Yield the tests of two groups: over users, and over seeds if both groups have several."""
    by_seed, names = len(first.runs) > 1, (other.name, first.name)
    seeds = sorted(first.runs.keys() & other.runs.keys()) if by_seed else [0]
    one, two = ([runs[seed] for seed in seeds] if by_seed else [*runs.values()] for _, runs in (first, other))
    if by_seed and len(seeds) < 2:
        raise LogError(
            f"{first.name} and {other.name}: found seeds {_listed(first.runs)} and {_listed(other.runs)}; "
            "expected at least two in common; simulate both scenarios with the same seeds"
        )
    prints = [[run.manifest["data"].get("fingerprint") for run in runs] for runs in (one, two)]
    for left, right, *own in zip(one, two, *prints, strict=True):
        if own[0] != own[1]:
            raise LogError(
                f"{left.path} and {right.path} cannot be compared by user: found data with fingerprints "
                f"{own[0]} and {own[1]}; expected the same data and split"
            )
    values = [[_last_values(run) for run in runs] for runs in (one, two)]
    for metric in _common(one, two, values, metrics):
        sides = [[found[metric] for found in side] for side in values]
        users = reduce(np.intersect1d, [of for side in sides for of, _ in side])
        if len(users) and len(set(prints[0])) == 1:
            means = [np.mean([own[np.isin(of, users)] for of, own in side], axis=0) for side in sides]
            yield _test(names, "users", metric, *means)
        if by_seed:
            yield _test(
                names, "seeds", metric, *(np.array([own.mean() for _, own in side]) for side in sides)
            )


def _test(names: tuple[str, str], unit: str, metric: str, first: F64, second: F64) -> PairedTest:
    means = float(first.mean()), float(second.mean())
    return PairedTest(*names, unit, metric, len(first), *means, *compare_pairs(first, second, unit))


def _common(
    one: Sequence[Run], two: Sequence[Run], values: Sequence[Sequence[Values]], wanted: Sequence[str]
) -> list[str]:
    """Return the metrics that all runs have, or the wanted ones of them."""
    known = [metric for metric in values[0][0] if all(metric in of for side in values for of in side)]
    for metric in wanted:
        if metric not in known:
            raise LogError(
                f"--metric: found {metric!r}, which {one[0].path} and {two[0].path} do not both have by user"
                f"{did_you_mean(metric, known)}; expected one of {', '.join(known) or 'none'}"
            )
    if not known:
        found = (", ".join(side[0]) or "none" for side in values)
        raise LogError(
            f"{one[0].path} and {two[0].path} have no metric of users in common: found {' and '.join(found)}; add one "
            "to evaluate.metrics"
        )
    return [*wanted] or known


def _seed(run: Run) -> int:
    return int(run.scenario["seed"])


def _listed(seeds: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(seeds)))


def _last_values(run: Run) -> Values:
    """Return users and values of each metric at the last report."""
    found = run.by_user
    last = found["time"] == found["time"].max(initial=0.0)
    metrics = found["metric"][last]
    users, values = found["user"][last], found["value"][last]
    return {
        name: (users[metrics == name], values[metrics == name]) for name in dict.fromkeys(metrics.tolist())
    }
