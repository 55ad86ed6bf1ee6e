"""Contracts of measures of recommendations and of trackers."""

from __future__ import annotations

import copy
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.base.features import FeatureTable, LabelColumn
from gossiprec.base.ragged import Ragged
from gossiprec.measures import (
    MEASURES,
    NOTHING,
    NOWHERE,
    Measure,
    MeasureData,
    RelevantRanks,
    TargetRanks,
    TopItems,
)
from gossiprec.measures.selectors import read_metric
from gossiprec.testing.tiny_runs import check_claims, registered_as
from gossiprec.trackers import Tracker

N_USERS, N_ITEMS = 9, 30
LENGTHS = (1, 3, 20)


@dataclass(frozen=True)
class MeasureCase:
    """A measure and its name in a scenario."""

    measure: type[Measure]
    name: str

    @cached_property
    def made(self) -> Measure:
        """The measure, made for tiny data."""
        return self.measure(_tiny_data())

    def values(self, seen: Any, k: int) -> F64:
        """Return the measure's values on read-only input."""
        for part in vars(seen).values():
            if isinstance(part, np.ndarray):
                part.setflags(write=False)
        return self.made.compute_values(seen, k)


def check_measure(measure: type[Measure]) -> None:
    """Check a measure on random lists.

    Parameters
    ----------
    measure : type of Measure
        The class; it need not be registered. If it is, its name is checked too.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    """
    with registered_as(MEASURES, measure) as name:
        case = MeasureCase(measure, name)
        check_claims(f"the measure {measure.__name__}", __name__, case=case)


def _tiny_data() -> MeasureData:
    """Return data in which each user has a few items of each part."""
    items = np.argsort(np.random.default_rng(0).random((N_USERS, N_ITEMS)), axis=1).astype(np.int32)
    train, validation, test = (Ragged.from_parts([*np.sort(items[:, n : n + 4], axis=1)]) for n in (0, 4, 8))
    for part in (train, validation, test):
        part.values.setflags(write=False)
    codes = Ragged.from_parts([np.array([n % 3], np.int32) for n in range(N_ITEMS)])
    genres = LabelColumn(("a", "b", "c"), codes)
    kinds = FeatureTable(("genres",), (genres,))
    return MeasureData("tiny", N_USERS, N_ITEMS, train, validation, test, item_features=kinds)


def _ranks(seed: int) -> tuple[RelevantRanks, TargetRanks, TopItems]:
    """Return an example of each input type."""
    draw = np.random.default_rng(seed)
    lists = np.argsort(draw.random((N_USERS, N_ITEMS)), axis=1).astype(np.int32)
    ranks = np.sort(np.argsort(lists, axis=1)[:, :6].astype(np.int32), axis=1)
    for row, size in zip(ranks, draw.integers(1, 7, N_USERS), strict=True):
        row[size:] = NOWHERE
    targets = np.argsort(lists, axis=1)[:, :4].astype(np.int32)
    targets[draw.random(targets.shape) < 0.3] = NOTHING
    users = np.arange(N_USERS)
    return RelevantRanks(ranks, users), TargetRanks(targets, users), TopItems(lists[:, :20], N_ITEMS, users)


def _input_of(case: MeasureCase, examples: tuple[Any, ...]) -> Any:
    (found,) = [part for part in examples if type(part) is case.measure.wants]
    return found


def _mean(values: F64) -> float:
    known = values[~np.isnan(values)]
    return float(known.sum()) / max(len(known), 1)


def its_input_type_exists(case: MeasureCase) -> None:
    """Name RelevantRanks, TargetRanks or TopItems as the input type."""
    types = (RelevantRanks, TargetRanks, TopItems)
    assert case.measure.wants in types, f"Found {case.measure.wants}."


def values_are_shares(case: MeasureCase) -> None:
    """Return one-dimensional float64: values from 0 to 1, or NaN for unknown, but not only NaN."""
    for seed in range(5):
        for k in LENGTHS:
            values = case.values(_input_of(case, _ranks(seed)), k)
            assert values.dtype == np.float64, f"Found {values.dtype}."
            assert values.ndim == 1, f"Found shape {values.shape}."
            known = values[~np.isnan(values)]
            assert len(known), f"All are NaN at k = {k}."
            low, high = known.min(), known.max()
            assert 0 <= low <= high <= 1, f"Found {low:g} to {high:g} at k = {k}."


def users_have_values_of_their_own(case: MeasureCase) -> None:
    """Return one value per list, or set per_user to False; target ranks have values per target."""
    seen = _input_of(case, _ranks(0))
    if case.measure.per_user and not isinstance(seen, TargetRanks):
        assert len(case.values(seen, 3)) == N_USERS, f"Found {len(case.values(seen, 3))} of {N_USERS} lists."


def the_order_of_users_does_not_matter(case: MeasureCase) -> None:
    """Have the same mean whatever the order of the users."""
    for seed in range(5):
        seen = _input_of(case, _ranks(seed))
        columns = {key: part for key, part in vars(seen).items() if key != "n_items"}
        turned = vars(seen) | {key: np.roll(part, 1, axis=0) for key, part in columns.items()}
        for k in LENGTHS:
            one, other = (_mean(case.values(some, k)) for some in (seen, type(seen)(**turned)))
            is_close = np.isclose(one, other, rtol=1e-6, atol=1e-12)
            assert is_close, f"Found {one:g}, and {other:g} in another order."


