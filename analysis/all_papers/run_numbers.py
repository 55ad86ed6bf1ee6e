"""The numbers of a row, each read from the run directory that has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.papers.seed_statistics import PerSeed
from gossiprec.eventlog import Run

VALIDATION = "val_recall@20"
"""By which reports are chosen."""
NEAR_BEST = 0.95
Reading = Callable[[Run], float | None]


def read_by_seed(seeds: Mapping[int, Run], read: Reading) -> PerSeed:
    """Return a number by seed, of the runs that have it."""
    found = {seed: read(run) for seed, run in seeds.items()}
    return {seed: float(value) for seed, value in found.items() if value is not None}


def summary_value(run: Run, *path: str) -> Any:
    """Return an entry of a run's summary; None if it has none."""
    found: Any = run.summary
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def summary_reader(*path: str) -> Reading:
    """Return what reads a number of the summary."""

    def read(run: Run) -> float | None:
        found: float | None = summary_value(run, *path)
        return found

    return read


def utility_reader(metric: str) -> Reading:
    """Return what reads a metric, as it stood at the report that validation items choose: ``recall@20[validated]``."""
    return summary_reader("utility", metric)


def cda_reader(entry: str) -> Reading:
    """Return what reads a number of the community attack: ``max_aac``, ``upper_bound`` or ``random_bound``."""

    def read(run: Run) -> float | None:
        found = [
            one for one in summary_value(run, "attacks") or () if not one["relevance"].startswith("mia-")
        ]
        return max(found, key=lambda one: one["max_aac"])[entry] if found else None

    return read


@dataclass(frozen=True)
class MembershipRates:
    """How good guesses at who has what are at the threshold at which they are best.

    Attributes
    ----------
    advantage : float
        Share of the items had that are guessed, less the share of others that are (Yeom et al., CSF 2018).
    threshold, precision, recall : float
    """

    advantage: float
    threshold: float
    precision: float
    recall: float


def best_membership_rates(run: Run) -> MembershipRates | None:
    """Return the best guesses of a run; None if nobody made any."""
    found = [membership_advantage(one) for one in summary_value(run, "membership") or ()]
    return max(found, key=lambda one: one.advantage, default=None)


def membership_advantage(rates: Mapping[str, Any]) -> MembershipRates:
    """Return the advantage of guesses that a summary tells of; 0 where none of them is right."""
    accuracy, precision, recall = (rates[key] or 0.0 for key in ("accuracy", "precision", "recall"))
    if not precision:
        return MembershipRates(0.0, rates["threshold"], 0.0, 0.0)
    # with b the share had, accuracy is R b + 1 - b - R b (1/P - 1)
    slope = 1 - 2 * recall + recall / precision
    had = (1 - accuracy) / slope if slope else 1.0
    false = recall * had * (1 / precision - 1) / (1 - had) if had < 1 else 0.0
    return MembershipRates(recall - false, rates["threshold"], precision, recall)


def best_advantage(run: Run) -> float | None:
    """Return the advantage of the best guesses."""
    found = best_membership_rates(run)
    return found.advantage if found else None


def epochs_per_client(run: Run, upto: float = np.inf) -> float:
    """Return how many local epochs a client has had on average by some time, of the coordinator's data its passes."""
    updates = run.events("update")
    total = float(updates["epochs"][updates["time"] <= upto].sum())
    return total if is_central(run) else total / summary_value(run, "nodes")


def is_central(run: Run) -> bool:
    """Say whether one place holds all data."""
    return bool(run.scenario["protocol"]["name"] == "central")


def traffic_reader(direction: str) -> Reading:
    """Return what reads the bytes of a client and local epoch: ``up``, ``down``; in gossip both are what is sent."""

    def read(run: Run) -> float | None:
        by_way = summary_value(run, "bytes") or {}
        total = by_way.get(direction, by_way.get("sent"))
        n_epochs = epochs_per_client(run) * summary_value(run, "nodes")
        return None if is_central(run) or total is None else total / n_epochs

    return read


def rounds_to_near_best(run: Run) -> tuple[int, float] | None:
    """Return the round, and the local epochs a client has had, at which validation came to 95 % of its best."""
    columns = run.metrics
    own = columns["metric"] == VALIDATION
    if not own.any():
        return None
    values = columns["value"][own]
    first = int(np.argmax(values >= NEAR_BEST * values.max()))
    return int(columns["round"][own][first]), epochs_per_client(run, float(columns["time"][own][first]))
