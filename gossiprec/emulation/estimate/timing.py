"""The speed of earlier runs on this machine, and the predicted duration of another run.

Each complete run leaves its work and its seconds in ``rates.json`` of the cache folder, next to the compiled kernels,
or of the folder that the environment names in ``GOSSIPREC_RATES``.
"""

from __future__ import annotations

import functools
import math
import os
import platform
import statistics
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

from filelock import FileLock, Timeout
from pydantic import Field, TypeAdapter

from gossiprec.base.errors import DataError, ResourceError
from gossiprec.base.inputs import read_regular_file
from gossiprec.base.machine import PRIVATE, cache_dir, usable_cores, why_replaceable
from gossiprec.models import Layout, Model
from gossiprec.runs.run_files import replace_file
from gossiprec.scenario import Scenario

TIMEOUT_S = 2.0
"""Seconds that a run waits for the lock on the file of rates."""
MOST_KEPT = 8
"""Number of the latest runs of a kind of which rates are kept."""
MOST_KINDS = 64
"""Number of kinds of which rates are kept: those that ran last. Each run reads and writes all of them."""
MOST_MACHINES = 32
"""Number of machines of which rates are kept: those that stored last. Each start of a container is a new machine."""
MOST_BYTES = 1 << 24
"""Size of a file of rates from which on it is damaged: a full one has a fifth of this."""
LEAST_ERROR = {True: 2.0, False: 3.0}
"""Least factor of error, either way, of a prediction from runs of the same kind and from other kinds: on a machine with
other work, times of equal runs differ by as much."""
FIXED_S, FIXED_SHARE = 2.0, 0.9
"""Seconds, and share of its time, that a run may have spent on parts that do not grow with its work."""
COVERED = 0.95
"""Share of earlier runs that the interval contains, if each is predicted from the others."""
NEAREST = 5
"""Number of runs of other kinds that predict a duration: those with the nearest work."""
OF_AN_UPDATE = 2.0
"""Time of a local epoch without its samples, in merges."""
ALIKE = 1.0
"""Decades between the works of two runs up to which the error of a prediction counts for the interval of others;
beyond, it doubles for each further factor of a hundred."""
MOST_JUDGED = 40
"""Number of recorded runs that are predicted from one another to find the errors of predictions."""
APART = 30.0
"""Largest factor of error, either way, at which a prediction is of use."""
LONG_S, LARGER = 5.0, 30.0
"""Seconds, and ratio of sizes. A run predicts the duration of one up to this many times as large, or of any if it took
so long itself; otherwise its time is mostly the fixed cost of a run."""
SETTING_UP_S, SETTING_UP_LEAST_S, SETTING_UP_MOST_S = 1.0, 0.1, 3.0
"""Seconds of reading, preparing and writing, for any computation: expected, and the likely range."""


Amount = Annotated[float, Field(gt=1e-30, lt=1e30)]
"""A number in the file of rates with which any computation remains finite."""
Count = Annotated[int, Field(ge=1, lt=1 << 53)]


class RunTiming(NamedTuple):
    """The timing of a run: its work (:func:`training_work`), wall seconds after preparation, and threads."""

    work: Amount
    seconds: Amount
    threads: Count


_RATES = TypeAdapter(dict[str, dict[str, list[RunTiming]]])
"""The content of the file of rates: timings by machine and kind."""


def rates_path() -> Path:
    """Return the path of the file of rates."""
    return Path(os.environ.get("GOSSIPREC_RATES") or cache_dir()) / "rates.json"


def read_rates() -> dict[str, dict[str, list[RunTiming]]]:
    """Return all timings, by machine and kind; empty if the file is missing, damaged, or could be another user's."""
    path = rates_path()
    with suppress(OSError, ValueError, DataError):
        if not why_replaceable(path):
            return _RATES.validate_json(read_regular_file(path, most_bytes=MOST_BYTES))
    return {}


@dataclass(frozen=True)
class PredictedDuration:
    """The predicted duration of a run, in seconds.

    Attributes
    ----------
    seconds : float
    low, high : float
        The likely range.
    by : str
        The source of the prediction, in words.
    """

    seconds: float
    low: float
    high: float
    by: str


def run_kind(scenario: Scenario, executor: str) -> str:
    """Return the kind of a run, which runs with comparable times share."""
    choices = (*scenario.adversaries, *scenario.observers)
    observers = sorted({f"{choice.name} {getattr(choice.options, 'who', '')}" for choice in choices})
    recommender = scenario.recommender.name if scenario.recommender else None
    return " ".join([executor, scenario.model.name, str(recommender), scenario.protocol.name, *observers])


def training_work(model: Model, layout: Layout, *, epochs: float, samples: float) -> float:
    """Return the work of a number of local epochs, each of a number of samples, in numbers merged."""
    return epochs * (OF_AN_UPDATE + samples * model.sample_cost(layout)) * layout.row_size


