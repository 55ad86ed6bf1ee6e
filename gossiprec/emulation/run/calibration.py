"""The duration of a run, predicted by running its first rounds in a process of their own.

For scenarios of which no comparable run has finished on this machine (:mod:`gossiprec.emulation.estimate.timing`).
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from gossiprec.base.errors import GossipRecError
from gossiprec.emulation.estimate.run_estimate import RunEstimate
from gossiprec.emulation.estimate.timing import PredictedDuration, no_timings, waiting_share
from gossiprec.emulation.progress import Progress
from gossiprec.emulation.run.simulate import simulate
from gossiprec.scenario import Scenario, load_scenario

LENGTHS = ("epochs", "rounds", "wakes")
"""Options of protocols that say how long a run is."""
LIMIT_S = 15.0
"""Times the chosen seconds: when the process is ended, which also loads data and compiles kernels."""
GROWTH = 16.0
"""Most times as many rounds in the next part as in the last one."""
LEAST_ROUNDS = 8
"""Rounds of a part that may be the last one although it is short: fewer may take longest to begin and end."""
ERROR = 2.5
"""Factor of error, either way: on a machine with other work, times of equal runs differ by as much."""
ERROR_OF_FIRST = 12.0
"""The same downwards if there was time for one part only, which imports modules and loads kernels."""
ATTACK_GROWTH = 4.0
"""Times as long as at the first report that attacks may take at a later one, because they have met more nodes."""
ONCE = ("load", "setup", "communities", "positions")
"""Parts of a run's time that do not grow with its rounds."""
WIDEST = 12.0
"""Ratio of the ends of a prediction from earlier runs from which on a calibration is worth its time."""


class PartTimes(NamedTuple):
    """Rounds of a part of a run, and seconds of these, of utility and attacks at its report, and of the rest."""

    rounds: int
    of_rounds: float
    of_utility: float
    of_attacks: float
    once: float


def with_calibration(
    scenario: Scenario, estimate: RunEstimate, progress: Progress | None, seconds: float
) -> RunEstimate:
    """Return an estimate, with the duration that a calibration finds if earlier runs predict none, or a wide range.

    Nothing is computed if `seconds` is 0, or if the run does not fit into memory.
    """
    known = estimate.duration
    if not seconds or (known is not None and known.high < WIDEST * known.low):
        return estimate
    with suppress(GossipRecError):
        estimate.check_fits()
        if found := calibrate(scenario, estimate, progress, seconds):
            return replace(estimate, duration=found)
    return estimate


def calibrate(
    scenario: Scenario, estimate: RunEstimate, progress: Progress | None, seconds: float
) -> PredictedDuration | None:
    """Return the duration of a run predicted from its first rounds, which are computed, or None if they fail.

    Parameters
    ----------
    scenario : Scenario
    estimate : RunEstimate
        Its estimate, which names the executor.
    progress : Progress or None
    seconds : float
        Time to compute in; in addition, data are loaded and kernels are compiled, up to :data:`LIMIT_S` times as long.
    """
    length = run_length(scenario)
    if length is None or scenario.executor.shards > 1:
        return None
    if progress:
        progress.phase("computing the first rounds, to estimate the time")
    order = {"scenario": shortened(scenario, estimate), "length": length, "seconds": seconds}
    program = f"from {__name__} import serve; serve()"
    printed = ""
    with suppress(OSError, subprocess.CalledProcessError):
        try:
            printed = subprocess.run(
                [sys.executable, "-c", program], input=json.dumps(order).encode(), capture_output=True,
                timeout=LIMIT_S * seconds, check=True,
            ).stdout.decode()  # fmt: skip
        except subprocess.TimeoutExpired as slow:
            printed = (slow.stdout or b"").decode()
    parts = [PartTimes(*json.loads(line)) for line in printed.splitlines() if line.startswith("[")]
    if not parts:
        if progress:
            progress.note(
                f"the first round failed or took over {LIMIT_S * seconds:g} s, so it predicts no time; run without "
                "--dry-run to see why, or set --calibrate higher"
            )
        return None
    reports = max(1, scenario.evaluate.reports_up_to(length[1]))  # a run ends with a report
    return predict_from_parts(parts, length[1], reports)


