"""Replaying a run confirms it, or names the first thing that is not so."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from gossiprec.base.errors import LogError
from gossiprec.emulation import replay, simulate
from gossiprec.runs import EventWriter, read_log
from tests.emulation.ended_early import Patient
from tests.emulation.tiny_runs import tiny
from tests.slow import slow_except_first


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return simulate(tiny(), out=tmp_path_factory.mktemp("runs") / "run").path


@pytest.fixture
def run(original, tmp_path):
    return shutil.copytree(original, tmp_path / "run")


def rewritten(run, change):
    """Write a run's log anew, with good CRCs and the manifest's digest, after `change(kind, columns)`."""
    parts = []
    for kind, rows, packed, _ in read_log(run / "events.mplog").chunks():
        pairs = zip(kind.columns, packed, strict=True)
        columns = {c.name: np.frombuffer(p, c.dtype).reshape(c.shape(rows)).copy() for c, p in pairs}
        parts.append((kind.name, columns))
    with EventWriter(run / "events.mplog", sizes={"view_size": 3}) as writer:
        for kind, columns in parts:
            writer.append(kind, change(kind, columns))
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, "log_digest": writer.digest}))


@pytest.mark.slow
def test_an_honest_run_is_confirmed_and_left_alone(run):
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    found = replay(run)

    assert found.confirmed
    assert found.digest == json.loads(before["manifest.json"])["log_digest"]
    assert found.elsewhere == ()
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def test_a_tampered_log_is_found_by_kind_and_row(run):
    sizes = read_log(run / "events.mplog").events("message")["size_bytes"]

    def heavier(kind, columns):
        if kind == "message" and not hasattr(heavier, "done"):
            columns["size_bytes"][7] += 4
            heavier.done = True
        return columns

    rewritten(run, heavier)
    found = replay(run)

    assert "message row 7 " in found.difference
    told, again = found.difference.split(" in the second run ")
    assert f"size_bytes {sizes[7] + 4}," in told
    assert f"size_bytes {sizes[7]}," in again


def test_a_log_that_lacks_rows_at_the_end_is_found(run):
    rewritten(
        run,
        lambda kind, columns: {name: v[:0] for name, v in columns.items()} if kind == "update" else columns,
    )

    assert "update row 0 (time" in replay(run).difference


def test_a_log_that_is_not_the_manifests_is_found(run):
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, "log_digest": "0" * 64}))

    assert "its manifest records 000" in replay(run).difference


def test_a_changed_table_is_found_by_line(run):
    lines = (run / "attacks.csv").read_text().splitlines()
    lines[2] = lines[2].replace("single", "double")
    (run / "attacks.csv").write_text("\n".join(lines) + "\n")

    assert replay(run).difference.startswith("attacks.csv, line 3: double")


@pytest.mark.parametrize("status", slow_except_first(["interrupted", "running"]))
def test_a_run_that_ended_early_is_compared_up_to_its_last_report(status, tmp_path):
    run = simulate(tiny(), out=tmp_path / "run", progress=Patient(2))
    manifest = (run.path / "manifest.json").read_text()
    if status == "running":  # and no process holds the lock: it was killed
        plain = {**json.loads(manifest), "status": "running", "log_digest": None}
        (run.path / "manifest.json").write_text(json.dumps(plain))
    found = replay(run.path)

    assert found.confirmed
    assert found.upto == 4.0


@pytest.mark.slow
def test_what_differs_between_then_and_now_is_said(run):
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["packages"]["numpy"] = "0.1"
    (run / "manifest.json").write_text(json.dumps({**manifest, "code": "old"}))
    found = replay(run)

    assert found.confirmed
    assert found.elsewhere[0].startswith("code was old, is ")
    assert any(line.startswith("numpy was 0.1, is ") for line in found.elsewhere)


@pytest.mark.slow
def test_another_processor_and_target_are_named_where_bytes_differ(run):
    rewritten(
        run,
        lambda kind, columns: {name: v[:0] for name, v in columns.items()} if kind == "update" else columns,
    )
    manifest = json.loads((run / "manifest.json").read_text())
    there = {"processor": "Intel(R) Xeon(R)", "target": "skylake-avx512 avx512f avx2 fma"}
    (run / "manifest.json").write_text(json.dumps({**manifest, **there}))
    found = replay(run)

    assert not found.confirmed
    assert found.elsewhere == (
        f"processor was Intel(R) Xeon(R), is {manifest['processor']}",
        f"target was skylake-avx512 avx512f avx2 fma, is {manifest['target']}",
    )


@pytest.mark.slow
def test_nothing_is_said_of_a_processor_that_an_older_run_did_not_note(run):
    manifest = json.loads((run / "manifest.json").read_text())
    older = {key: value for key, value in manifest.items() if key not in ("processor", "target")}
    (run / "manifest.json").write_text(json.dumps(older))

    assert replay(run).elsewhere == ()


def test_a_run_without_a_report_has_nothing_to_confirm(tmp_path):
    from gossiprec.runs import RunDirectory

    RunDirectory.create(tmp_path / "run", scenario=tiny(), seed=5).finish("failed")
    with pytest.raises(LogError, match="has no report in its log"):
        replay(tmp_path / "run")
