"""Contract of trackers: they accept reports of any run, and do not change the run."""

from __future__ import annotations

import copy
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from gossiprec.testing.tiny_runs import check_claims
from gossiprec.trackers import Tracker

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
