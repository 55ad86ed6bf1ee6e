"""The speed of earlier runs on this machine, and the predicted duration of another run.

Each complete run leaves its work and its seconds in ``rates.json`` of the cache folder, next to the compiled kernels.
"""

from __future__ import annotations

import json
import math
import platform
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout
from pydantic import PositiveFloat, PositiveInt, TypeAdapter

from gossiprec.base.errors import ResourceError
from gossiprec.base.machine import PRIVATE, cache_dir, why_replaceable
from gossiprec.models import Layout, Model
from gossiprec.runs.run_files import replace_file
from gossiprec.scenario import Scenario

TIMEOUT_S = 2.0
"""Seconds that a run waits for the lock on the file of rates."""
MOST_KEPT = 8
"""Number of the latest runs of a kind of which rates are kept."""
SURE, UNLIKE = 1.25, 4.0
"""Factor of error, either way, of a prediction from a run of the same kind and size, and from other runs."""
OF_AN_UPDATE = 2.0
"""Time of a local epoch without its samples, in merges."""
APART = 30.0
"""Largest factor between the predictions from other kinds of runs at which they are used."""
LONG_S, LARGER = 5.0, 30.0
"""Seconds, and ratio of sizes. A run predicts the duration of one up to this many times as large, or of any if it took
so long itself; otherwise its time is mostly the fixed cost of a run."""
SETTING_UP_S = 1.0
"""Seconds of reading, preparing and writing, for any computation."""


class RunTiming(NamedTuple):
    """The timing of a run: its work (:func:`training_work`), wall seconds after preparation, and threads."""

    work: PositiveFloat
    seconds: PositiveFloat
    threads: PositiveInt


_RATES = TypeAdapter(dict[str, dict[str, list[RunTiming]]])


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
    """Record a run's timing, unless the cache is not writable, belongs to another user, or stays locked."""
    if why_replaceable(_file()):
        return
    with suppress(OSError, NotImplementedError, Timeout, ResourceError):
        _file().parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        with FileLock(_file().with_suffix(".lock"), timeout=TIMEOUT_S):
            rates = _read()
            kinds = rates.setdefault(platform.node(), {})
            kinds[kind] = [*kinds.get(kind, []), rate][-MOST_KEPT:]
            replace_file(_file(), json.dumps(rates).encode())


def predict_duration(kind: str, work: float, threads: int) -> PredictedDuration | None:
    """Return the predicted duration of a run, or None if no comparable run has finished on this machine.

    The prediction follows from the run of the same kind with the nearest work. If there is none, it follows from runs
    of other kinds that train the same model on the same executor, unless these disagree.
    """
    kinds = {
        name: [rate for rate in rates if rate.seconds > LONG_S or work < LARGER * rate.work]
        for name, rates in _read().get(platform.node(), {}).items()
    }
    if same := kinds.get(kind):
        near = min(same, key=lambda rate: abs(math.log(rate.work / work)))
        # the error doubles for a run a hundred times as large
        error = SURE * 2.0 ** (abs(math.log10(near.work / work)) / 2)
        seconds = _seconds(near, work, threads)
        by = f"from {_runs(len(same))} of this kind on this machine"
        return PredictedDuration(seconds, seconds / error, seconds * error, by)
    others = [
        rate for name in kinds if model_and_executor(name) == model_and_executor(kind) for rate in kinds[name]
    ]
    all_ = sorted(_seconds(rate, work, threads) for rate in others)
    if not others or all_[-1] > APART * all_[0]:
        return None
    by = f"from {_runs(len(others))} of other kinds on this machine"
    return PredictedDuration(all_[len(all_) // 2], all_[0] / UNLIKE, all_[-1] * UNLIKE, by)


def _runs(number: int) -> str:
    return "a run" if number == 1 else f"{number} runs"


def model_and_executor(kind: str) -> list[str]:
    """Return the model and the executor of a kind."""
    return kind.split(" ")[:3]


def _seconds(rate: RunTiming, work: float, threads: int) -> float:
    return SETTING_UP_S + rate.seconds * work / rate.work * rate.threads / threads


def _file() -> Path:
    return cache_dir() / "rates.json"


def _read() -> dict[str, dict[str, list[RunTiming]]]:
    """Return the recorded rates by machine and kind; empty if the file is missing or damaged."""
    with suppress(OSError, ValueError):
        if not why_replaceable(_file()):
            return _RATES.validate_json(_file().read_bytes())
    return {}
