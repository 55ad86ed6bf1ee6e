"""The duration of a run, predicted by running its first rounds in a process of their own.

For scenarios of which no comparable run has finished on this machine (:mod:`gossiprec.emulation.estimate.timing`).
The times of the rounds are remembered, so that the next dry run computes nothing.
"""

from __future__ import annotations

import hashlib
import itertools
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
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field, TypeAdapter

from gossiprec.base.errors import GossipRecError
from gossiprec.emulation.estimate.run_estimate import RunEstimate
from gossiprec.emulation.estimate.timing import (
    SETTING_UP_MOST_S,
    Amount,
    Count,
    PredictedDuration,
    TimesFile,
    no_timings,
    waiting_share,
)
from gossiprec.emulation.progress import Progress
from gossiprec.emulation.run.simulate import simulate
from gossiprec.scenario import Scenario, load_scenario
from gossiprec.scenario.registries import scenario_code_version

LENGTHS = ("epochs", "rounds", "wakes")
"""Options of protocols that say how long a run is."""
LIMIT_S = 15.0
"""Times the chosen seconds: when the process is ended, which also loads data and compiles kernels."""
GROWTH = 16.0
"""Most times as many rounds in the next part as in the last one."""
LEAST_ROUNDS = 8
"""Rounds of a part that may be the last one although it is short: fewer may take longest to begin and end."""
FASTER, SLOWER = 1.3, 1.5
"""Factors of error: downwards of the time on a quiet machine, upwards of the time on one with other work."""
FASTER_THAN_FIRST = 4.0
"""A further factor downwards if there was time for one part only, which imports modules and loads kernels."""
LOADED = 5 / 3
"""Times as long as on a quiet machine that a run may take at least, because other work may begin."""
LOAD_ERROR = 2.0
"""Factor by which the load of the moment may exceed the mean of the last minute."""
GROWTH_OF_COSTS = 4.0
"""Most times as long as in the last part that rounds, and attacks at reports, may take at the end: they have met more
nodes."""
SAFE_POWER = 0.25
"""Added to the power of rounds with which the cost of attacks has grown."""
LEAST_MEASURED_S = 0.03
"""Seconds below which a growth is not measurable."""
ONCE = ("load", "setup", "communities", "positions")
"""Parts of a run's time that do not grow with its rounds."""
WIDEST = 12.0
"""Ratio of the ends of a prediction from earlier runs from which on a calibration is worth its time."""


Spent = Annotated[float, Field(ge=0.0, lt=1e30)]


class PartTimes(NamedTuple):
    """Rounds of a part of a run, and seconds of these, of utility and attacks at its report, and of the rest.

    `busy` is the share of this time that its threads had processors.
    """

    rounds: Count
    of_rounds: Amount
    of_utility: Spent
    of_attacks: Spent
    once: Spent
    busy: Annotated[float, Field(ge=0.01, le=1.0)] = 1.0


def _ever_longer(parts: list[PartTimes]) -> list[PartTimes]:
    if any(later.rounds <= part.rounds for part, later in itertools.pairwise(parts)):
        raise ValueError("found a part that is no longer than the one before")
    return parts


class FirstRounds(NamedTuple):
    """Times of parts of a run, computed in about `seconds`, and how many times as long the load made them."""

    parts: Annotated[list[PartTimes], Field(min_length=1), AfterValidator(_ever_longer)]
    seconds: Amount
    waiting: Annotated[float, Field(ge=1.0, lt=1e30)]


