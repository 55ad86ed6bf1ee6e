"""Durations of a study's runs from a few computed rounds, for kinds of runs that no earlier run predicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gossiprec.base.errors import GossipRecError
from gossiprec.emulation import Progress, RunEstimate
from gossiprec.emulation.estimate.timing import PredictedDuration
from gossiprec.emulation.run.calibration import with_calibration
from gossiprec.study.run_hash import SharedSimulation

MOST_KINDS = 8
"""Number of kinds of runs that are calibrated, in a few seconds each."""
ERROR = 2.0
"""Further factor of error, either way, for runs that were not computed themselves."""
SETTING_UP_S = 3.0
"""Seconds that do not shrink with a run's work."""


def calibrate_kinds(
    simulations: Iterable[SharedSimulation],
    estimates: Mapping[str, RunEstimate | GossipRecError],
    progress: Progress | None,
    seconds: float,
) -> dict[str, RunEstimate | GossipRecError]:
    """Return estimates, by hash, of runs of kinds that no earlier run predicts well: the largest of each is calibrated.

    The durations of others of its kind follow from their work. Nothing is computed for more than :data:`MOST_KINDS`.
    """
    of_kind: dict[str, list[tuple[SharedSimulation, RunEstimate]]] = {}
    for simulation in simulations:
        estimate = estimates[simulation.hash]
        if not isinstance(estimate, GossipRecError):
            of_kind.setdefault(estimate.kind, []).append((simulation, estimate))
    found: dict[str, RunEstimate | GossipRecError] = {}
    for runs in list(of_kind.values())[:MOST_KINDS]:
        largest, estimate = max(runs, key=lambda run: run[1].work)
        calibrated = with_calibration(largest.scenario, estimate, progress, seconds)
        duration = calibrated.duration
        if duration is None or duration is estimate.duration:
            continue
        for simulation, other in runs:
            found[simulation.hash] = replace(
                other, duration=_scaled(duration, other.work / (estimate.work or 1.0))
            )
    return found


def _scaled(duration: PredictedDuration, share: float) -> PredictedDuration:
    """Return the duration of a run with a share of the work."""
    low, high = duration.low * share / ERROR, (SETTING_UP_S + duration.high * share) * ERROR
    return PredictedDuration(duration.seconds * share, low, high, duration.by)
