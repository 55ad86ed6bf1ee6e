"""Paired tests over the users of two runs: a bootstrap interval, and Wilcoxon's test, corrected by Holm's method."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gossiprec.base.arrays import F64, I64
from gossiprec.base.errors import LogError
from gossiprec.runs.run import Run

N_RESAMPLES = 2_000
CONFIDENCE = 0.95
BATCH = 2**22
"""Number of values that are resampled together."""


@dataclass(frozen=True)
class PairedTest:
    """A test of a metric over the users that two runs have in common.

    Attributes
    ----------
    run : str
        The second run.
    metric : str
    users : int
    first, second : float
        Means over these users.
    low, high : float
        95 % interval of the mean difference, second minus first: percentiles of the bootstrap over users.
    p_value, holm : float
        Of Wilcoxon's two-sided test of signed ranks, in which users without a difference do not count; and corrected.
    """

    run: str
    metric: str
    users: int
    first: float
    second: float
    low: float
    high: float
    p_value: float
    holm: float = 1.0


def compare_users(run: Run, others: Sequence[Run]) -> list[PairedTest]:
    """Test the metrics of users at the last reports of runs, each against the first run.

    Raises
    ------
    LogError
        If runs are on other data, have no values of users, or have no metric in common.

    Notes
    -----
    The tests are about the users of these runs, not about other seeds. Users of a run learn from one another, so their
    values are not independent.

    References
    ----------
    S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6, 1979.
    """
    found = [test for other in others for test in _tests(run, other)]
    corrected = correct_by_holm([test.p_value for test in found])
    return [replace(test, holm=float(p)) for test, p in zip(found, corrected, strict=True)]


def correct_by_holm(p_values: Sequence[float]) -> F64:
    """Return p-values corrected for their number by Holm's method, in the same order."""
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return corrected


def _tests(run: Run, other: Run) -> Iterable[PairedTest]:
    prints = [(each.manifest.get("data") or {}).get("fingerprint") for each in (run, other)]
    if prints[0] != prints[1]:
        raise LogError(
            f"{run.path} and {other.path} cannot be compared by user: found data with fingerprints "
            f"{prints[0]} and {prints[1]}; expected the same data and split"
        )
    first, second = _last_values(run), _last_values(other)
    common = [metric for metric in first if metric in second]
    if not common:
        raise LogError(
            f"{run.path} and {other.path} have no metric of users in common: found "
            f"{', '.join(first) or 'none'} and {', '.join(second) or 'none'}; add one to evaluate.metrics"
        )
    for metric in common:
        users, at, there = np.intersect1d(first[metric][0], second[metric][0], return_indices=True)
        if len(users):
            yield _test(str(other.path), metric, first[metric][1][at], second[metric][1][there])


def _last_values(run: Run) -> dict[str, tuple[I64, F64]]:
    """Return users and values of each metric at the last report."""
    found = run.by_user
    last = found["time"] == found["time"].max(initial=0.0)
    metrics = found["metric"][last]
    users, values = found["user"][last], found["value"][last]
    return {
        name: (users[metrics == name], values[metrics == name]) for name in dict.fromkeys(metrics.tolist())
    }


def _test(run: str, metric: str, first: F64, second: F64) -> PairedTest:
    from scipy.stats import wilcoxon

    difference = second - first
    rng, size = np.random.default_rng(1), max(1, BATCH // len(difference))
    means = np.concatenate([
        difference[rng.integers(len(difference), size=(min(size, N_RESAMPLES - done), len(difference)))].mean(axis=1)
        for done in range(0, N_RESAMPLES, size)
    ])  # fmt: skip
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    p_value = float(wilcoxon(difference).pvalue) if difference.any() else 1.0
    return PairedTest(
        run,
        metric,
        len(difference),
        float(first.mean()),
        float(second.mean()),
        float(low),
        float(high),
        p_value,
    )
