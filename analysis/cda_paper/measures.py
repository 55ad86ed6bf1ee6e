"""What a cell of a table is computed from: a number per seed, out of the runs of one or two experiments.

Accuracies and utilities are in percent, as the paper prints them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.cda_paper.experiments import Experiment
from gossiprec.arrays import F64
from gossiprec.figures.series import Run

RULES = ("standardized", "ndcg", "mean_score")
MAIN_RULE = RULES[0]
PerSeed = dict[int, float]
Runs = Mapping[str, Mapping[int, Run]]
"""Finished runs by experiment and seed."""


class Measure(ABC):
    """A number per seed."""

    def experiments(self) -> tuple[Experiment, ...]:
        """Return the experiments that it needs."""
        return self._needs()

    def per_seed(self, runs: Runs, rule: str = MAIN_RULE) -> PerSeed:
        """Return its value for each seed whose runs are there; the rule matters to attacks alone."""
        return self._values(runs, rule)

    @abstractmethod
    def _needs(self) -> tuple[Experiment, ...]: ...

    @abstractmethod
    def _values(self, runs: Runs, rule: str) -> PerSeed: ...


@dataclass(frozen=True)
class Attack(Measure):
    """A number of one attack's line of ``summary.json``.

    Attributes
    ----------
    experiment : Experiment
    observer : str
        Such as ``coalition-5%``.
    momentum : float, optional
        None: the experiment's own.
    k : int
    quantity : str
        ``max_aac``, ``best10_min``, ``best10_mean``, ``upper_bound``, ``random_bound``.
    relevance : str, optional
        Where the attack has one of its own, such as ``mia-0.2``; otherwise the rule asked for.
    """

    experiment: Experiment
    observer: str
    momentum: float | None = None
    k: int = 50
    quantity: str = "max_aac"
    relevance: str | None = None

    def _needs(self) -> tuple[Experiment, ...]:
        return (self.experiment,)

    def of(self, quantity: str) -> Attack:
        """Return another number of the same attack."""
        return replace(self, quantity=quantity)

    def _values(self, runs: Runs, rule: str) -> PerSeed:
        found = {seed: self._line(run, rule) for seed, run in _runs(runs, self.experiment).items()}
        return {
            seed: 100 * line[self.quantity]
            for seed, line in found.items()
            if line is not None and line[self.quantity] is not None
        }

    def _line(self, run: Run, rule: str) -> dict[str, Any] | None:
        for line in (run.summary or {}).get("attacks", []):
            if self.fits(line["observer"], line["relevance"], line["momentum"], line["community_size"], rule):
                return dict(line)
        return None

    def fits(self, observer: str, relevance: str, momentum: float, k: int, rule: str) -> bool:
        """Say whether a line of these keys is this attack's under a relevance rule."""
        wanted = self.experiment.momentum if self.momentum is None else self.momentum
        return (
            observer == self.observer
            and k == self.k
            and relevance == (self.relevance or rule)
            and abs(momentum - wanted) < 1e-6
        )

    def accuracies(self, run: Run, rule: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
        """Return the adversaries and their accuracies (fractions) at the best round; None where there are none."""
        for label, (nodes, accuracies) in run.adversaries.items():
            observer, relevance, momentum, size = label.rsplit("/", 3)
            if self.fits(observer, relevance, float(momentum[1:]), int(size[1:]), rule):
                return nodes, accuracies
        return None


@dataclass(frozen=True)
class Adversaries(Measure):
    """A number (percent) drawn from how accuracy is spread over the adversaries of an attack.

    Attributes
    ----------
    attack : Attack
    take : callable
        From accuracies and the random bound (fractions) to a fraction.
    """

    attack: Attack
    take: Callable[[F64, float], float]

    def _needs(self) -> tuple[Experiment, ...]:
        return self.attack.experiments()

    def _values(self, runs: Runs, rule: str) -> PerSeed:
        bounds = self.attack.of("random_bound").per_seed(runs, rule)
        found = {}
        for seed, run in _runs(runs, self.attack.experiment).items():
            spread = self.attack.accuracies(run, rule)
            if spread is not None and seed in bounds:
                found[seed] = 100 * float(self.take(spread[1], bounds[seed] / 100))
        return found


@dataclass(frozen=True)
class SameAdversaries(Measure):
    """The mean accuracy (percent) of an attack over the adversaries of another, at its own best round."""

    attack: Attack
    others: Attack

    def _needs(self) -> tuple[Experiment, ...]:
        return self.attack.experiments()

    def _values(self, runs: Runs, rule: str) -> PerSeed:
        found = {}
        for seed, run in _runs(runs, self.attack.experiment).items():
            own, other = self.attack.accuracies(run, rule), self.others.accuracies(run, rule)
            if own is not None and other is not None:
                found[seed] = 100 * float(np.mean(own[1][np.isin(own[0], other[0])]))
        return found


@dataclass(frozen=True)
class Utility(Measure):
    """The quality of the recommendations at the end of a run, percent."""

    experiment: Experiment
    metric: str = "hr@20"

    def _needs(self) -> tuple[Experiment, ...]:
        return (self.experiment,)

    def _values(self, runs: Runs, rule: str) -> PerSeed:
        found = {s: (run.summary or {}).get("utility", {}) for s, run in _runs(runs, self.experiment).items()}
        return {seed: 100 * u[self.metric] for seed, u in found.items() if u.get(self.metric) is not None}


@dataclass(frozen=True)
class Fact(Measure):
    """A number of ``summary.json`` as it stands there; a tuple of keys leads into mappings."""

    experiment: Experiment
    keys: tuple[str, ...]

    def _needs(self) -> tuple[Experiment, ...]:
        return (self.experiment,)

    def _values(self, runs: Runs, rule: str) -> PerSeed:
        found = {}
        for seed, run in _runs(runs, self.experiment).items():
            value: Any = run.summary or {}
            for key in self.keys:
                value = value.get(key) if isinstance(value, dict) else None
            if isinstance(value, int | float):
                found[seed] = float(value)
        return found


@dataclass(frozen=True)
class Membership(Measure):
    """A number of membership inference at the round where its community attack does best (fractions)."""

    attack: Attack
    threshold: float
    quantity: str

    def _needs(self) -> tuple[Experiment, ...]:
        return self.attack.experiments()

    def _values(self, runs: Runs, rule: str) -> PerSeed:
        found = {}
        for seed, run in _runs(runs, self.attack.experiment).items():
            lines = [
                line
                for line in (run.summary or {}).get("membership", [])
                if line["observer"] == self.attack.observer
                and abs(line["threshold"] - self.threshold) < 1e-9
                and line[self.quantity] is not None
            ]
            if lines:
                found[seed] = float(lines[-1][self.quantity])
        return found


@dataclass(frozen=True)
class Combined(Measure):
    """Two measures combined seed by seed, such as a difference, over the seeds that both have."""

    first: Measure
    second: Measure
    join: Callable[[float, float], float]

    def _needs(self) -> tuple[Experiment, ...]:
        return (*self.first.experiments(), *self.second.experiments())

    def _values(self, runs: Runs, rule: str) -> PerSeed:
        first, second = self.first.per_seed(runs, rule), self.second.per_seed(runs, rule)
        return {seed: self.join(first[seed], second[seed]) for seed in first if seed in second}


def attack_seconds(experiment: Experiment, label: str) -> Fact:
    """Return the time of an attack, such as ``cda-coordinator``, over all threads."""
    return Fact(experiment, ("attack_seconds", label))


def difference(first: Measure, second: Measure) -> Combined:
    """Return first - second."""
    return Combined(first, second, lambda a, b: a - b)


def factor(first: Measure, second: Measure) -> Combined:
    """Return first / second; NaN where second is zero."""
    return Combined(first, second, lambda a, b: a / b if b else float("nan"))


def loss(before: Measure, after: Measure) -> Combined:
    """Return how much is lost, in percent of `before`."""
    return Combined(before, after, lambda a, b: 100 * (a - b) / a if a else float("nan"))


def mean(values: PerSeed) -> float:
    """Return the mean over seeds; NaN without any."""
    return float(np.mean(list(values.values()))) if values else float("nan")


def spread(values: PerSeed) -> float:
    """Return the standard deviation over seeds (n - 1); NaN with fewer than two."""
    return float(np.std(list(values.values()), ddof=1)) if len(values) > 1 else float("nan")


def _runs(runs: Runs, experiment: Experiment) -> Mapping[int, Run]:
    return runs.get(experiment.name, {})
