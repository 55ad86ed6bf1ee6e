from __future__ import annotations

import errno
import json
import math
import os
import subprocess

import numpy as np
import pytest
import yaml
from small_logs import SIZES, WAKES, file_size_limit, same

from gossiprec.base.errors import LogError, ResourceError
from gossiprec.base.machine import processor_name
from gossiprec.base.portable import describe_target
from gossiprec.measures.selectors import attack_key
from gossiprec.runs import run_files
from gossiprec.runs.manifest import git_commit
from gossiprec.runs.run import open_run
from gossiprec.runs.run_directory import RunDirectory
from gossiprec.runs.run_files import FILES, open_replacement, replace_file
from gossiprec.version import __version__

SCENARIO = {"name": "tiny", "seed": 7, "model": {"name": "gmf", "init_std": 1e-05}, "policies": [], "b": True}
METRIC_ROWS = [
    {"time": 10.0, "round": 10, "metric": "hr@20", "value": 0.1 + 0.2},
    {"time": 10.0, "round": 10, "metric": "ndcg@20", "value": float("nan")},
]
ATTACK_ROW = {
    "observer": "coalition-5%",
    "relevance": "ndcg",
    "momentum": 0.99,
    "community_size": 50,
    "time": 10.25,
    "round": 10,
    "aac": 1 / 3,
    "best10_min": 0.5,
    "best10_mean": np.float64(0.625),
    "upper_bound": None,
    "random_bound": 0.053,
}


NAMES = ["007", "a,b", 'say "x"', "one\ntwo", "one\rtwo", "NA", "ü\u2028"]


def new_run(path, **options):
    return RunDirectory.create(path, scenario=SCENARIO, seed=7, sizes=SIZES, **options)


def finished_run(path):
    run = new_run(path)
    run.log.append("wake", WAKES)
    run.metrics.append(METRIC_ROWS)
    run.attacks.append([ATTACK_ROW])
    run.write_adversaries({"single/ndcg/b0/k5": ([3, 1], [0.25, 1.0])})
    run.write_hits({"single/ndcg/b0/k5": np.array([[3, 0], [1, 2]], np.int32)})
    run.write_version({"items": np.eye(2, dtype=np.float32), "popularity": np.array([3, 1])})
    run.write_by_user([(1.5, 1, "hr@20", np.array([0, 2]), np.array([1.0, 1 / 3]))])
    run.write_lists(np.array([3]), np.array([[1, 0]], np.int32))
    run.write_positions({"node": [3, 0], "measure": ["received", "found[x]"], "value": [2.0, 1 / 3]})
    run.write_names(["ann", "bob"], NAMES)
    run.write_summary({"scenario": "tiny", "nodes": np.int64(4), "utility": {"hr@20": math.inf}})
    run.finish("complete")
    return run


def test_a_finished_run_reads_as_it_was_written(tmp_path):
    digest = finished_run(tmp_path / "r").log.digest
    run = open_run(tmp_path / "r")

    assert sorted(os.listdir(tmp_path / "r")) == sorted(FILES)
    assert run.path == tmp_path / "r"
    assert run.scenario == SCENARIO
    assert list(run.scenario) == list(SCENARIO)
    assert run.manifest["status"] == "complete"
    assert run.manifest["log_digest"] == digest == run.log.recorded_digest
    assert run.summary == {"scenario": "tiny", "nodes": 4, "utility": {"hr@20": None}}
    assert run.metrics["metric"].tolist() == ["hr@20", "ndcg@20"]
    assert run.metrics["value"][0] == 0.1 + 0.2
    assert np.isnan(run.metrics["value"][1])
    assert run.attacks["observer"].tolist() == ["coalition-5%"]
    assert (run.attacks["aac"][0], run.attacks["round"].dtype) == (1 / 3, np.int64)
    assert np.isnan(run.attacks["upper_bound"][0])
    assert run.hits["single/ndcg/b0/k5"].tolist() == [[3, 0], [1, 2]]
    assert run.positions["node"].tolist() == [3, 0]
    assert run.users["name"].tolist() == ["ann", "bob"]
    assert run.items["name"].tolist() == NAMES
    assert run.items["item"].tolist() == list(range(7))
    assert run.positions["measure"].tolist() == ["received", "found[x]"]
    assert run.positions["value"].tolist() == [2.0, 1 / 3]
    assert run.version["items"].tolist() == [[1, 0], [0, 1]]
    assert run.version["popularity"].tolist() == [3, 1]
    nodes, accuracy = run.adversaries["single/ndcg/b0/k5"]
    assert (nodes.tolist(), accuracy.tolist()) == ([3, 1], [0.25, 1.0])
    assert same(run.events("wake"), WAKES)


