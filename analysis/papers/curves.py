"""Numbers of runs by epoch, and the epochs at which methods are compared.

The printed numbers may come from runs that have not converged, in which rows differ only in speed. Methods are
therefore compared at three reporting points (*looks*): at the last epoch, which is the same for all; at the epoch at
which a reference first reaches its printed value, also the same for all; and each at its own best epoch by the
validation items.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from analysis.papers.comparison import BEST, LAST, Comparison, belongs_to, experiment_name
from analysis.papers.verdict import PerSeed, Runs
from gossiprec.runs import Run


def metric_by_epoch(run: Run, metric: str) -> dict[int, float]:
    """Return a metric of a run by epoch; empty if it was not measured."""
    columns = run.metrics
    own = columns["metric"] == metric
    return dict(zip(columns["round"][own].tolist(), columns["value"][own].tolist(), strict=True))


def metric_by_epoch_and_seed(runs: Runs, experiment: str, metric: str) -> dict[int, PerSeed]:
    """Return a metric by epoch and seed, at the epochs that every seed has."""
    curves = {seed: metric_by_epoch(run, metric) for seed, run in runs.get(experiment, {}).items()}
    if not curves:
        return {}
    common = set.intersection(*(set(one) for one in curves.values()))
    return {epoch: {seed: one[epoch] for seed, one in curves.items()} for epoch in sorted(common)}


def reported_epochs(paper: Comparison, runs: Runs, experiment: str, look: str) -> dict[int, int]:
    """Return the epoch of a reporting point, for each seed that has one."""
    if look == paper.point_at_printed_value:
        if paper.has_other_epochs(experiment):
            return {}
        passed = _passing(paper, runs, paper.setting_of(experiment))
        return {seed: passed[seed] for seed in runs.get(experiment, {}) if seed in passed}
    found = {}
    for seed, run in runs.get(experiment, {}).items():
        by_epoch = metric_by_epoch(run, paper.metrics[paper.leading] if look == LAST else paper.validation)
        if by_epoch:
            found[seed] = max(by_epoch) if look == LAST else max(by_epoch, key=lambda e: (by_epoch[e], -e))
    return found


def _passing(paper: Comparison, runs: Runs, setting: str) -> dict[int, int]:
    """Return the first epoch, by seed, at which the reference reaches its printed value."""
    main = paper.main_table(setting)
    wanted = paper.printed_numbers_in(setting, main).get((paper.reference, paper.leading))
    if wanted is None:
        return {}
    reference = experiment_name(setting, paper.rows[main][paper.reference])
    found = {}
    for seed, run in runs.get(reference, {}).items():
        by_epoch = metric_by_epoch(run, paper.metrics[paper.leading])
        reached = [epoch for epoch, value in by_epoch.items() if value >= wanted.value]
        if reached:
            found[seed] = min(reached)
    return found


def reported_score(paper: Comparison, runs: Runs, experiment: str, column: str, look: str) -> PerSeed:
    """Return a number of a table (a fraction) at a reporting point, by seed."""
    epochs = reported_epochs(paper, runs, experiment, look)
    found = {}
    for seed, epoch in epochs.items():
        by_epoch = metric_by_epoch(runs[experiment][seed], paper.metrics.get(column, column))
        if epoch in by_epoch:
            found[seed] = by_epoch[epoch]
    return found


def baseline_score(paper: Comparison, runs: Runs, setting: str, column: str, order: str) -> PerSeed:
    """Return the number of an order that needs no training, by seed; it is the same in every run of a setting."""
    found: PerSeed = {}
    for experiment, own in runs.items():
        if belongs_to(experiment, setting):
            for seed, run in own.items():
                by_epoch = metric_by_epoch(run, f"{paper.metrics[column]}[{order}]")
                if by_epoch:
                    found.setdefault(seed, next(iter(by_epoch.values())))
    return dict(sorted(found.items()))


def seed_differences(first: PerSeed, second: PerSeed) -> PerSeed:
    """Return first - second for the seeds that both have."""
    return {seed: value - second[seed] for seed, value in first.items() if seed in second}


def has_converged(paper: Comparison, runs: Runs, experiment: str) -> bool:
    """Return whether every seed's best validation report comes before its last."""
    best, last = (reported_epochs(paper, runs, experiment, look) for look in (BEST, LAST))
    return bool(best) and all(epoch < last[seed] for seed, epoch in best.items())


def summary_value(run: Run, *path: str) -> Any:
    """Return an entry of a run's summary, or None."""
    found: Any = run.summary
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def read_by_seed(seeds: Mapping[int, Run], read: Callable[[Run], float | None]) -> PerSeed:
    """Return a number by seed, for the runs that have it."""
    found = {seed: read(run) for seed, run in seeds.items()}
    return {seed: float(value) for seed, value in found.items() if value is not None}
