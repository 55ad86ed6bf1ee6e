"""Damage in what a run and a study record about themselves: one message, whatever the damage and the reader."""

from __future__ import annotations

import json
import os
import re
import shutil
import tracemalloc
import zipfile
from io import FileIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gossiprec.base.errors import LogError
from gossiprec.base.plain_text import dump_yaml, parse_json, parse_yaml
from gossiprec.cli.main import exit_code
from gossiprec.emulation.carriers.versions import VersionReader
from gossiprec.emulation.run.simulate import simulate
from gossiprec.figures import epsilon
from gossiprec.runs import open_run, record_format, run_files, run_tables
from gossiprec.runs.checkpoint_format import CheckpointStamp
from gossiprec.runs.checkpoints import read_checkpoint, write_checkpoint
from gossiprec.runs.manifest import digests_of, read_manifest, read_study_mark, read_summary, write_manifest
from gossiprec.runs.run_directory import RunDirectory
from gossiprec.runs.run_list import find_runs, list_runs
from gossiprec.runs.verify import verify_log

ROOT = Path(__file__).resolve().parents[2]
BOMB = "bomb:\n  x0: &x0 [1, 1]\n" + "".join(f"  x{i}: &x{i} [*x{i - 1}, *x{i - 1}]\n" for i in range(1, 40))
MERGE = (
    "bomb:\n  a0: &a0 {" + ", ".join(f"k{i}: 1" for i in range(2_000)) + "}\n"
    + "".join(f"  a{i}: &a{i}\n    <<: *a{i - 1}\n" for i in range(1, 300))
)  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a small complete run with most files."""
    path = tmp_path_factory.mktemp("made") / "r"
    changes = ["protocol.wakes=2", "evaluate.by_user=all", "evaluate.keep_lists=3", "executor.name=fused"]
    simulate(ROOT / "scenarios" / "smoke.yaml", overrides=changes, out=path)
    return path


@pytest.fixture
def run(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "r"))


@pytest.mark.parametrize(
    "text", [BOMB, MERGE, "bomb: " + "[" * 2_000, "a: !!timestamp x", 'a: !!int ""', 'a: "\\ud800"']
)
@pytest.mark.cases(2)
def test_yaml_that_gossiprec_does_not_write_is_refused_at_once(text):
    with pytest.raises(ValueError, match=r"\S"):
        parse_yaml(text)
    assert parse_yaml("a: &x [1, b]\nc: *x\n") == {"a": [1, "b"], "c": [1, "b"]}


WORDS = st.one_of(
    st.text("ab1:.-+ ',/_0e@\n[]{}?", max_size=9), st.sampled_from(["null", "1e3", "=", "2001-01-01"])
)
PIECES = ["a", "b1", "-", " ", "\n", "\n  ", "- ", ": ", "'a b'", "[]", "{}", "---"]


def read_by(library, text):
    try:
        return repr(library(text))
    except (yaml.YAMLError, ValueError):
        return "refused"


@settings(max_examples=60)
@given(
    words=st.dictionaries(WORDS, WORDS | st.floats() | st.lists(WORDS, max_size=2), max_size=3),
    pieces=st.lists(st.sampled_from(PIECES), max_size=12),
)
@pytest.mark.full
def test_yaml_is_written_and_read_as_by_the_slower_library(words, pieces):
    assert dump_yaml(words) == yaml.safe_dump(words, sort_keys=False, allow_unicode=True)
    for text in ("".join(pieces), dump_yaml(words)):
        assert read_by(parse_yaml, text) == read_by(yaml.safe_load, text)


@pytest.mark.parametrize(
    "text", [b"1e999", b"NaN", b"[" * 100_000, b"[" * 60 + b"]" * 60, b"9" * 400, b'"\\ud800"', b"{"]
)
def test_json_that_gossiprec_does_not_write_is_refused(text):
    with pytest.raises(ValueError, match=r"\S"):
        parse_json(b'{"a": ' + text + b"}")
    assert parse_json(b'{"a": [1, 2.5, null, "\xc3\xa9"]}') == {"a": [1, 2.5, None, "é"]}


@pytest.mark.parametrize(
    ("file", "change", "found"),
    [
        ("summary.json", {"interactions": "<script>"}, "interactions is '<script>'; expected a whole number from 0"),
        ("summary.json", {"nodes": -1}, "nodes is -1; expected a whole number from 0"),
        ("summary.json", {"nodes": True}, "nodes is true"),
        ("summary.json", {"wall_seconds": {"a": 1}}, "wall_seconds is {'a': 1}; expected a number"),
        ("summary.json", {"utility": "x"}, "utility is 'x'; expected a mapping"),
        ("summary.json", {"attacks": [{"observer": "single"}]}, "attacks.0.relevance is missing"),
        ("summary.json", {"findings": [3]}, "findings.0 is 3; expected a mapping"),
        ("summary.json", {"notes": 0.5}, "notes is 0.5; expected a list"),
        ("summary.json", {"bytes": {"sent": "x"}}, "bytes.sent is 'x'; expected a number or null"),
        ("summary.json", {"privacy": 3}, "privacy is 3; expected a mapping"),
        ("manifest.json", {"inputs": {"a": "x"}}, "inputs.a is 'x'; expected a mapping"),
        ("manifest.json", {"files": {"summary.json": {"bytes": 3}}}, "files.summary.json.sha256 is missing"),
        ("manifest.json", {"resumed": [1]}, "resumed.0 is 1; expected a mapping"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_named_even_if_all_digests_are_forged(run, file, change, found):
    content = json.loads((run / file).read_text()) | change
    (run / file).write_text(json.dumps(content))
    if file == "summary.json":
        write_manifest(run, read_manifest(run) | {"files": digests_of(run)})
    with pytest.raises(LogError) as raised:
        _ = open_run(run).summary
    assert str(raised.value).startswith(f"{run / file}: {found}")
    rows, problems = list_runs([run])
    assert not rows
    assert found in problems[0]


@pytest.mark.parametrize("key", ["executor", "threads"])
def test_the_digests_show_damage_that_no_check_of_types_finds(run, key, capsys):
    content = json.loads((run / "summary.json").read_text())
    del content[key]
    (run / "summary.json").write_text(json.dumps(content))
    assert exit_code(["report", str(run), "--out", str(run.parent / "o.html")]) == 2
    assert "summary.json was changed after it was written" in capsys.readouterr().err


def test_an_error_over_intact_files_is_no_damage(run, monkeypatch):
    monkeypatch.setattr("gossiprec.report.sections.overview.describe_run", lambda run: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        exit_code(["report", str(run), "--out", str(run.parent / "o.html")])


@pytest.mark.parametrize("text", [BOMB, MERGE])
@pytest.mark.parametrize("command", [["runs"], ["report"], ["diff"], ["compare"]], ids=lambda words: words[0])
@pytest.mark.cases(7)
def test_a_scenario_that_grows_while_it_is_read_is_refused(made, run, command, text, capsys):
    (run / "scenario.yaml").write_text(text)
    others = [str(made)] if command[0] in ("diff", "compare") else []
    exit_code([*command, str(run), *others])
    said = capsys.readouterr()
    assert "scenario.yaml" in said.err + said.out


def test_a_study_mark_of_other_types_is_refused(tmp_path):
    (tmp_path / "study.json").write_text('{"gossiprec": "1", "study": "x", "axes": [1]}')
    with pytest.raises(
        LogError, match=r"axes\.0 is 1; expected text; the file is damaged; run the study again"
    ):
        read_study_mark(tmp_path)


def test_files_that_are_larger_than_the_memory_are_not_read(run):
    for name in ("manifest.json", "summary.json", "scenario.yaml", "metrics.csv"):
        with (run / name).open("r+b") as file:
            file.truncate(1 << 43)
        with pytest.raises(
            LogError, match=rf"{name}: its content needs 8\.0 TiB; expected up to .* available memory"
        ):
            run_files.read_regular(run / name)


def _archive(run, name, mib):
    np.savez_compressed(run / name, epsilon=np.zeros((mib << 17,)))


def _parquet(path, schema, mib):
    rows = (mib << 20) // run_tables.ROW_BYTES
    values = {field.name: ["hr@20"] * rows if field.name == "metric" else np.zeros(rows) for field in schema}
    pq.write_table(pa.table(values, schema), path, compression="zstd")


def _long_cell(run, name, mib):
    line = (run / name).read_text().splitlines()[-1]
    n = int((mib << 18) ** 0.5)
    lines = [line.replace(line.split(",")[2], "a" * n), *[line] * n]
    with (run / name).open("a") as file:
        file.write("\n".join(lines) + "\n")


def _empty_lists(run, tag, mib):
    content = record_format.pack_record(tag, [[]] * (mib << 14))
    at = len(record_format.MAGIC) if tag == record_format.HEADER else None
    log = (run / "events.mplog").read_bytes()[:at]
    (run / "events.mplog").write_bytes(log[: -record_format.TRAILER_BYTES if at is None else None] + content)


def _checkpoint(run, mib):
    stamp = CheckpointStamp("code", "scenario", 1, 1.0, 0, "digest")
    with FileIO(run / "00000001.ckpt", "w") as file:
        write_checkpoint(file, stamp, {"a": [[]] * (mib << 14)})


BOMBS = {
    "hits.npz": (lambda run, mib: _archive(run, "hits.npz", mib), lambda run: open_run(run).hits),
    "adversaries.npz": (
        lambda run, mib: _archive(run, "adversaries.npz", mib), lambda run: open_run(run).adversaries
    ),
    "version.npz": (lambda run, mib: _archive(run, "version.npz", mib), lambda run: open_run(run).version),
    "versions-00001.npz": (
        lambda run, mib: _archive(run, "versions-00001.npz", mib),
        lambda run: VersionReader(run, trained=True).begin_report(1),
    ),
    "epsilon.npz": (
        lambda run, mib: _archive(run, "epsilon.npz", mib), lambda run: epsilon.draw([open_run(run)], run / "e")
    ),
    "metrics_by_user.parquet": (
        lambda run, mib: _parquet(run / "metrics_by_user.parquet", run_tables.parquet_schema(), mib),
        lambda run: open_run(run).by_user,
    ),
    "lists.parquet": (
        lambda run, mib: _parquet(run / "lists.parquet", pq.read_schema(run / "lists.parquet"), mib),
        lambda run: open_run(run).lists,
    ),
    "metrics.csv": (lambda run, mib: _long_cell(run, "metrics.csv", mib), lambda run: open_run(run).metrics),
    "findings.csv": (lambda run, mib: _long_cell(run, "findings.csv", mib), lambda run: open_run(run).findings),
    "events.mplog (header)": (
        lambda run, mib: _empty_lists(run, record_format.HEADER, mib), lambda run: open_run(run).log
    ),
    "events.mplog (chunk)": (
        lambda run, mib: _empty_lists(run, record_format.CHUNK, mib), lambda run: open_run(run).log
    ),
    "events.mplog (index)": (
        lambda run, mib: _empty_lists(run, record_format.INDEX, mib), lambda run: open_run(run).log
    ),
    "00000001.ckpt": (_checkpoint, lambda run: read_checkpoint(run / "00000001.ckpt", limit_bytes=8 << 20)),
}  # fmt: skip
"""Files of a run that are small and would become many MiB: how to write one, and how the run reads it."""


@settings(max_examples=2, deadline=None, derandomize=True)
@given(mib=st.integers(18, 30))
@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.cases(3)
def test_no_file_unpacks_to_more_than_its_run_can_have_written(made, tmp_path_factory, name, mib):
    run = Path(shutil.copytree(made, tmp_path_factory.mktemp("bomb") / "r"))
    write, read = BOMBS[name]
    write(run, mib)
    write_manifest(run, read_manifest(run) | {"files": digests_of(run)})
    tracemalloc.start()
    try:
        with pytest.raises(LogError, match=re.escape(name.split()[0])):
            read(run)
        assert tracemalloc.get_traced_memory()[1] < 12 << 20
    finally:
        tracemalloc.stop()


def test_what_a_run_writes_is_within_the_limits(made):
    run = open_run(made)
    assert len(run.by_user["user"]) > 0 < len(run.lists["user"])
    assert run.hits.keys() == run.adversaries.keys()


@pytest.mark.parametrize("content", [b"", b"PK", b"\0" * 100], ids=len)
@pytest.mark.parametrize("name", ["hits", "adversaries"])
def test_an_archive_that_is_none_is_one_message(run, name, content):
    (run / f"{name}.npz").write_bytes(content)
    with pytest.raises(LogError, match=f"cannot read .*{name}.npz"):
        getattr(open_run(run), name)


def test_an_archive_that_claims_a_shape_beyond_all_memory_is_one_message(run):
    with zipfile.ZipFile(run / "hits.npz", "w") as archive, archive.open("a.npy", "w") as file:
        shape = {"descr": "<i8", "fortran_order": False, "shape": (1 << 40, 2)}
        np.lib.format.write_array_header_1_0(file, shape)
    with pytest.raises(LogError, match=r"cannot read .*hits\.npz"):
        _ = open_run(run).hits


def test_a_metric_with_a_name_of_many_letters_is_refused(run):
    columns = {"user": [0], "time": [0.0], "round": [0], "metric": ["a" * 10**4], "value": [0.0]}
    pq.write_table(pa.table(columns, schema=run_tables.parquet_schema()), run / "metrics_by_user.parquet")
    with pytest.raises(LogError, match="found a metric of 10,000 characters"):
        _ = open_run(run).by_user


def test_verify_covers_the_results_of_later_observers(run):
    shutil.copytree(run, run / "observed" / "later")
    assert verify_log(run).complete
    (run / "observed" / "later" / "metrics.csv").write_text("time,round,metric,value\n")
    found = verify_log(run)
    assert not found.complete
    assert "observed/later/metrics.csv was changed after it was written" in str(found)
    (run / "observed" / "later" / "manifest.json").unlink()
    assert "observed/later has no manifest.json; delete it" in str(verify_log(run))
    shutil.rmtree(run / "observed" / "later")
    (run / "observed" / "later").symlink_to(run)
    assert "found a link" in str(verify_log(run))


def test_the_epsilons_of_an_earlier_run_go_with_it(run):
    np.savez(run / "epsilon.npz", epsilon=np.zeros(3))
    RunDirectory.create(
        run, scenario={"name": "tiny"}, seed=7, sizes={"view_size": 3}, overwrite=True
    ).finish("complete")
    assert not (run / "epsilon.npz").exists()


@pytest.mark.parametrize("kind", ["link", "text"])
def test_damaged_epsilons_are_one_message(run, kind, capsys):
    if kind == "link":
        os.symlink("/etc/passwd", run / "epsilon.npz")
    else:
        (run / "epsilon.npz").write_text("x")
    assert exit_code(["plot", "epsilon", str(run), "--out", str(run.parent / "e")]) == 2
    assert "epsilon.npz" in capsys.readouterr().err
    assert len(find_runs(run.parent)) == 1
    assert read_summary(run / "summary.json")["nodes"] == 24
