"""Which runs of a study count as finished, and whose folder it is."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from threading import Timer

import pytest
from study_runs import line, write_study_run

from analysis.cda_paper import folder as folder_module
from analysis.cda_paper.experiments import ML_RAND
from analysis.cda_paper.folder import StudyFolder
from analysis.cda_paper.plan import Job
from gossiprec.errors import LogError, ResourceError

SCENARIO = {"name": "x", "seed": 1, "protocol": {"wakes": 5}, "executor": {"name": "auto", "threads": "auto"}}
JOB = Job(ML_RAND, 1, scenario=SCENARIO)


@pytest.fixture
def study(tmp_path):
    folder = StudyFolder(tmp_path / "study")
    folder.open(scale="full")
    return folder


def write(study, **more):
    return write_study_run(study.run(JOB), [line("single", 0.1)], scenario=SCENARIO, **more)


def with_manifest(study, **changes):
    path = study.run(JOB) / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_complete_run_of_the_scenario_is_finished(study):
    write(study)
    assert study.finished(JOB).summary["nodes"] == 943
    assert list(study.finished_runs([JOB, replace(JOB, seed=2)])) == [ML_RAND.name]


@pytest.mark.parametrize("status", ["running", "interrupted", "failed"])
def test_a_run_that_did_not_end_well_is_not(study, status):
    write(study)
    with_manifest(study, status=status)
    assert study.finished(JOB) is None


def test_a_run_of_another_version_is_not(study):
    write(study)
    with_manifest(study, gossiprec="0.0.1")
    assert study.finished(JOB) is None


def test_a_run_of_another_scenario_is_not(study):
    write(study)
    other = {**SCENARIO, "protocol": {"wakes": 6}}
    assert study.finished(replace(JOB, scenario=other)) is None


def test_a_run_with_other_threads_is(study):
    write(study)
    other = {**SCENARIO, "executor": {"name": "auto", "threads": 1}}
    assert study.finished(replace(JOB, scenario=other)) is not None


def test_a_run_with_another_executor_is_not(study):
    write(study)
    other = {**SCENARIO, "executor": {"name": "reference", "threads": "auto"}}
    assert study.finished(replace(JOB, scenario=other)) is None


@pytest.mark.parametrize("file", ["manifest.json", "scenario.yaml", "summary.json", "events.mplog"])
def test_a_run_that_lacks_a_file_is_not(study, file):
    write(study)
    (study.run(JOB) / file).unlink()
    assert study.finished(JOB) is None


@pytest.mark.parametrize("file", ["manifest.json", "scenario.yaml", "summary.json"])
def test_a_run_with_a_file_cut_short_is_not(study, file):
    write(study)
    path = study.run(JOB) / file
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3] + b"{[")
    assert study.finished(JOB) is None


def test_what_is_left_of_a_run_is_cleared_and_nothing_else(study):
    write(study)
    other = replace(JOB, seed=2)
    study.run(other).mkdir()
    study.clear(JOB)
    study.clear(JOB)
    assert not study.run(JOB).exists()
    assert study.run(other).is_dir()


def test_a_folder_that_holds_something_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(LogError, match="is not empty and holds no study; choose another folder with --out"):
        StudyFolder(tmp_path).open(scale="full")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_study_of_another_scale_is_refused(study):
    with pytest.raises(LogError, match="holds a study of scale full, asked for tiny"):
        StudyFolder(study.path).open(scale="tiny")


@pytest.mark.parametrize("content", ["{", "[]", '{"name": "other"}'])
def test_a_mark_of_something_else_is_refused(tmp_path, content):
    (tmp_path / "study.json").write_text(content)
    with pytest.raises(LogError, match="choose another folder"):
        StudyFolder(tmp_path).open(scale="full")


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LogError, match="is a file, a study needs a folder"):
        StudyFolder(tmp_path / "file").open(scale="full")


def test_two_studies_in_one_folder_are_refused(study, monkeypatch):
    monkeypatch.setattr(folder_module, "PATIENCE_S", 0.2)
    other = StudyFolder(study.path)
    refused = pytest.raises(ResourceError, match="another study is at work in")
    with study.locked(), refused, other.locked():
        pass
    with other.locked():
        pass


def test_a_study_waits_a_moment_for_the_end_of_another(study):
    holding = study.locked()
    holding.__enter__()
    Timer(0.3, lambda: holding.__exit__(None, None, None)).start()
    with StudyFolder(study.path).locked():
        pass


def test_a_lock_is_not_left_in_the_way_of_a_moved_study(study, tmp_path):
    with study.locked():
        pass
    shutil.move(study.path, tmp_path / "moved")
    with StudyFolder(tmp_path / "moved").locked():
        pass
