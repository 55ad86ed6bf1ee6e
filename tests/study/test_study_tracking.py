"""``gossiprec study --track``: each run is told to trackers under what it is called in the study."""

from typing import ClassVar

import pytest
from small_studies import in_turn, planned, study_file, tables

import gossiprec
from gossiprec.base.errors import ResourceError, ScenarioError
from gossiprec.cli.main import exit_code
from gossiprec.trackers import TRACKERS, Tracker

MOMENTUM = {"memory": {"key": "observers.0.momentum", "values": [0.5, 0.9]}}


class Told(Tracker):
    """Keeps what it is told of each run."""

    runs: ClassVar[list] = []
    prepared: ClassVar[list] = []

    def __init__(self, run, scenario, *, name, resumed):
        if "fanout=3" in name:
            raise PermissionError("not yours")
        self.found = {"name": name, "run": run, "resumed": resumed, "rounds": []}
        type(self).runs.append(self.found)

    @classmethod
    def prepare(cls):
        cls.prepared.append(len(cls.runs))

    def report(self, figures, *, round, time):
        if "fanout=2, seed 2" in self.found["name"]:
            raise ConnectionError("gone")
        self.found["rounds"].append(round)

    def end(self, status):
        self.found["status"] = status


@pytest.fixture(autouse=True)
def told(monkeypatch):
    list(TRACKERS)
    monkeypatch.setattr(TRACKERS, "_members", {**TRACKERS._members, "told": Told})
    monkeypatch.setattr(Told, "runs", [])
    monkeypatch.setattr(Told, "prepared", [])
    return Told


@pytest.mark.slow
def test_each_run_is_told_under_its_label_and_bytes_stay(tmp_path, told):
    axes = {"fanout": {"key": "protocol.fanout", "values": [1, 2]}}
    plain = gossiprec.study(study_file(tmp_path, axes=axes, seeds=1), out=tmp_path / "plain")
    found = gossiprec.study(study_file(tmp_path, axes=axes, seeds=1), out=tmp_path / "told", track=["told"])
    assert [run["name"] for run in told.runs] == ["fanout=1, seed 1", "fanout=2, seed 1"]
    for run in told.runs:
        assert (max(run["rounds"]), run["status"], run["resumed"]) == (2, "complete", False)
    assert {run["run"].parent for run in told.runs} == {found.path.absolute() / "runs"}
    assert tables(found.path) == tables(plain.path)

    gossiprec.study(study_file(tmp_path, axes=axes, seeds=1), out=tmp_path / "told", track=["told"])
    assert len(told.runs) == 2, "a finished run was told again"
    assert told.prepared == [0], "once, before the first run, and not where there is none"


def test_a_tracker_that_cannot_be_prepared_ends_the_study_before_its_first_run(tmp_path, monkeypatch):
    def prepare(cls):
        raise ConnectionError("no server")

    monkeypatch.setattr(Told, "prepare", classmethod(prepare))
    with pytest.raises(ResourceError, match=r"told cannot start \(ConnectionError: no server\)"):
        gossiprec.study(study_file(tmp_path), out=tmp_path / "out", track=["told"])
    assert not (tmp_path / "out" / "table.csv").exists()


def test_a_shared_run_says_that_it_stands_for_several(tmp_path, told):
    plan = planned(tmp_path, axes=MOMENTUM, seeds=1)
    assert len(plan.simulations) == 1
    gossiprec.study(tmp_path / "study.yaml", out=tmp_path / "out", track=["told"])
    assert [run["name"] for run in told.runs] == ["memory=0.5, seed 1 (and 1 more)"]


@pytest.mark.slow
def test_a_tracker_that_fails_is_noted_and_one_that_cannot_begin_fails_its_runs(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(
        "gossiprec.study.worker_pool.WorkerPool.carry_out", lambda self, tasks: in_turn(tasks)
    )
    file = study_file(tmp_path)
    assert exit_code(["study", str(file), "--out", str(tmp_path / "out"), "--track", "told", "-q"]) == 1
    said = capsys.readouterr().err
    assert (
        "note: fanout=2, seed 2: tracker told failed (ConnectionError: gone); continuing without it" in said
    )
    assert (
        "failed: fanout=3, seed 1 (and 1 more): tracker told cannot start (PermissionError: not yours)"
        in said
    )


def test_an_unknown_tracker_is_refused_before_anything_is_made(tmp_path):
    with pytest.raises(ScenarioError, match="tensorbord"):
        gossiprec.study(study_file(tmp_path), out=tmp_path / "out", track=["tensorbord"])
    assert not (tmp_path / "out").exists()
