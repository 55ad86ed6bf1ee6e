"""A finished run under new observers: the results are those of a run that had them from the start."""

from __future__ import annotations

import json
import os
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from gossiprec import observe, open_run
from gossiprec.base.errors import GossipRecError, LogError, ResourceError, ScenarioError
from gossiprec.compute import waves
from gossiprec.emulation import simulate
from gossiprec.emulation.carriers import versions
from gossiprec.emulation.run import derived_run
from gossiprec.runs import run_files
from gossiprec.runs.manifest import digests_of, read_manifest, write_manifest
from tests.cli.calls import invoke
from tests.emulation.tiny_runs import COORDINATOR, SINGLE, tiny
from tests.slow import slow_except_first

COALITION = {**SINGLE, "who": "coalition", "members": [0, 4]}
FEDAVG = {"name": "fedavg", "rounds": 4}
LATER = {"observers": [COALITION], "evaluate": {"metrics": ["recall@5"]}}
RUNS = {
    "gossip": ({}, LATER),
    "whole models": ({"protocol": FEDAVG}, {**LATER, "observers": [{**COORDINATOR, "momentum": 0.5}]}),
    "updates": (
        {"protocol": {**FEDAVG, "client_model": "none"}},
        {**LATER, "observers": [{**COORDINATOR, "momentum": 0.5}]},
    ),
    "central": (
        {"protocol": {"name": "central", "epochs": 2}, "observers": []},
        {"evaluate": {"metrics": ["recall@5"], "beside": ["popularity"]}},
    ),
}


def contents(folder):
    return {name: (folder / name).read_bytes() for name in os.listdir(folder) if (folder / name).is_file()}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return simulate(tiny(), out=tmp_path_factory.mktemp("runs") / "run").path


