"""Carrying a study out: what is finished stays, what fails is told, and the table is the same whoever ran it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from small_studies import BASE, COALITION, FANOUT, SINGLE, WHO, carried_out, in_turn, planned, tables

from gossiprec import simulate
from gossiprec.base.errors import LogError, ResourceError
from gossiprec.base.machine import peak_rss_mib
from gossiprec.cli.progress import StudyProgressState
from gossiprec.study import folder as folder_module
from gossiprec.study.folder import StudyFolder
from gossiprec.study.runner import StudyRunner
from gossiprec.study.task import TaskResult
from tests.manifests import change_manifest
from tests.slow import slow_except_first


def mark(path):
    return json.loads((path / "study.json").read_text())


def never(tasks):
    raise AssertionError(f"nothing was to be run, but {len(tasks)} tasks were")
    yield


@pytest.mark.slow
def test_a_run_of_a_study_is_the_run_that_simulate_makes(tmp_path):
    plan = planned(tmp_path, seeds=[5], axes={})
    conduct = carried_out(plan, tmp_path / "out")
    alone = simulate(BASE, out=tmp_path / "alone")
    run = conduct.folder.run_directory(plan.simulations[0])
    for name in ("events.mplog", "metrics.csv", "attacks.csv", "adversaries.npz"):
        assert (run / name).read_bytes() == (alone.path / name).read_bytes()


@pytest.mark.slow
@pytest.mark.full
def test_finished_runs_are_not_repeated(tmp_path):
    carried_out(planned(tmp_path), tmp_path / "out")
    before = tables(tmp_path / "out")
    conduct = carried_out(planned(tmp_path), tmp_path / "out", start=never)
    assert (conduct.outcome.made, conduct.outcome.kept) == (0, 6)
    assert tables(tmp_path / "out") == before


@pytest.mark.slow
@pytest.mark.full
def test_a_larger_study_runs_only_what_is_new(tmp_path):
    carried_out(planned(tmp_path, seeds=1), tmp_path / "out")
    conduct = carried_out(planned(tmp_path, seeds=2), tmp_path / "out")
    assert (conduct.outcome.made, conduct.outcome.kept) == (3, 3)
    carried_out(planned(tmp_path, seeds=2), tmp_path / "whole")
    assert tables(tmp_path / "out") == tables(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.full
def test_the_order_in_which_runs_end_leaves_no_trace(tmp_path):
    carried_out(planned(tmp_path), tmp_path / "out")
    carried_out(planned(tmp_path), tmp_path / "reversed", start=lambda tasks: in_turn(tasks[::-1]))
    assert tables(tmp_path / "out") == tables(tmp_path / "reversed")


def test_first_seeds_are_run_first(tmp_path):
    plan = planned(tmp_path, seeds=[7, 3])
    todo = StudyRunner(plan, StudyFolder(tmp_path / "out")).find_unfinished(stale_runs="refuse")
    told = [(s.scenario.resolved()["protocol"]["fanout"], s.scenario.seed) for s in todo]
    assert told == [(1, 7), (2, 7), (3, 7), (1, 3), (2, 3), (3, 3)]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the system cannot forget a peak")
@pytest.mark.full
def test_the_peak_of_memory_is_the_runs_own(tmp_path):
    """A worker carries out one run after the other: a large one must not be told of those after it."""
    np.ones(2**27 // 8 * 4).sum()  # 512 MiB
    before = peak_rss_mib()
    conduct = carried_out(planned(tmp_path, axes={}, seeds=1), tmp_path / "out")
    (simulation,) = conduct.plan.simulations
    assert conduct.folder.finished_run(simulation).summary["peak_rss_mib"] < before - 256


@pytest.mark.parametrize(
    "spoil", slow_except_first(["status", "summary.json", "events.mplog", "cut", "folder"])
)
@pytest.mark.full
def test_a_run_that_was_not_finished_is_run_anew(tmp_path, spoil):
    plan = planned(tmp_path)
    conduct = carried_out(plan, tmp_path / "out")
    before, run = tables(tmp_path / "out"), conduct.folder.run_directory(plan.simulations[2])
    if spoil == "status":
        change_manifest(run, status="running")
    elif "." in spoil:
        (run / spoil).unlink()
    elif spoil == "cut":
        (run / "summary.json").write_bytes((run / "summary.json").read_bytes()[:-20] + b"{[")
    else:
        shutil.rmtree(run)
    again = carried_out(planned(tmp_path), tmp_path / "out")
    assert (again.outcome.made, again.outcome.kept) == (1, 5)
    assert tables(tmp_path / "out") == before


def with_other_code(conduct, plan, *places):
    for place in places:
        change_manifest(conduct.folder.run_directory(plan.simulations[place]), code="0123456789abcdef")


@pytest.mark.slow
@pytest.mark.full
def test_runs_of_other_code_stop_the_study(tmp_path):
    plan = planned(tmp_path)
    with_other_code(carried_out(plan, tmp_path / "out"), plan, 0, 3)
    with pytest.raises(LogError, match=r"2 of 6 runs made by code version 0123456789abcdef.*--again.*--keep"):
        carried_out(planned(tmp_path), tmp_path / "out", start=never)


@pytest.mark.slow
@pytest.mark.full
def test_runs_of_other_code_are_run_again_if_wanted(tmp_path):
    plan = planned(tmp_path)
    conduct = carried_out(plan, tmp_path / "out")
    before = tables(tmp_path / "out")
    with_other_code(conduct, plan, 0, 3)
    assert carried_out(plan, tmp_path / "out", other_code="again").outcome.made == 2
    assert tables(tmp_path / "out") == before


@pytest.mark.slow
@pytest.mark.full
def test_runs_of_other_code_are_marked_where_they_are_kept(tmp_path):
    plan = planned(tmp_path, measures=["hr@5"])
    with_other_code(carried_out(plan, tmp_path / "out"), plan, 0, 3)
    carried_out(plan, tmp_path / "out", start=never, other_code="keep")
    codes = [line.split(",")[-1] for line in (tmp_path / "out" / "table.csv").read_text().splitlines()[1:]]
    assert [code == "0123456789abcdef" for code in codes] == [True, False, False, True, False, False]


@pytest.mark.slow
def test_a_run_that_fails_leaves_the_others_alone(tmp_path):
    axes = {
        "references": {"key": "observers.0.reference_items", "values": [9, 39]}
    }  # 39: more than there are
    conduct = carried_out(planned(tmp_path, axes=axes), tmp_path / "out")
    assert (conduct.outcome.made, len(conduct.outcome.failed)) == (2, 2)
    lines = (tmp_path / "out" / "table.csv").read_text().splitlines()[1:]
    assert [line.split(",")[-2] for line in lines if line.startswith("39")] == ["failed", "failed"]
    assert {line.split(",")[-2] for line in lines if line.startswith("9")} == {"complete"}
    told = mark(tmp_path / "out")
    assert (told["status"], told["finished"], told["left"]) == ("failed", 2, 0)
    assert "lower reference_items" in told["failed"][0]["problem"]
    assert told["failed"][0]["variants"] == ["references=39, seed 1"]


@pytest.mark.slow
@pytest.mark.full
def test_a_bad_observer_does_not_cost_the_variants_it_shares_a_simulation_with(tmp_path):
    bad = {**COALITION, "reference_items": 39}
    axes = {"who": {"key": "observers", "values": {"good": [SINGLE], "bad": [bad]}}}
    plan = planned(tmp_path, axes=axes)
    assert len(plan.simulations) == 2
    conduct = carried_out(plan, tmp_path / "out")
    assert (conduct.outcome.made, len(conduct.outcome.failed), conduct.outcome.left) == (2, 2, 0)
    good = {"who": {"key": "observers", "values": {"good": [SINGLE]}}}
    carried_out(planned(tmp_path, axes=good), tmp_path / "good")
    found = (tmp_path / "out" / "table.csv").read_text().splitlines()
    assert [line for line in found if not line.startswith("bad")] == (
        (tmp_path / "good" / "table.csv").read_text().splitlines()
    )
    again = carried_out(plan, tmp_path / "out")
    assert (again.outcome.made, again.outcome.kept, len(again.outcome.failed)) == (0, 2, 2)


@pytest.mark.slow
def test_an_unforeseen_error_is_one_failed_run_with_its_traceback(tmp_path):
    def defective(tasks):
        for task in tasks[:1]:
            yield TaskResult(task.hash, 0.0, "ZeroDivisionError: division by zero", "Traceback ...")
        yield from in_turn(tasks[1:])

    carried_out(planned(tmp_path), tmp_path / "out", start=defective)
    (failure,) = mark(tmp_path / "out")["failed"]
    assert failure["trace"] == "Traceback ..."


@pytest.mark.slow
@pytest.mark.full
def test_ctrl_c_keeps_what_is_done_and_writes_it(tmp_path):
    ended = []

    def interrupted(tasks):
        try:
            yield from in_turn(tasks[:2])
            raise KeyboardInterrupt
        finally:
            ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        carried_out(planned(tmp_path), tmp_path / "out", start=interrupted)
    assert ended == [True]
    told = mark(tmp_path / "out")
    assert (told["status"], told["finished"], told["left"]) == ("interrupted", 2, 4)
    assert len((tmp_path / "out" / "table.csv").read_text().splitlines()) > 2
    carried_out(planned(tmp_path), tmp_path / "out")
    carried_out(planned(tmp_path), tmp_path / "whole")
    assert tables(tmp_path / "out") == tables(tmp_path / "whole")


def test_what_is_under_way_is_ended_when_the_study_is(tmp_path):
    """Ctrl-C between two runs: nobody asks for the next one, and the workers must not go on."""
    ended = []

    def lasting(tasks):
        try:
            yield from in_turn(tasks)
        finally:
            ended.append(True)

    class Impatient(StudyProgressState):
        def ended(self, *arguments):
            raise KeyboardInterrupt

    folder = StudyFolder(tmp_path / "out")
    conduct = StudyRunner(planned(tmp_path), folder)
    holding = []  # or the generator would be closed for want of a reference

    def start(tasks):
        holding.append(lasting(tasks))
        return holding[0]

    with folder.locked("small"), pytest.raises(KeyboardInterrupt):
        conduct.carry_out(conduct.find_unfinished(stale_runs="refuse"), start, Impatient(str))
    assert ended == [True]
    assert mark(tmp_path / "out")["finished"] == 1


@pytest.mark.slow
@pytest.mark.full
def test_the_folder_says_what_was_studied(tmp_path):
    carried_out(planned(tmp_path, axes={**FANOUT, **WHO}, baseline={"fanout": 3}), tmp_path / "out")
    told = yaml.safe_load((tmp_path / "out" / "study.yaml").read_text())
    assert (told["name"], told["baseline"], told["base"]["name"]) == ("small", {"fanout": 3}, "tiny")
    told = mark(tmp_path / "out")
    assert (told["status"], told["variants"], told["simulations"]) == ("complete", 12, 6)
    assert (told["axes"], told["baseline"]) == (["fanout", "who"], {"fanout": 3})


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(LogError, match="is not empty and contains no study"):
        StudyFolder(tmp_path).check("small")
    (tmp_path / "file").write_text("")
    with pytest.raises(LogError, match="is a file"):
        StudyFolder(tmp_path / "file").check("small")


@pytest.mark.parametrize("content", ["{", "[]", '{"study": "small"}'])
def test_a_mark_of_something_else_is_refused(tmp_path, content):
    (tmp_path / "study.json").write_text(content)
    with pytest.raises(LogError, match="choose another folder"):
        StudyFolder(tmp_path).check("small")


def test_a_folder_of_another_study_is_refused(tmp_path):
    carried_out(planned(tmp_path, seeds=1), tmp_path / "out")
    StudyFolder(tmp_path / "out").check("small")
    with pytest.raises(LogError, match="holds the study 'small', not 'large'"):
        StudyFolder(tmp_path / "out").check("large")


def test_two_writers_in_one_folder_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_module, "PATIENCE_S", 0.2)
    one, other = StudyFolder(tmp_path / "out"), StudyFolder(tmp_path / "out")
    with (
        one.locked("small"),
        pytest.raises(ResourceError, match="another study is running"),
        other.locked("small"),
    ):
        pass
    with other.locked("small"):
        pass
