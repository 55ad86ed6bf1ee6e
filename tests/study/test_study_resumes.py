"""A study goes on with the runs that it had begun: the work before their last checkpoint is not done again."""

from __future__ import annotations

import json
import os
import shutil
import signal

import pytest
from small_studies import BASE, carried_out, planned, tables

from gossiprec.emulation import simulate
from gossiprec.runs.lock import LOCK, RunLock
from gossiprec.study.folder import StudyFolder
from gossiprec.study.task import run_task
from gossiprec.study.worker_pool import WorkerPool
from tests.emulation.ended_early import OFTEN, Patient
from tests.manifests import change_manifest
from tests.processes import killed_at
from tests.slow import slow_except_first
from tests.study.test_study_workers import until

ONE = {
    "base": {**BASE, "protocol": {**BASE["protocol"], "wakes": 6}, "checkpoint": OFTEN},
    "axes": {},
    "seeds": [5],
}


class Listening(Patient):
    """Notes phases, too."""

    def __init__(self):
        super().__init__()
        self.phases = []

    def phase(self, text):
        self.phases.append(text)


def with_progress(progress):
    def start(tasks):
        for task in tasks:
            yield run_task(task, threads=1, progress=progress)

    return start


def begun(tmp_path, plan, stop=4, **changes):
    """Leave the run of a plan as an attempt would that ended at a report; return its directory."""
    (simulation,) = plan.simulations
    path = StudyFolder(tmp_path / "out").run_directory(simulation)
    scenario = simulation.scenario.resolved() | changes
    simulate(
        {**scenario, "executor": {**scenario["executor"], "threads": 1}}, out=path, progress=Patient(stop)
    )
    return path


@pytest.fixture
def plan(tmp_path):
    return planned(tmp_path, **ONE)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    carried_out(planned(folder, **ONE), folder / "whole")
    return tables(folder / "whole")


@pytest.mark.slow
@pytest.mark.full
def test_a_run_that_had_begun_is_gone_on_with(tmp_path, plan, whole):
    path, progress = begun(tmp_path, plan), Listening()
    conduct = carried_out(plan, tmp_path / "out", start=with_progress(progress))

    assert conduct.outcome.made == 1
    assert "resuming at virtual time 3" in progress.phases
    assert progress.ticks[0].time == 4.0
    assert json.loads((path / "manifest.json").read_text())["resumed"][0]["time"] == 3.0
    assert tables(tmp_path / "out") == whole


OTHERS = {
    "no checkpoint": lambda path: shutil.rmtree(path / "checkpoints"),
    "damaged checkpoints": lambda path: [file.write_bytes(b"") for file in path.glob("checkpoints/*")],
    "no manifest": lambda path: (path / "manifest.json").unlink(),
    "complete, of other code": lambda path: rewrite(path, status="complete", code="other"),
}


def rewrite(path, **manifest):
    change_manifest(path, **manifest)


@pytest.mark.parametrize("what", slow_except_first(OTHERS))
@pytest.mark.full
def test_where_that_cannot_be_it_begins_anew(what, tmp_path, plan, whole):
    path, progress = begun(tmp_path, plan), Listening()
    OTHERS[what](path)
    carried_out(plan, tmp_path / "out", start=with_progress(progress), other_code="again")

    assert "simulating" in progress.phases
    assert "resumed" not in json.loads((path / "manifest.json").read_text())
    assert tables(tmp_path / "out") == whole


@pytest.mark.slow
@pytest.mark.full
def test_a_run_of_another_scenario_in_its_place_is_not_gone_on_with(tmp_path, plan, whole):
    begun(tmp_path, plan, protocol={**ONE["base"]["protocol"], "fanout": 2})
    carried_out(plan, tmp_path / "out")
    assert tables(tmp_path / "out") == whole


@pytest.mark.slow
@pytest.mark.full
def test_a_run_that_somebody_writes_is_left_alone(tmp_path, plan):
    path = begun(tmp_path, plan)
    before, lock = (path / "events.mplog").read_bytes(), RunLock(path / "events.mplog")
    conduct = carried_out(plan, tmp_path / "out")
    lock.close()

    (done,) = conduct.outcome.failed.values()
    assert "is in use by a running process" in done.problem
    assert (path / "events.mplog").read_bytes() == before


@pytest.mark.slow
@pytest.mark.full
def test_a_worker_that_is_killed_costs_what_came_after_the_last_checkpoint(tmp_path):
    base = {**ONE["base"], "protocol": {**BASE["protocol"], "wakes": 48}}
    plan, said = planned(tmp_path, **{**ONE, "base": base}), []

    def kill_once_there_is_one(hash_, what):
        said.append(what)
        if what.endswith("%") and not any(told.endswith("%") for told in said[:-1]):
            until(lambda: [*(tmp_path / "out" / "runs" / hash_).glob("checkpoints/*.ckpt")], "a checkpoint")
            os.kill(pool._workers[0].process.pid, signal.SIGKILL)

    pool = WorkerPool(1, 1, kill_once_there_is_one)
    conduct = carried_out(plan, tmp_path / "out", start=pool.carry_out)

    assert (conduct.outcome.made, conduct.outcome.failed) == (1, {})
    assert any(what.startswith("resuming at") for what in said)
    carried_out(plan, tmp_path / "whole")
    assert tables(tmp_path / "out") == tables(tmp_path / "whole")


def test_a_study_that_is_killed_at_its_birth_is_run_again(tmp_path, monkeypatch):
    for step in range(1, 20):
        folder = StudyFolder(tmp_path / str(step))
        with folder.locked("small"):
            done = killed_at(monkeypatch, step, folder.write_spec, {"name": "small"})
        folder.check("small")
        with folder.locked("small"):
            folder.write_spec({"name": "small"})
        left = {path.name for path in folder.path.iterdir()}
        assert left - {LOCK} == {"study.json", "study.yaml", "runs"}
        if done:
            break
    assert step > 2