@pytest.fixture
def run(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


@pytest.mark.parametrize("name", slow_except_first(RUNS))
@pytest.mark.full
def test_later_observers_find_what_they_find_from_the_start(tmp_path, name):
    sections, later = RUNS[name]
    scenario = tiny(**sections)
    run = simulate(scenario, out=tmp_path / "run")
    before = contents(run.path)
    found = observe(run.path, later, name="later")
    evaluate = {**scenario["evaluate"], **later["evaluate"], "metrics": ["hr@5", "ndcg@5", "recall@5"]}
    whole = simulate({**scenario, **later, "evaluate": evaluate}, out=tmp_path / "whole")
    for file in ("metrics.csv", "attacks.csv", "findings.csv", "metrics_by_user.parquet"):
        assert (found.path / file).read_bytes() == (whole.path / file).read_bytes(), file
    assert contents(run.path) == before
    assert found.log.digest == run.log.digest
    again = open_run(run.path)
    assert [*again.observed] == ["later"]
    marks = again.table("metrics", observed=True).to_pydict()
    assert {m for m, o in zip(marks["metric"], marks["observed"], strict=True) if o} >= {"recall@5"}
    assert "recall@5" not in {m for m, o in zip(marks["metric"], marks["observed"], strict=True) if not o}


def test_another_run_is_refused_and_leaves_nothing(run, monkeypatch):
    """A changed metric, and a changed event, though all digests of the run's files are right."""
    text = (run / "metrics.csv").read_text().splitlines()
    text[1] = text[1].rpartition(",")[0] + ",0.123"
    (run / "metrics.csv").write_text("\n".join([*text, ""]))
    manifest = read_manifest(run)
    write_manifest(run, {**manifest, "files": digests_of(run)})
    with pytest.raises(LogError, match=r"not the same: hr@5 has other values"):
        observe(run, LATER)
    assert not (run / "observed").exists()

    monkeypatch.setattr(derived_run, "file_faults", lambda *_: [])
    write_manifest(run, {**manifest, "log_digest": "0" * 64})
    with pytest.raises(LogError, match="manifest records"):
        observe(run, LATER)


@pytest.mark.parametrize(
    ("added", "words"),
    [
        ({"policies": []}, "policies: found [], but defences change messages"),
        ({"adversaries": [{"name": "aia"}]}, "active adversaries send forged messages"),
        ({"training": {"epochs": 3}}, "training: found {'epochs': 3}, but it belongs to the run"),
        ({"evaluate": {"every": 1}}, "evaluate.every: found 1, which is part of the run"),
        ({"evaluate": {"evry": 1}}, "which is no key of evaluate"),
        ({"evaluate": {"metrics": ["hr@5"]}}, "found no observer and no new measure"),
        ({"evaluate": ["hr@5"]}, "evaluate: found ['hr@5'], must be a mapping"),
        ({"observers": [{"name": "cda", "who": "nobody"}]}, "observers.0.who"),
        ({"observers": [COORDINATOR]}, "coordinator"),
    ],
)
def test_files_that_change_or_do_not_fit_the_run_are_refused(finished, added, words):
    with pytest.raises(GossipRecError) as found:
        observe(finished, added)
    assert words in str(found.value)
    assert not (finished / "observed").exists()


@pytest.mark.slow
def test_command_marks_new_results_and_refuses_with_one_message(run, tmp_path, capsys):
    file = tmp_path / "pairs.yaml"
    file.write_text(json.dumps(LATER))
    code, printed, _ = invoke(capsys, "observe", run, "--observers", file, "-q")
    assert code == 0
    marked = {
        line.split()[0]: "*" in line
        for line in printed.splitlines()
        if "standardized" in line or "ndcg" in line
    }
    assert any(marked.values())
    assert not all(marked.values())
    code, _, said = invoke(capsys, "observe", run, "--observers", file, "-q")
    assert code == 2
    assert "already contains results; choose another name with --name" in said
    (tmp_path / "list.yaml").write_text("- {name: cda}\n")
    code, _, said = invoke(capsys, "observe", run, "--observers", tmp_path / "list.yaml", "-q")
    assert code == 2
    assert "must be a mapping of keys (observers, evaluate)" in said
    assert invoke(capsys, "observe", run, "--observers", file, "-q", "--overwrite", "--json")[0] == 0
    assert invoke(capsys, "report", run)[0] == 0
    assert "Observed after the run" in (run / "report.html").read_text()
    for path, words in (
        (run / "observed" / "pairs", "results of observers of another run"),
        (tmp_path, "run directory"),
    ):
        code, _, said = invoke(capsys, "observe", path, "--observers", file, "-q")
        assert code == 2
        assert words in said
    code, _, said = invoke(capsys, "observe", run, "--observers", tmp_path / "none.yaml", "-q")
    assert code == 2
    assert "none.yaml" in said


def test_results_of_an_earlier_run_in_the_directory_are_not_found(run):
    observe(run, LATER)
    assert [*open_run(run).observed] == ["observed"]
    write_manifest(run, {**read_manifest(run), "log_digest": "0" * 64})
    assert open_run(run).observed == {}
    simulate(tiny(seed=6), out=run, overwrite=True)
    assert not (run / run_files.OBSERVED).exists()
    assert np.isfinite(open_run(run).attacks["aac"]).all()


VALIDATED = {**tiny()["dataset"], "split": {"name": "leave_last_k", "test": 2, "validation": 2}}
KEEPING = {"every": 2, "metrics": ["hr@5", "ndcg@5"]}
STORING = {
    "gossip": {},
    "share less, float16": {
        "policies": [{"name": "share-less"}, {"name": "dp-sgd", "epsilon": 50, "unit": "user"}],
        "executor": {"name": "reference", "storage": "float16"},
    },
    "whole models": {
        "protocol": {"name": "fedavg", "rounds": 4},
        "observers": [COORDINATOR],
    },
    "inboxes": {
        "protocol": {"name": "rand-gossip", "wakes": 6},
        "policies": [{"name": "robust-merge", "rule": "median"}, {"name": "top-k", "share": 0.3}],
    },
}


@pytest.mark.parametrize("name", slow_except_first(STORING))
@pytest.mark.full
def test_stored_versions_give_the_bytes_of_a_second_run_without_training(tmp_path, monkeypatch, name):
    scenario = tiny(**STORING[name])
    plain = simulate(scenario, out=tmp_path / "plain")
    run = simulate({**scenario, "evaluate": {**KEEPING, "keep": "versions"}}, out=tmp_path / "run")
    assert run.log.digest == plain.log.digest
    assert (run.path / "metrics.csv").read_bytes() == (plain.path / "metrics.csv").read_bytes()
    later = {"observers": [{**COALITION, "momentum": 0.5}], "evaluate": {"metrics": ["recall@5"]}}
    if "fedavg" in str(scenario):
        later["observers"] = [{**COORDINATOR, "momentum": 0.5}]
    again = observe(run.path, later, name="again", stored=False)
    updates, run_with_noise = [], waves.run_with_noise

    def counting(executor):
        def run(program, tasks):
            updates.append((program.update[tasks] >= 0).sum())
            run_with_noise(executor)(program, tasks)

        return run

    monkeypatch.setattr(waves, "run_with_noise", counting)
    read = observe(run.path, later, name="read", stored=True)
    assert sum(updates) == 0
    for file in ("metrics.csv", "attacks.csv", "metrics_by_user.parquet", "adversaries.npz"):
        assert (read.path / file).read_bytes() == (again.path / file).read_bytes(), file
    assert len(read.attacks["aac"])
    assert read.manifest["stored_versions"] is True


@pytest.fixture(scope="module")
def chosen(tmp_path_factory):
    scenario = tiny(evaluate={**KEEPING, "keep": {"versions": [2, 6]}})
    return simulate(scenario, out=tmp_path_factory.mktemp("runs") / "chosen").path


def test_models_of_chosen_reports_serve_measures_but_no_observers(chosen, finished, tmp_path, capsys):
    assert sorted(path.name for path in chosen.glob("versions-*")) == [
        "versions-00001.npz",
        "versions-00003.npz",
    ]
    measures = {"evaluate": {"metrics": ["recall@5"]}}
    read = observe(chosen, measures, name="read", stored=True)
    replayed = observe(chosen, measures, name="again", stored=False)
    times = [*dict.fromkeys(replayed.metrics["time"])]
    rows = np.isin(replayed.metrics["time"], [times[0], times[2]])
    for name, values in replayed.metrics.items():
        assert (read.metrics[name] == values[rows]).all(), name
    assert len(read.metrics["value"]) < len(rows)
    with pytest.raises(LogError, match="cda needs messages; expected keep: versions, at all reports"):
        observe(chosen, LATER, stored=True)
    with pytest.raises(LogError, match=r"found no stored versions; expected a run with evaluate.keep"):
        observe(finished, measures, stored=True)
    file = tmp_path / "more.yaml"
    file.write_text(json.dumps(measures))
    code, printed, _ = invoke(capsys, "observe", chosen, "--observers", file, "-q")
    assert (code, "not trained again" in printed) == (0, True)


def test_damaged_versions_are_one_message(chosen, tmp_path):
    run = shutil.copytree(chosen, tmp_path / "run")
    measures = {"evaluate": {"metrics": ["recall@5"]}}
    with np.load(run / "versions-00001.npz") as arrays:
        keys, rows = arrays["keys"], arrays["rows"]
    for changed in (
        {"keys": keys[1:], "rows": rows[1:]},
        {"keys": keys, "rows": rows[:, 1:]},
        {"keys": keys},
    ):
        np.savez(run / "versions-00001.npz", **changed)
        with pytest.raises(LogError, match=r"versions-00001.npz was changed after it was written"):
            observe(run, measures)
        write_manifest(run, {**read_manifest(run), "files": digests_of(run)})  # as a stranger would
        with pytest.raises(LogError, match=r"stored version|other shapes"):
            observe(run, measures, name="other")
    np.savez(run / "versions-00001.npz", keys=keys, rows=rows[::-1])
    write_manifest(run, {**read_manifest(run), "files": digests_of(run)})
    with pytest.raises(LogError, match="not the same"):
        observe(run, measures, name="other")
    assert not (run / "observed" / "other").exists()


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        (
            {"protocol": {**FEDAVG, "client_model": "none"}, "observers": []},
            "clients without a model nodes hold no",
        ),
        (
            {"protocol": {"name": "pers-gossip", "wakes": 2}, "dataset": VALIDATED},
            "makes choices by values of models",
        ),
    ],
)
def test_runs_that_cannot_store_versions_are_refused(tmp_path, sections, words):
    scenario = tiny(evaluate={**KEEPING, "keep": "versions"}, **sections)
    with pytest.raises(ScenarioError, match=words):
        simulate(scenario, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_versions_of_rounds_without_a_report_and_without_room_are_refused(tmp_path, monkeypatch):
    with pytest.raises(ScenarioError, match="found round 3, which has no report"):
        simulate(tiny(evaluate={**KEEPING, "keep": {"versions": [3]}}), out=tmp_path / "run")
    monkeypatch.setattr(versions.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(ResourceError, match=r"72 versions need \d+ MiB, and 0 MiB are free"):
        simulate(tiny(evaluate={**KEEPING, "keep": "versions"}), out=tmp_path / "run")


DAMAGE = {
    "garbage in a table": ("later/attacks.csv", "x", "attacks.csv was changed after it was written"),
    "garbage in the manifest": ("later/manifest.json", "{", "cannot read .*manifest.json"),
    "another summary": ("later/summary.json", "{}", "summary.json was changed after it was written"),
    "a file in the folder": ("more", "x", "more is not a directory"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_later_results_are_one_message(observed, tmp_path, capsys, name):
    file, text, words = DAMAGE[name]
    run = shutil.copytree(observed, tmp_path / "run")
    (run / "observed" / file).write_text(text)
    with pytest.raises(LogError, match=words):
        open_run(run).observed  # noqa: B018 (read on first use)
    code, _, said = invoke(capsys, "report", run)
    assert (code, said.count("\n")) == (2, 1)


def test_forged_later_results_are_one_message(observed, tmp_path, capsys):
    run = shutil.copytree(observed, tmp_path / "run")
    later = run / "observed" / "later"
    manifest = read_manifest(later)
    write_manifest(later, {**manifest, "gossiprec": "9"})
    assert [*open_run(run).observed] == ["later"]
    (later / "manifest.json").write_text(json.dumps({**manifest, "gossiprec": "9"}))
    with pytest.raises(LogError, match=r"manifest.json was changed after it was written"):
        open_run(run).observed  # noqa: B018
    for key, value in (("attacks", 5), ("attacks", [1]), ("utility", []), ("findings", {})):
        (later / "summary.json").write_text(json.dumps({key: value}))
        write_manifest(later, {**manifest, "files": digests_of(later)})  # as a stranger would
        code, _, said = invoke(capsys, "report", run)
        assert (code, said.count("\n"), f"summary.json: {key}" in said) == (2, 1, True)
    shutil.rmtree(run / "observed")
    (run / "observed").write_text("x")
    with pytest.raises(LogError, match="observed: found a file; expected the folder of later results"):
        observe(run, LATER)


@pytest.fixture(scope="module")
def observed(finished, tmp_path_factory):
    run = shutil.copytree(finished, tmp_path_factory.mktemp("observed") / "run")
    observe(run, {"evaluate": {"metrics": ["recall@5"]}}, name="later")
    return run
