"""Digests in the manifest: what of a run's files is not as it was written is noticed, also in the manifest itself."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from small_logs import SIZES, WAKES

from gossiprec.base.errors import LogError
from gossiprec.cli.log import log as log_command
from gossiprec.runs.manifest import manifest_fault, read_manifest, with_digest
from gossiprec.runs.run import open_run
from gossiprec.runs.run_directory import RunDirectory
from gossiprec.runs.run_files import FILES
from gossiprec.runs.run_tables import FINDINGS, METRICS, TableWriter, read_checked_prefix, read_run_table
from gossiprec.runs.verify import verify_log

ROW = {"time": 1.0, "round": 1, "metric": "hr@5", "value": 0.5}


def finished(path, status="complete"):
    run = RunDirectory.create(path, scenario={"name": "tiny"}, seed=7, sizes=SIZES)
    run.log.append("wake", WAKES)
    run.metrics.append([ROW])
    run.write_adversaries({"single/ndcg/b0/k5": ([3, 1], [0.25, 1.0])})
    run.write_hits({"single/ndcg/b0/k5": np.array([[3, 0]], np.int32)})
    run.write_version({"items": np.eye(2, dtype=np.float32)})
    run.write_by_user([(1.0, 1, "hr@5", np.array([3]), np.array([0.5]))])
    run.write_lists(np.array([3]), np.array([[1, 0]], np.int32))
    run.write_positions({"node": [3], "measure": ["received"], "value": [2.0]})
    run.write_names(["ann", "bob"], ["one"])
    run.write_summary({"scenario": "tiny", "utility": {"hr@5": 0.5}})
    run.finish(status)
    return path


@pytest.fixture
def run(tmp_path):
    return finished(tmp_path / "r")


def verified(run, code):
    ran = CliRunner().invoke(log_command, ["verify", str(run)], catch_exceptions=False)
    assert ran.exit_code == code, ran.output
    return ran.output


def test_an_untouched_run_is_complete_and_intact_with_all_its_files(run):
    assert "complete and intact, and so are all files of the run" in verified(run, 0)
    assert set(read_manifest(run)["files"]) == set(FILES) - {"manifest.json"}


@pytest.mark.parametrize("name", [name for name in FILES if name not in ("manifest.json", "events.mplog")])
def test_any_changed_file_is_named(run, name):
    content = bytearray((run / name).read_bytes())
    content[len(content) // 2] ^= 1
    (run / name).write_bytes(content)
    found = verify_log(run)
    assert not found.complete
    assert f"{name} was changed after it was written" in found.contradiction
    assert f"{name} was changed after it was written" in verified(run, 2)


def test_rows_rewritten_with_as_many_bytes_are_found(run):
    table = run / "metrics.csv"
    table.write_text(table.read_text().replace("0.5", "0.9"))
    assert "metrics.csv was changed after it was written" in verified(run, 2)


def test_a_missing_file_and_one_too_many_are_named(run):
    (run / "hits.npz").unlink()
    (run / "attacks.csv").write_text("")
    faults = verify_log(run).faults
    assert ["hits.npz is missing" in fault for fault in faults] == [True, False]
    assert "attacks.csv was changed after it was written" in faults[1]
    other = run.with_name("interrupted")
    writer = RunDirectory.create(other, scenario={"name": "tiny"}, seed=7, sizes=SIZES)
    writer.finish("interrupted")
    (other / "hits.npz").write_bytes(b"")
    assert "hits.npz is not recorded" in verify_log(other).faults[0]


@pytest.mark.slow
def test_every_flipped_bit_of_the_manifest_is_noticed(run):
    content = (run / "manifest.json").read_bytes()
    unnoticed = []
    for place in range(len(content)):
        for bit in range(8):
            flipped = bytearray(content)
            flipped[place] ^= 1 << bit
            try:
                found = json.loads(bytes(flipped))
            except ValueError:
                continue
            if not isinstance(found, dict) or manifest_fault(found) is None:
                unnoticed.append((place, bit))
    assert unnoticed == []


def test_a_flip_in_the_manifest_is_told_by_verify(run):
    manifest = run / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"seed": 7', '"seed": 5'))
    assert "manifest.json was changed after it was written" in verified(run, 2)


def test_verify_refuses_a_manifest_without_digests(run):
    manifest = json.loads((run / "manifest.json").read_text())
    for key, message in (("digest", "but it records None"), ("files", "files is missing")):
        del manifest[key]
        (run / "manifest.json").write_text(json.dumps(manifest))
        assert message in verified(run, 2)


def test_a_run_in_progress_has_the_digest_of_its_scenario_only(tmp_path):
    writer = RunDirectory.create(tmp_path / "r", scenario={"name": "tiny"}, seed=7, sizes=SIZES)
    writer.metrics.append([ROW])
    assert verify_log(tmp_path / "r").faults == ()
    assert set(read_manifest(tmp_path / "r")["files"]) == {"scenario.yaml"}
    (tmp_path / "r" / "scenario.yaml").write_text("name: other\n")
    assert "scenario.yaml was changed after it was written" in verify_log(tmp_path / "r").contradiction
    writer.finish("complete")
    assert "scenario.yaml was changed after it was written" in verify_log(tmp_path / "r").contradiction


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"status": "compLete"}, "status is 'compLete'; expected running, complete, failed, interrupted"),
        ({"status": 7}, "status is 7; expected running, complete, failed, interrupted"),
        ({"status": None}, "status is null; expected running"),
        ({"plugins": [1]}, r"plugins is \[1\]; expected a mapping"),
        ({"files": "x"}, "files is 'x'; expected a mapping"),
        ({"notes": {}}, "notes is {}; expected a list"),
    ],
)
def test_a_damaged_value_in_the_manifest_gives_a_message(run, changes, told):
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps(with_digest({**manifest, **changes})))
    with pytest.raises(LogError, match=told):
        open_run(run)
    verified(run, 2)


def test_numbers_that_are_not_finite_are_no_tracebacks(run):
    (run / "summary.json").write_text('{"utility": {"hr@5": 1e999}}')
    with pytest.raises(LogError, match=r"summary\.json: found the number 1e999; expected finite numbers"):
        _ = open_run(run).summary


@pytest.mark.parametrize(
    ("column", "cell"),
    [("time", "1e999"), ("time", "-1e400"), ("time", "inf"), ("value", "1e999"), ("value", "-1e400")],
)
def test_a_number_beyond_all_floats_in_a_table_gives_a_message(tmp_path, cell, column):
    row = {"time": "1.0", "round": "1", "metric": "hr@5", "value": "0.5", column: cell}
    (tmp_path / "metrics.csv").write_text(f"time,round,metric,value\n{','.join(row.values())}\n")
    with pytest.raises(
        LogError, match=rf"metrics\.csv: column {column} holds a number that is too large.*expected"
    ):
        read_run_table(tmp_path, METRICS)


def test_a_damaged_table_without_rows_is_written_again(tmp_path):
    writer = TableWriter(tmp_path, FINDINGS)
    checked = writer.length_and_crc()
    writer.close()
    header = (tmp_path / "findings.csv").read_bytes()
    for damaged in (b"", b"time,rounD\n", None):
        if damaged is None:
            (tmp_path / "findings.csv").unlink()
        else:
            (tmp_path / "findings.csv").write_bytes(damaged)
        assert read_checked_prefix(tmp_path, FINDINGS, checked) == header
