"""Trackers are told what every report finds; the run depends on none of them."""

from __future__ import annotations

import shutil
import sys

import numpy as np
import pytest

import gossiprec
from gossiprec.base.errors import ResourceError, ScenarioError
from gossiprec.emulation.run.run_options import make_run_options
from gossiprec.emulation.run_parts.trackers import report_figures
from gossiprec.trackers import TRACKERS, Tracker
from tests.emulation.ended_early import OFTEN, Patient
from tests.emulation.tiny_runs import SINGLE, tiny

BYTES = ("scenario.yaml", "events.mplog", "metrics.csv", "attacks.csv", "findings.csv", "positions.csv")
TINY = tiny(
    protocol={"name": "rand-gossip", "fanout": 3, "view": {"size": 3}, "wakes": 4},
    evaluate={"every": 1, "metrics": ["hr@5"]},
)


class Told(Tracker):
    """Keeps all that it is told."""

    last: Told

    def __init__(self, run, scenario, *, name, resumed):
        self.run, self.scenario, self.resumed = run, scenario, resumed
        self.reports, self.status = [], None
        type(self).last = self

    def report(self, figures, *, round, time):
        self.reports.append((round, time, figures))

    def end(self, status):
        self.status = status


class Fails(Told):
    """Is out of reach from its second report on."""

    def report(self, figures, *, round, time):
        if self.reports:
            raise ConnectionError("gone")
        super().report(figures, round=round, time=time)


class NeverBegins(Told):
    def __init__(self, run, scenario, *, name, resumed):
        raise PermissionError("not yours")


@pytest.fixture(autouse=True)
def trackers(monkeypatch):
    list(TRACKERS)
    own = {"told": Told, "fails": Fails, "never-begins": NeverBegins}
    monkeypatch.setattr(TRACKERS, "_members", {**TRACKERS._members, **own})


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return gossiprec.simulate(TINY, out=tmp_path_factory.mktemp("plain") / "run")


def contents(run):
    return {name: (run.path / name).read_bytes() for name in BYTES}


@pytest.mark.slow
def test_a_tracker_is_told_all_curves_of_the_tables_and_the_end(plain, tmp_path):
    run = gossiprec.simulate(TINY, out=tmp_path / "run", track=["told"])
    told = Told.last

    assert (told.run, told.scenario, told.resumed) == (run.path, run.scenario, False)
    assert told.status == "complete"
    attack = f"single {run.attacks['relevance'][0]} {run.attacks['momentum'][0]:g} 3"
    for quantity in ("aac", "upper_bound", "random_bound"):
        assert [figures[f"{quantity}/{attack}"] for _, _, figures in told.reports] == list(
            run.attacks[quantity]
        )
    for name in set(run.metrics["metric"]):
        chosen_rows = run.metrics["metric"] == name
        rows = [
            (round, time, figures[f"metrics/{name}"])
            for round, time, figures in told.reports
            if f"metrics/{name}" in figures
        ]
        columns = (run.metrics[column][chosen_rows] for column in ("round", "time", "value"))
        assert rows == list(zip(*columns, strict=True))
    assert contents(run) == contents(plain)


@pytest.mark.slow
def test_a_tracker_that_fails_is_noted_once_and_costs_no_byte(plain, tmp_path):
    say = Patient()
    run = gossiprec.simulate(TINY, out=tmp_path / "run", track=["fails", "told"], progress=say)

    assert say.notes == ["tracker fails failed (ConnectionError: gone); continuing without it"]
    assert len(Fails.last.reports) == 1
    assert len(Told.last.reports) == len(say.ticks)
    assert (run.status, contents(run)) == ("complete", contents(plain))


def test_a_tracker_that_cannot_begin_ends_the_run_before_it_costs_anything(tmp_path):
    with pytest.raises(ResourceError, match=r"never-begins cannot start \(PermissionError: not yours\)"):
        gossiprec.simulate(TINY, out=tmp_path / "run", track=["told", "never-begins"])
    assert gossiprec.open_run(tmp_path / "run").manifest["status"] == "failed"
    assert Told.last.status == "failed"


@pytest.mark.slow
def test_a_run_that_is_resumed_says_so_to_trackers_and_goes_on_telling(plain, tmp_path):
    scenario = {**TINY, "checkpoint": OFTEN}
    stopped = gossiprec.simulate(scenario, out=tmp_path / "run", track=["told"], progress=Patient(stop=3))
    first = Told.last
    assert (stopped.manifest["status"], first.status) == ("interrupted", "interrupted")

    run = gossiprec.resume(stopped.path, track=["told"])
    assert Told.last.resumed
    assert Told.last.status == "complete"
    assert Told.last.reports[0] == first.reports[2]  # done again, with the same result
    assert np.array_equal(run.attacks["aac"], plain.attacks["aac"])


def test_an_unknown_tracker_and_one_that_is_not_installed_are_refused_before_any_work(monkeypatch, tmp_path):
    with pytest.raises(ScenarioError, match=r"unknown tracker 'tensorbord'; .*did you mean 'tensorboard'"):
        gossiprec.simulate(TINY, out=tmp_path / "run", track=["tensorbord"])
    for name in ("tensorboard", "mlflow"):
        monkeypatch.setitem(sys.modules, name, None)
        message = rf"{name} requires {name}, which is not installed; .*pip install 'gossiprec\[{name}\]'"
        with pytest.raises(ResourceError, match=message):
            gossiprec.simulate(TINY, out=tmp_path / "run", track=[name])
    assert not (tmp_path / "run").exists()


def test_what_is_not_finite_is_no_figure():
    row = {**dict.fromkeys(("aac", "upper_bound", "random_bound"), float("nan")), "momentum": 0.5}
    row |= {"observer": "single", "relevance": "ndcg", "community_size": 3, "aac": np.float64(0.25)}
    assert report_figures([("hr@5", 0.5), ("er@5", float("nan"))], [row]) == {
        "metrics/hr@5": 0.5,
        "aac/single ndcg 0.5 3": 0.25,
    }


def test_a_tracker_named_twice_is_told_once():
    assert make_run_options(track=["told", "told"]).track == ("told",)
    assert SINGLE["community_size"] == 3  # as the names of figures above say


def test_curves_of_a_run_that_is_replaced_are_deleted_with_it(plain, tmp_path):
    shutil.copytree(plain.path, tmp_path / "run")
    (tmp_path / "run" / "events.out.tfevents.1.host").touch()
    gossiprec.simulate(TINY, out=tmp_path / "run", overwrite=True)
    assert not list((tmp_path / "run").glob("events.out.tfevents.*"))