def test_the_manifest_says_where_the_run_comes_from(tmp_path):
    new_run(tmp_path / "r")
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_text())

    assert manifest["gossiprec"] == __version__
    assert (manifest["seed"], manifest["status"], manifest["log_digest"]) == (7, "running", None)
    assert manifest["packages"]["numpy"] == np.__version__
    assert (manifest["processor"], manifest["target"]) == (processor_name(), describe_target())
    assert manifest["started"].endswith("+00:00")
    assert manifest["finished"] is None


def test_a_commit_is_named_only_for_the_checkout_of_the_package_itself(tmp_path):
    def git(*arguments):
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], check=True, capture_output=True)

    (tmp_path / "inside").mkdir()
    (tmp_path / "a").write_text("1")
    git("init")
    assert git_commit(tmp_path) is None
    git("add", "a")
    git("commit", "-m", "first")
    commit = git_commit(tmp_path)
    (tmp_path / "a").write_text("2")

    assert len(commit) == 40
    assert git_commit(tmp_path) == f"{commit}-dirty"
    assert git_commit(tmp_path / "inside") is None


def test_a_running_run_has_its_rows_so_far_and_no_summary(tmp_path):
    writer = new_run(tmp_path / "r")
    writer.log.append("wake", WAKES)
    writer.metrics.append(METRIC_ROWS[:1])
    run = open_run(tmp_path / "r")

    assert run.summary is None
    assert run.adversaries == run.version == {}
    assert run.metrics["value"].tolist() == [0.1 + 0.2]
    assert run.attacks["aac"].shape == (0,)
    assert same(run.events("wake"), WAKES)


def test_a_row_whose_line_has_no_end_is_left_out(tmp_path):
    writer = new_run(tmp_path / "r")
    writer.metrics.append(METRIC_ROWS)
    path = tmp_path / "r" / "metrics.csv"
    path.write_bytes(path.read_bytes()[:-2])

    assert open_run(tmp_path / "r").metrics["metric"].tolist() == ["hr@20"]


def test_an_interrupted_run_keeps_a_complete_log(tmp_path):
    writer = new_run(tmp_path / "r")
    writer.log.append("wake", WAKES)
    writer.finish("interrupted")
    run = open_run(tmp_path / "r")

    assert run.manifest["status"] == "interrupted"
    assert run.manifest["log_digest"] == run.log.digest
    assert run.log.complete


def test_a_run_whose_disk_is_full_records_no_digest(tmp_path):
    run = new_run(tmp_path / "r")
    with file_size_limit(20_000), pytest.raises(ResourceError, match="File too large"):
        run.log.append("wake", {"time": np.arange(5000.0), "node": np.arange(5000)})
    run.finish("failed")
    found = open_run(tmp_path / "r")

    assert (found.manifest["status"], found.manifest["log_digest"]) == ("failed", None)
    assert (found.log.complete, found.log.damage) == (False, None)


def test_rows_that_the_disk_does_not_take_leave_no_part_of_a_line(tmp_path):
    run = new_run(tmp_path / "r")
    with file_size_limit(40), pytest.raises(ResourceError, match=r"metrics\.csv: File too large"):
        run.metrics.append(METRIC_ROWS)
    run.metrics.append(METRIC_ROWS[1:])

    assert open_run(tmp_path / "r").metrics["metric"].tolist() == ["ndcg@20"]