def lower_ranks_do_not_matter(case: MeasureCase) -> None:
    """Use only the first k items."""
    relevant, targets, top = _ranks(1)
    ranks, places = relevant.ranks, targets.ranks
    lower = (
        replace(relevant, ranks=np.where((ranks < 3) | (ranks == NOWHERE), ranks, ranks + 1)),
        replace(targets, ranks=np.where(places < 3, places, places + 1)),
        replace(top, items=top.items[:, :3]),
    )
    one, other = (case.values(_input_of(case, some), 3) for some in (_ranks(1), lower))
    assert np.array_equal(one, other, equal_nan=True), "Items behind them change values at k = 3."


def a_scenario_can_name_it(case: MeasureCase) -> None:
    """Have a name that a scenario can contain."""
    assert read_metric(f"{case.name}@5").measure is case.measure, f"{case.name}@5 is another measure."


Begin: TypeAlias = Callable[..., Tracker]
"""A function that begins a tracker of the run in a folder: ``begin(folder, called=None, resumed=False)``."""

SCENARIO = {"name": "tiny", "seed": 3, "observers": [{"name": "cda", "momentum": 0.9}], "recommender": None}
FIGURES = {"metrics/hr@20": 0.25, "aac/coalition-5% standardized 0.99 50": 0.5}
STATUSES = ("complete", "interrupted", "failed")
OURS = {"manifest.json": b"{}", "events.mplog": b"\x00\x01", "metrics.csv": b"time,round,metric,value\n"}


def check_tracker(tracker: type[Tracker]) -> None:
    """Check a tracker on runs in temporary folders, in the caller's working folder and environment.

    Parameters
    ----------
    tracker : type of Tracker
        The class; it need not be registered. The packages in its ``modules`` must be installed.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    """

    def begin(run: Path, *, called: str | None = None, resumed: bool = False) -> Tracker:
        for name, content in OURS.items():
            (run / name).write_bytes(content)
        return tracker(run, copy.deepcopy(SCENARIO), name=called or run.name, resumed=resumed)

    check_claims(f"the tracker {tracker.__name__}", __name__, begin=begin)


def _track(begin: Begin, folder: Path, *rounds: int, status: str = "complete", **options: Any) -> None:
    """Begin a tracker, report some rounds, and end it."""
    tracker = begin(folder, **options)
    for number in rounds:
        tracker.report(dict(FIGURES), round=number, time=number / 2)
    tracker.end(status)


def runs_may_end_in_any_way(begin: Begin) -> None:
    """Accept runs that end in any way, also before their first report."""
    for status in STATUSES:
        for rounds in ((), (1, 2)):
            with tempfile.TemporaryDirectory() as folder:
                _track(begin, Path(folder), *rounds, status=status)


def a_run_may_be_resumed(begin: Begin) -> None:
    """Accept a resumed run, also from a round that was reported before."""
    with tempfile.TemporaryDirectory() as folder:
        _track(begin, Path(folder), 1, 2, status="interrupted")
        _track(begin, Path(folder), 2, 3, resumed=True)


def runs_may_have_any_name(begin: Begin) -> None:
    """Accept runs with names that differ from their directories."""
    for called in ("fanout=3, seed 1", "split=last/file, 5 % of {nodes: 7}, seed 2", "été, seed 3"):
        with tempfile.TemporaryDirectory() as folder:
            _track(begin, Path(folder), 1, called=called)


def reports_may_have_other_figures(begin: Begin) -> None:
    """Accept reports with other figures than the report before, or with none."""
    with tempfile.TemporaryDirectory() as folder:
        tracker = begin(Path(folder))
        for number, figures in enumerate(({}, dict(FIGURES), {"metrics/new@5": 1e-30}), 1):
            tracker.report(figures, round=number, time=0.0)
        tracker.end("complete")


def the_run_stays_unchanged(begin: Begin) -> None:
    """Change neither the files of the run nor its arguments."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder)
        tracker, figures = begin(run), dict(FIGURES)
        tracker.report(figures, round=1, time=0.5)
        tracker.end("complete")
        assert figures == FIGURES, f"The figures of a report are now {figures}."
        for name, content in OURS.items():
            assert (run / name).exists(), f"{name} was deleted."
            assert (run / name).read_bytes() == content, f"{name} has changed."


def global_generators_stay_unchanged(begin: Begin) -> None:
    """Draw no numbers from the global random generators."""
    before: tuple[Any, ...] = random.getstate()
    numbers = _legacy()
    with tempfile.TemporaryDirectory() as folder:
        _track(begin, Path(folder), 1)
    assert random.getstate() == before, "Found random in another state."
    assert _legacy() == numbers, "Found numpy.random in another state."


def _legacy() -> list[str]:
    """Return the state of numpy's global generator, which third-party packages may use."""
    return [str(part) for part in np.random.get_state()]  # noqa: NPY002