def run_length(scenario: Scenario) -> tuple[str, int] | None:
    """Return the option that says how long a run is, and its value."""
    options = scenario.protocol.options
    return next(((key, getattr(options, key)) for key in LENGTHS if hasattr(options, key)), None)


def shortened(scenario: Scenario, estimate: RunEstimate) -> dict[str, Any]:
    """Return a scenario with one report, at its end, and nothing that happens at later rounds."""
    plain: dict[str, Any] = json.loads(json.dumps(scenario.resolved()))
    for section in ("stop", "changes"):
        plain.pop(section, None)
    plain["evaluate"] |= {"also": None, "keep": None}
    plain["checkpoint"] = {"minutes": None}
    if estimate.sizes["executor"] in ("fused", "batched", "reference"):
        plain["executor"]["name"] = estimate.sizes["executor"]
    return plain


def predict_from_parts(parts: list[PartTimes], rounds: int, reports: int) -> PredictedDuration:
    """Return the prediction for numbers of rounds and reports, from parts of a run of which the last is the longest."""
    first, last = parts[0], parts[-1]
    pace = steady = last.of_rounds / last.rounds
    if len(parts) > 2:  # what a part needs at its begin and end does not grow with its rounds
        before = parts[-2]
        steady = min(pace, max(0.0, last.of_rounds - before.of_rounds) / (last.rounds - before.rounds))
    later = 0 if last.rounds == rounds else reports - 1
    begin = max(part.once for part in parts) + reports * last.of_utility + last.of_attacks
    high = begin + pace * rounds + later * ATTACK_GROWTH * last.of_attacks
    middle = begin + math.sqrt(steady * pace) * rounds + later * last.of_attacks
    low = (begin + steady * rounds) / (ERROR if len(parts) > 1 else ERROR_OF_FIRST)
    low /= waiting_share()  # the run may have the cores for itself
    gained = (a - b for a, b in zip(first[1:4], (pace * first.rounds, *last[2:4]), strict=True))
    first_use = sum(max(0.0, seconds) for seconds in gained)
    words = f"from {last.rounds:,} of {rounds:,} rounds, computed now"
    return PredictedDuration(middle + first_use, low, (high + first_use) * ERROR, words)


def serve() -> None:
    """Compute parts of the scenario on standard input, each longer than the one before, and print their times."""
    order = json.load(sys.stdin)
    key, rounds = order["length"]
    for part in compute_parts(order["scenario"], key, rounds, order["seconds"]):
        print(json.dumps(part), flush=True)


def compute_parts(plain: Mapping[str, Any], key: str, rounds: int, seconds: float) -> Iterator[PartTimes]:
    """Yield the times of parts of a run: of one round, and of more until the time is spent."""
    first = _compute_part(plain, key, 1)  # also imports modules, compiles and loads kernels
    yield first
    begin, most = time.monotonic(), min(rounds, 2)
    while rounds > 1:
        part = _compute_part(plain, key, most)
        yield part
        spent, enough = time.monotonic() - begin, part.of_rounds > seconds / 4 and most >= LEAST_ROUNDS
        if most == rounds or enough or part.of_rounds > seconds or spent > 2 * seconds:
            return
        most = min(rounds, round(most * min(GROWTH, max(2.0, seconds / 2 / part.of_rounds))))


def _compute_part(plain: Mapping[str, Any], key: str, rounds: int) -> PartTimes:
    protocol, evaluate = {**plain["protocol"], key: rounds}, {**plain["evaluate"], "every": rounds}
    scenario = load_scenario({**plain, "protocol": protocol, "evaluate": evaluate})
    with tempfile.TemporaryDirectory(prefix="gossiprec-") as folder, no_timings():
        summary = simulate(scenario, out=Path(folder) / "part").summary or {}
    spent = {"utility": 0.0, "attacks": 0.0, **summary["seconds"]}
    once = sum(spent.get(part, 0.0) for part in ONCE)
    rest = (
        summary["wall_seconds"]
        - once
        - sum(spent.get(part, 0.0) for part in ("compile", "utility", "attacks"))
    )
    return PartTimes(rounds, max(rest, 1e-3), spent["utility"], spent["attacks"], once)