def test_a_run_may_fail_while_it_finishes(tmp_path):
    run = finished_run(tmp_path / "r")
    run.finish("failed")

    assert open_run(tmp_path / "r").manifest["status"] == "failed"
    with pytest.raises(ValueError, match="not 'running'"):
        run.finish("running")


def test_a_complete_run_with_a_damaged_log_gives_no_events(tmp_path):
    finished_run(tmp_path / "r")
    log = tmp_path / "r" / "events.mplog"
    log.write_bytes(log.read_bytes()[:-1])

    with pytest.raises(LogError, match="not complete"):
        open_run(tmp_path / "r").events("wake")


def test_the_numbers_of_the_tables_are_shortest_exact_decimals(tmp_path):
    finished_run(tmp_path / "r")

    assert (tmp_path / "r" / "metrics.csv").read_text() == (
        "time,round,metric,value\n10.0,10,hr@20,0.30000000000000004\n10.0,10,ndcg@20,nan\n"
    )
    assert (tmp_path / "r" / "attacks.csv").read_text().splitlines()[1] == (
        "coalition-5%,ndcg,0.99,50,10.25,10,0.3333333333333333,0.5,0.625,nan,0.053"
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"time": 1.0, "round": 1, "metric": "hr@20"}, "has columns"),
        ({"time": 1.0, "round": 1.5, "metric": "hr@20", "value": 0.0}, "not a whole number"),
        ({"time": 1.0, "round": 1, "metric": "two\nlines", "value": 0.0}, "on one line"),
        ({"time": 1.0, "round": 1, "metric": None, "value": 0.0}, "None is not text"),
        ({"time": "late", "round": 1, "metric": "hr@20", "value": 0.0}, "could not convert"),
    ],
)
def test_a_row_that_does_not_fit_its_table_is_refused_whole(tmp_path, row, message):
    run = new_run(tmp_path / "r")
    with pytest.raises(ValueError, match=message):
        run.metrics.append([METRIC_ROWS[0], row])

    assert len(open_run(tmp_path / "r").metrics["time"]) == 0


def test_attack_keys_are_readable():
    key = attack_key(observer="coalition-5%", relevance="ndcg", momentum=0.0, community_size=50)

    assert key == "coalition-5%/ndcg/b0/k50"
    assert attack_key(observer="single", relevance="ndcg", momentum=0.99, community_size=5).endswith(
        "/b0.99/k5"
    )


def test_accuracies_must_name_each_node(tmp_path):
    with pytest.raises(ValueError, match=r"\(1,\) accuracies for \(2,\) nodes"):
        new_run(tmp_path / "r").write_adversaries({"single/ndcg/b0/k5": ([1, 2], [0.5])})


def test_equal_accuracies_give_equal_bytes(tmp_path):
    for name in ("a", "b"):
        finished_run(tmp_path / name)

    assert (tmp_path / "a" / "adversaries.npz").read_bytes() == (
        tmp_path / "b" / "adversaries.npz"
    ).read_bytes()


def test_an_earlier_run_is_kept_unless_told(tmp_path):
    finished_run(tmp_path / "r")
    with pytest.raises(LogError, match=r"already contains a run; .*--out, or pass --overwrite"):
        new_run(tmp_path / "r")

    assert open_run(tmp_path / "r").manifest["status"] == "complete"


def test_overwriting_deletes_the_files_of_the_run_and_no_others(tmp_path):
    finished_run(tmp_path / "r")
    (tmp_path / "r" / "notes.txt").write_text("mine")
    (tmp_path / "r" / "figures").mkdir()
    new_run(tmp_path / "r", overwrite=True)

    assert (tmp_path / "r" / "notes.txt").read_text() == "mine"
    assert (tmp_path / "r" / "figures").is_dir()
    assert not (tmp_path / "r" / "summary.json").exists()
    assert not (tmp_path / "r" / "adversaries.npz").exists()
    assert len(open_run(tmp_path / "r").metrics["time"]) == 0