def record_timing(kind: str, rate: RunTiming) -> None:
    """Record a run's timing, unless the folder is not writable, belongs to another user, or stays locked.

    The :data:`MOST_KINDS` kinds of a machine, and :data:`MOST_MACHINES` machines, that ran last are kept.
    """
    path = rates_path()
    if why_replaceable(path):
        return
    with suppress(OSError, NotImplementedError, Timeout, ResourceError):
        path.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock"), timeout=TIMEOUT_S):
            rates = read_rates()
            kinds = rates.pop(platform.node(), {})
            kinds[kind] = [*kinds.pop(kind, ()), rate][-MOST_KEPT:]  # last
            rates[platform.node()] = dict(list(kinds.items())[-MOST_KINDS:])
            rates = dict(list(rates.items())[-MOST_MACHINES:])
            replace_file(path, _RATES.dump_json(rates))


def predict_duration(kind: str, work: float, threads: int) -> PredictedDuration | None:
    """Return the predicted duration of a run, or None if no comparable run has finished on this machine.

    The prediction follows from the run of the same kind with the nearest work. If there is none, it follows from runs
    of other kinds that train the same model on the same executor, unless these disagree.

    Notes
    -----
    The interval is calibrated: each recorded run is predicted from the others in the same way, and the interval is as
    wide as it must be to contain most of them, at least a factor :data:`LEAST_ERROR` either way. It
    covers parts of a run that do not grow with its work, such as the last scores. Its upper end grows with the
    processes that wait for the machine's cores now.
    """
    rates = [(name, rate) for name, found in read_rates().get(platform.node(), {}).items() for rate in found]
    found = _predict(rates, kind, work, threads)
    if found is None:
        return None
    errors = _errors(_judged(rates, kind))[found.is_same]
    least = LEAST_ERROR[found.is_same]
    error = max(least, errors[math.ceil(COVERED * len(errors)) - 1] if errors else 1.0)
    error *= 2.0 ** (max(0.0, found.distance - ALIKE) / 2)
    low, high = found.low / error, found.high * error
    if high > APART**2 * low:
        return None
    of = "this kind" if found.is_same else "other kinds"
    runs = "a run" if found.number == 1 else f"{found.number} runs"
    return PredictedDuration(
        SETTING_UP_S + found.seconds,
        SETTING_UP_LEAST_S + low,
        (SETTING_UP_MOST_S + high) * waiting_share(),
        f"from {runs} of {of} on this machine",
    )


def waiting_share() -> float:
    """Return the load of the last minute per core, at least 1: how many times as long a run may take."""
    with suppress(OSError, AttributeError):
        return max(1.0, os.getloadavg()[0] / usable_cores())
    return 1.0


class _Prediction(NamedTuple):
    """Seconds after preparation, with their range, from a number of runs of the same kind or of other kinds.

    `distance` is the number of decades between the works.
    """

    seconds: float
    low: float
    high: float
    is_same: bool
    number: int
    distance: float


def _predict(
    rates: Sequence[tuple[str, RunTiming]], kind: str, work: float, threads: int
) -> _Prediction | None:
    """Return the prediction from some runs, or None if none is comparable."""

    def distance(rate: RunTiming) -> float:
        return abs(math.log10(rate.work / work))

    usable = [(name, r) for name, r in rates if r.seconds > LONG_S or work < LARGER * r.work]
    same = [rate for name, rate in usable if name == kind]
    alike = [r for name, r in usable if model_and_executor(name) == model_and_executor(kind)]
    near = sorted(same, key=distance)[:1] or sorted(alike, key=distance)[:NEAREST]
    if not near:
        return None

    def scaled(rate: RunTiming, fixed_share: float) -> float:
        fixed = fixed_share * min(rate.seconds, FIXED_S)
        return fixed + (rate.seconds - fixed) * work / rate.work * rate.threads / threads

    middle = statistics.median(scaled(rate, FIXED_SHARE / 2) for rate in near)
    ends = [scaled(rate, share) for rate in near for share in (0.0, FIXED_SHARE)]
    apart = statistics.median(map(distance, near))
    return _Prediction(middle, min(ends), max(ends), bool(same), len(same or alike), apart)


def _judged(rates: Sequence[tuple[str, RunTiming]], kind: str) -> list[tuple[str, RunTiming]]:
    """Return up to :data:`MOST_JUDGED` runs: those of the same model and executor first, then some of all others.

    The effort grows with the square of their number.
    """
    alike = [one for one in rates if model_and_executor(one[0]) == model_and_executor(kind)][-MOST_JUDGED:]
    others = [one for one in rates if model_and_executor(one[0]) != model_and_executor(kind)]
    room = MOST_JUDGED - len(alike)
    step = max(1, -(-len(others) // room)) if room else 1
    return [*alike, *others[::step][:room]]


def _errors(rates: Sequence[tuple[str, RunTiming]]) -> dict[bool, list[float]]:
    """Return the sorted factors of error with which the runs of each kind, and of other kinds, predict each run."""
    errors: dict[bool, list[float]] = {True: [], False: []}
    for place, (kind, rate) in enumerate(rates):
        others = [*rates[:place], *rates[place + 1 :]]
        strangers = [(name, other) for name, other in others if name != kind]
        for is_same, known in ((True, others), (False, strangers)):
            found = _predict(known, kind, rate.work, rate.threads)
            if found is not None and found.is_same is is_same and found.distance <= ALIKE:
                errors[is_same].append(max(1.0, found.low / rate.seconds, rate.seconds / found.high))
    return {is_same: sorted(found) for is_same, found in errors.items()}


@functools.cache
def model_and_executor(kind: str) -> list[str]:
    """Return the model and the executor of a kind."""
    return kind.split(" ")[:3]
