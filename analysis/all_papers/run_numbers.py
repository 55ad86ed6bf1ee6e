"""The numbers of a row, read from its run directories."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.papers.verdict import PerSeed
from gossiprec.runs import Run

VALIDATION = "val_recall@20"
"""The metric that chooses reports."""
NEAR_BEST = 0.95
Reading = Callable[[Run], float | None]


def read_by_seed(seeds: Mapping[int, Run], read: Reading) -> PerSeed:
    """Return a number by seed, for the runs that have it."""
    found = {seed: read(run) for seed, run in seeds.items()}
    return {seed: float(value) for seed, value in found.items() if value is not None}


def summary_value(run: Run, *path: str) -> Any:
    """Return an entry of a run's summary, or None."""
    found: Any = run.summary
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def summary_reader(*path: str) -> Reading:
    """Return a function that reads a number of the summary."""

    def read(run: Run) -> float | None:
        found: float | None = summary_value(run, *path)
        return found

    return read


def utility_reader(metric: str) -> Reading:
    """Return a function that reads a metric at the report chosen by validation items: ``recall@20[validated]``."""
    return summary_reader("utility", metric)


def cda_reader(entry: str) -> Reading:
    """Return a function that reads a number of the community attack: ``max_aac``, ``upper_bound``, ``random_bound``."""

    def read(run: Run) -> float | None:
        found = [
            one for one in summary_value(run, "attacks") or () if not one["relevance"].startswith("mia-")
        ]
        return max(found, key=lambda one: one["max_aac"])[entry] if found else None

    return read


@dataclass(frozen=True)
class MembershipRates:
    """Quality of membership guesses at their best threshold.

    Attributes
    ----------
    advantage : float
        True positive rate minus false positive rate of the guesses (Yeom et al., CSF 2018).
    threshold, precision, recall : float
    """

    advantage: float
    threshold: float
    precision: float
    recall: float


def best_membership_rates(run: Run) -> MembershipRates | None:
    """Return the best membership guesses of a run, or None if there are none."""
    found = [membership_advantage(one) for one in summary_value(run, "membership") or ()]
    return max(found, key=lambda one: one.advantage, default=None)


def membership_advantage(rates: Mapping[str, Any]) -> MembershipRates:
    """Return the advantage of the guesses in a summary; 0 if none of them is right."""
    accuracy, precision, recall = (rates[key] or 0.0 for key in ("accuracy", "precision", "recall"))
    if not precision:
        return MembershipRates(0.0, rates["threshold"], 0.0, 0.0)
    # with b the fraction of members, accuracy is R b + 1 - b - R b (1/P - 1)
    slope = 1 - 2 * recall + recall / precision
    had = (1 - accuracy) / slope if slope else 1.0
    false = recall * had * (1 / precision - 1) / (1 - had) if had < 1 else 0.0
    return MembershipRates(recall - false, rates["threshold"], precision, recall)


def best_advantage(run: Run) -> float | None:
    """Return the advantage of the best guesses."""
    found = best_membership_rates(run)
    return found.advantage if found else None


def epochs_per_client(run: Run, upto: float = np.inf) -> float:
    """Return the mean number of local epochs per client until a given time, or the passes of a central run."""
    updates = run.events("update")
    total = float(updates["epochs"][updates["time"] <= upto].sum())
    return total if is_central(run) else total / summary_value(run, "nodes")


def is_central(run: Run) -> bool:
    """Return whether one place holds all data."""
    return bool(run.scenario["protocol"]["name"] == "central")


def traffic_reader(direction: str) -> Reading:
    """Return a function that reads the bytes per client and local epoch, ``up`` or ``down`` (equal in gossip)."""

    def read(run: Run) -> float | None:
        by_way = summary_value(run, "bytes") or {}
        total = by_way.get(direction, by_way.get("sent"))
        n_epochs = epochs_per_client(run) * summary_value(run, "nodes")
        return None if is_central(run) or total is None else total / n_epochs

    return read


def rounds_to_near_best(run: Run) -> tuple[int, float] | None:
    """Return the round and the local epochs per client at which validation first reached 95 % of its best."""
    columns = run.metrics
    own = columns["metric"] == VALIDATION
    if not own.any():
        return None
    values = columns["value"][own]
    first = int(np.argmax(values >= NEAR_BEST * values.max()))
    return int(columns["round"][own][first]), epochs_per_client(run, float(columns["time"][own][first]))