@pytest.mark.parametrize("manifest", [None, '{"manifest_version": 3}', "[1", "[]", "7"])
def test_a_folder_of_something_else_is_never_overwritten(tmp_path, manifest):
    (tmp_path / "summary.json").write_text("mine")
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(LogError, match="contains no gossiprec run"):
        new_run(tmp_path, overwrite=True)

    assert sorted(os.listdir(tmp_path)) == before
    assert (tmp_path / "summary.json").read_text() == "mine"


def test_an_empty_folder_is_taken_and_missing_parents_are_made(tmp_path):
    new_run(tmp_path)
    new_run(tmp_path / "runs" / "deep" / "r")


def test_a_file_is_no_place_for_a_run_and_an_unwritable_parent_is_a_resource_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LogError, match="is a file"):
        new_run(tmp_path / "file")
    with pytest.raises(ResourceError, match=r"cannot write .*Not a directory.*--out"):
        new_run(tmp_path / "file" / "r")


@pytest.mark.parametrize("name", ["manifest.json", "scenario.yaml", "events.mplog"])
def test_a_folder_that_is_not_a_run_says_what_it_lacks(tmp_path, name):
    finished_run(tmp_path / "r")
    (tmp_path / "r" / name).unlink()

    with pytest.raises(LogError, match=f"has no {name}"):
        open_run(tmp_path / "r")


def test_a_path_that_is_no_folder_is_refused(tmp_path):
    with pytest.raises(LogError, match="is not a directory"):
        open_run(tmp_path / "none")


@pytest.mark.parametrize(
    ("name", "content", "attribute"),
    [
        ("scenario.yaml", b"a: [", "scenario"),
        ("scenario.yaml", b"- a\n", "scenario"),
        ("summary.json", b"{", "summary"),
        ("metrics.csv", b"", "metrics"),
        ("metrics.csv", b"time,round,metric\n", "metrics"),
        ("metrics.csv", b"time,round,metric,value\n1.0,x,hr@20,0.5\n", "metrics"),
        ("metrics.csv", b"time,round,metric,value\n1.0,1\n", "metrics"),
        ("attacks.csv", b"\xff\xfe\n", "attacks"),
        ("adversaries.npz", b"PK", "adversaries"),
        ("adversaries.npz", b"", "adversaries"),
        ("hits.npz", b"PK", "hits"),
        ("metrics_by_user.parquet", b"PAR1", "by_user"),
    ],
)
def test_a_damaged_file_is_named_when_it_is_used_and_not_before(tmp_path, name, content, attribute):
    finished_run(tmp_path / "r")
    (tmp_path / "r" / name).write_bytes(content)
    run = open_run(tmp_path / "r")

    with pytest.raises(LogError, match=name):
        getattr(run, attribute)


def test_a_scenario_reads_back_with_any_yaml_reader(tmp_path):
    new_run(tmp_path / "r")

    assert yaml.safe_load((tmp_path / "r" / "scenario.yaml").read_text()) == SCENARIO


def test_a_file_is_replaced_in_one_step(tmp_path):
    path = tmp_path / "summary.json"
    path.write_text("old")
    with open_replacement(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["summary.json"]


def test_a_replacement_that_fails_leaves_the_old_file_alone(tmp_path):
    path = tmp_path / "summary.json"
    path.write_text("old")
    with pytest.raises(TypeError), open_replacement(path) as file:
        file.writelines([b"new", "not bytes"])
    assert os.listdir(tmp_path) == ["summary.json"]
    assert path.read_text() == "old"


def test_a_replacement_on_a_full_disk_is_a_resource_error(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(run_files.os, "fsync", full)
    with pytest.raises(ResourceError, match=r"cannot write .*summary\.json: No space left"):
        replace_file(tmp_path / "summary.json", b"new")

    assert os.listdir(tmp_path) == []
