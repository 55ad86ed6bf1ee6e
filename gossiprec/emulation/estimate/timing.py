"""How fast runs were on this machine, and how long another one will take by that.

Each complete run leaves its work and its seconds in ``rates.json`` of the cache folder, beside compiled kernels.
"""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from gossiprec.cache_dir import PRIVATE, cache_dir, exposed
from gossiprec.errors import ResourceError
from gossiprec.eventlog.atomic_write import replace_file
from gossiprec.models import Layout, Model
from gossiprec.scenario import Scenario

PATIENCE_S = 2.0
"""How long a run waits for others that write down theirs."""
MOST_KEPT = 8
"""Runs of a kind whose rates are kept: the latest."""
SURE, UNLIKE = 1.25, 4.0
"""Factor by which a duration may be off, either way: by a run of the same kind and size; by others."""
OF_AN_UPDATE = 2.0
"""Time of a local epoch apart from its samples, in merges."""
APART = 30.0
"""Factor between what runs of other kinds tell, above which they tell nothing."""
LONG_S, LARGER = 5.0, 30.0
"""A run tells how long one takes that is so many times as large, or any, if it took so long itself: else what it took
is mostly what every run takes."""
SETTING_UP_S = 1.0
"""Reading, setting up and writing, whatever is computed."""


class RunTiming(NamedTuple):
    """What a run took: its work (:func:`training_work`), seconds of wall time once it was set up, and threads."""

    work: float
    seconds: float
    threads: int


@dataclass(frozen=True)
class PredictedDuration:
    """How long a run will take, in seconds.

    Attributes
    ----------
    seconds : float
    low, high : float
        It may well be anywhere between.
    by : str
        What that follows from, in words.
    """

    seconds: float
    low: float
    high: float
    by: str


def run_kind(scenario: Scenario, executor: str) -> str:
    """Return what runs have in common whose times are comparable."""
    observers = sorted({f"{each.name} {getattr(each.options, 'who', '')}" for each in scenario.observers})
    recommender = scenario.recommender.name if scenario.recommender else None
    return " ".join([executor, scenario.model.name, str(recommender), scenario.protocol.name, *observers])


def training_work(model: Model, layout: Layout, *, epochs: float, samples: float) -> float:
    """Return the work of so many local epochs of so many samples each, in numbers merged."""
    return epochs * (OF_AN_UPDATE + samples * model.sample_cost(layout)) * layout.row_size


def record_timing(kind: str, rate: RunTiming) -> None:
    """Keep what a run took; nothing if the cache cannot be written to, is not the user's own, or is locked for long."""
    if exposed(_file()):
        return
    with suppress(OSError, NotImplementedError, Timeout, ResourceError):
        _file().parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        with FileLock(_file().with_suffix(".lock"), timeout=PATIENCE_S):
            told = _read()
            kinds = told.setdefault(platform.node(), {})
            kinds[kind] = [*kinds.get(kind, []), list(rate)][-MOST_KEPT:]
            replace_file(_file(), json.dumps(told).encode())


def predict_duration(kind: str, work: float, threads: int) -> PredictedDuration | None:
    """Return how long a run will take, by those that were run on this machine; None: there was none like it.

    By the run of the same kind whose work is nearest; else by runs of other kinds that train the same model by the same
    executor, unless these say too different things.
    """
    kinds = {name: list(_telling(rates, work)) for name, rates in _read().get(platform.node(), {}).items()}
    if same := kinds.get(kind):
        near = min(same, key=lambda rate: abs(math.log(rate.work / work)))
        off = SURE * 2.0 ** (
            abs(math.log10(near.work / work)) / 2
        )  # twice as unsure a hundred times as large
        found = _seconds(near, work, threads)
        return PredictedDuration(
            found, found / off, found * off, f"from {_runs(len(same))} of this kind on this machine"
        )
    others = [rate for name in kinds if model_key(name) == model_key(kind) for rate in kinds[name]]
    all_ = sorted(_seconds(rate, work, threads) for rate in others)
    if not others or all_[-1] > APART * all_[0]:
        return None
    by = f"from {_runs(len(others))} of other kinds on this machine"
    return PredictedDuration(all_[len(all_) // 2], all_[0] / UNLIKE, all_[-1] * UNLIKE, by)


def _telling(rates: list[list[float]], work: float) -> Iterator[RunTiming]:
    """Yield the rates that say anything of a run of so much work."""
    for work_then, seconds, threads in rates:
        if seconds > LONG_S or work < LARGER * work_then:
            yield RunTiming(work_then, seconds, int(threads))


def _runs(number: int) -> str:
    return "a run" if number == 1 else f"{number} runs"


def model_key(kind: str) -> list[str]:
    """Return what trains and what is trained."""
    return kind.split(" ")[:3]


def _seconds(rate: RunTiming, work: float, threads: int) -> float:
    return SETTING_UP_S + rate.seconds * work / rate.work * rate.threads / threads


def _file() -> Any:
    return cache_dir() / "rates.json"


def _read() -> dict[str, dict[str, list[Any]]]:
    """Return what is kept, by machine and kind; nothing if the file is missing or damaged."""
    with suppress(OSError, ValueError):
        told = None if exposed(_file()) else json.loads(_file().read_bytes())
        if isinstance(told, dict):
            return {
                machine: dict(_whole(kinds)) for machine, kinds in told.items() if isinstance(kinds, dict)
            }
    return {}


def _whole(kinds: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield what can be understood."""
    for kind, rates in kinds.items():
        good = [
            each
            for each in (rates if isinstance(rates, list) else [])
            if isinstance(each, list)
            and len(each) == len(RunTiming._fields)
            and all(isinstance(number, int | float) and number > 0 for number in each)
        ]
        if good:
            yield kind, good