FIRST_ROUNDS = TimesFile("first_rounds.json", TypeAdapter(dict[str, dict[str, FirstRounds]]))


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
    """Return the duration of a run predicted from its first rounds, or None if they fail.

    They are computed, unless this was done earlier in as many seconds for this scenario, with any seed and
    reports, with the same code and sizes of the data.

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
    plain = shortened(scenario, estimate)
    key = _key(scenario, plain, estimate)
    found, when = FIRST_ROUNDS.here().get(key), "earlier"
    if found is None or found.seconds < seconds or found.parts[-1].rounds > length[1]:
        if progress:
            progress.phase("computing the first rounds, to estimate the time")
        parts, when = _computed({"scenario": plain, "length": length, "seconds": seconds}), "now"
        if not parts:
            if progress:
                progress.note(
                    f"the first round failed or took over {LIMIT_S * seconds:g} s, so it predicts no time; run without "
                    "--dry-run to see why, or set --calibrate higher"
                )
            return None
        found = FirstRounds(parts, seconds, waiting_share())
        FIRST_ROUNDS.put(key, lambda _: found)
    reports = max(1, scenario.evaluate.reports_up_to(length[1]))  # a run ends with a report
    return predict_from_parts(found, length[1], reports, when)


def _computed(order: Mapping[str, Any]) -> list[PartTimes]:
    """Return the times of the parts that a process of their own has computed; none if it fails at once."""
    printed = ""
    with suppress(OSError, subprocess.CalledProcessError):
        try:
            printed = subprocess.run(
                [sys.executable, "-c", f"from {__name__} import serve; serve()"], input=json.dumps(order).encode(),
                capture_output=True, timeout=LIMIT_S * order["seconds"], check=True,
            ).stdout.decode()  # fmt: skip
        except subprocess.TimeoutExpired as slow:
            printed = (slow.stdout or b"").decode()
    return [PartTimes(*json.loads(line)) for line in printed.splitlines() if line.startswith("[")]


def _key(scenario: Scenario, plain: Mapping[str, Any], estimate: RunEstimate) -> str:
    """Return a digest of what decides the times of a shortened scenario, on the data that its paths name now."""
    decisive = {key: value for key, value in plain.items() if key not in ("name", "seed")}
    decisive["evaluate"] = {key: value for key, value in plain["evaluate"].items() if key != "every"}
    sizes = {key: estimate.sizes.get(key) for key in ("nodes", "items", "interactions", "threads")}
    digested = json.dumps([decisive, sizes, scenario_code_version(scenario)], sort_keys=True)
    return hashlib.sha256(digested.encode()).hexdigest()[:32]


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


def predict_from_parts(found: FirstRounds, rounds: int, reports: int, when: str = "now") -> PredictedDuration:
    """Return the prediction for numbers of rounds and reports, from parts of a run of which the last is the longest.

    Notes
    -----
    The low end is the time that the run takes if it has the machine for itself: of the measured times, the share in
    which the threads had processors. The high end is the largest of three: the measured time, that of a quiet machine
    times the load then or now, and :data:`LOADED` times that of a quiet machine. Costs that grew from part to part
    grow on with the same power of the rounds.
    """
    parts = found.parts
    first, last = parts[0], parts[-1]
    quiet = max(last.busy, 1.0 / (LOAD_ERROR * found.waiting))
    pace = last.of_rounds / last.rounds
    steady, rising, worse = quiet * pace, 1.0, min(GROWTH_OF_COSTS, max(1.0, rounds / last.rounds))
    if len(parts) > 2:  # what a part needs at its begin and end does not grow with its rounds
        before = parts[-2]
        gained = quiet * last.of_rounds - before.busy * before.of_rounds
        steady = min(steady, max(0.0, gained) / (last.rounds - before.rounds))
        numbers = (before.rounds, last.rounds, rounds)
        if before.of_rounds > LEAST_MEASURED_S:
            rising = _growth(numbers, *(p.busy * p.of_rounds / p.rounds for p in parts[-2:]))
        if before.of_attacks > LEAST_MEASURED_S:
            worse = _growth(numbers, *(p.busy * p.of_attacks for p in parts[-2:]), more=SAFE_POWER)
    later = 0 if last.rounds == rounds else reports - 1
    at_reports = reports * last.of_utility + last.of_attacks
    begin = max(part.once for part in parts) + at_reports
    least = min(part.once for part in parts) + at_reports + later * last.of_attacks
    first_use = sum(
        max(0.0, a - b) for a, b in zip(first[1:4], (pace * first.rounds, *last[2:4]), strict=True)
    )
    middle = begin + pace * rounds + later * last.of_attacks + first_use
    middle *= math.sqrt(max(quiet, 1.0 / found.waiting))  # between a quiet machine and the same load again
    high = begin + rising * pace * rounds + later * worse * last.of_attacks + first_use
    low = (quiet * (least + last.of_rounds) + steady * (rounds - last.rounds)) / FASTER
    load = max(1.0, quiet * max(found.waiting, waiting_share(), LOADED))
    words = f"from {last.rounds:,} of {rounds:,} rounds, computed {when}"
    low /= FASTER_THAN_FIRST if len(parts) < 2 else 1.0
    return PredictedDuration(middle, low, high * load * SLOWER + SETTING_UP_MOST_S, words)


def _growth(rounds: tuple[int, int, int], *costs: float, more: float = 0.0) -> float:
    """Return how many times the second cost a cost is at the last number of rounds, if it grows with a power of them.

    `more` is added to the power that follows from two costs.
    """
    first, second = (max(1e-9, cost) for cost in costs)
    power = math.log(second / first) / math.log(rounds[1] / rounds[0]) + more
    grown: float = max(1.0, rounds[2] / rounds[1]) ** min(1.0, max(0.0, power))
    return min(GROWTH_OF_COSTS, grown)


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
    busy = summary["processor_seconds"] / (summary["threads"] * max(summary["wall_seconds"], 1e-3))
    return PartTimes(
        rounds, max(rest, 1e-3), spent["utility"], spent["attacks"], once, max(0.01, min(1.0, busy))
    )
