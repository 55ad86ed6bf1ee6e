"""``report``, ``plot``, ``runs`` and ``compare`` used to show changed numbers without a word."""

import os
import shutil
from shlex import quote

import pytest

from gossiprec.cli.main import exit_code
from gossiprec.runs import RunDirectory, open_run
from gossiprec.runs.manifest import changed_files
from gossiprec.runs.run_list import SHOWN
from tests.figures.small_runs import write_run


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "runs" / "run").path


def told(capsys, *words):
    code = exit_code([str(word) for word in words])
    _, err = capsys.readouterr()
    assert code in (0, 2)
    return [line for line in err.splitlines() if "changed after the run wrote" in line]


def flip(file):
    content = bytearray(file.read_bytes())
    place = content.index(b"3") if file.suffix == ".json" else -3
    content[place] ^= 1
    file.write_bytes(content)


def test_a_flipped_bit_of_any_file_is_found(run):
    manifest = open_run(run).manifest
    assert changed_files(run, manifest) == []
    for name in manifest["files"]:
        before = (run / name).read_bytes()
        flip(run / name)
        assert changed_files(run, manifest) == [name], name
        assert changed_files(run, manifest, SHOWN) == [name]
        os.utime(run / name, ns=(0, 0))  # as long before the manifest as what the run wrote
        assert changed_files(run, manifest, SHOWN) == ([name] if name in SHOWN else [])
        (run / name).write_bytes(before + b"\n")
        assert changed_files(run, manifest) == changed_files(run, manifest, SHOWN) == [name]
        (run / name).unlink()
        assert changed_files(run, manifest) == [name]
        (run / name).write_bytes(before)
    text = (run / "manifest.json").read_text()
    (run / "manifest.json").write_text(text.replace('"seed": 1', '"seed": 2'))
    assert changed_files(run, open_run(run).manifest) == ["manifest.json"]


def test_runs_and_diffs_print_one_note(run, capsys):
    shutil.copytree(run, run.with_name("copy"))
    assert told(capsys, "runs", run.parent) == []
    flip(run / "summary.json")
    flip(run / "scenario.yaml")
    (note,) = told(capsys, "runs", run.parent)
    assert note.startswith(f"note: {run}: scenario.yaml, summary.json changed after")
    assert note.endswith(f"see: gossiprec log verify {quote(str(run))}")
    flip(run.with_name("copy") / "summary.json")
    (note,) = told(capsys, "runs", run.parent)
    assert "(files of 1 other runs, too)" in note


def test_comparisons_print_one_note(tmp_path, capsys):
    for name in ("one", "two"):
        RunDirectory.create(tmp_path / name, scenario={"name": name, "seed": 1}, seed=1).finish("complete")
    both = (tmp_path / "one", tmp_path / "two")
    assert told(capsys, "compare", *both) == []
    flip(tmp_path / "two" / "metrics.csv")
    (note,) = told(capsys, "compare", *both)
    assert note.startswith(f"note: {tmp_path / 'two'}: metrics.csv changed after")


@pytest.mark.slow
def test_reports_and_plots_print_one_note(run, capsys, tmp_path):
    commands = (
        ("report", run, "--out", tmp_path / "r.html"),
        ("plot", "curves", run, "--out", tmp_path / "fig"),
    )
    for words in commands:
        assert told(capsys, *words) == []
    flip(run / "metrics.csv")
    for words in commands:
        (note,) = told(capsys, *words)
        assert f"{run}: metrics.csv changed after" in note


def test_a_run_in_progress_gets_no_note(tmp_path, capsys):
    directory = RunDirectory.create(tmp_path / "runs" / "run", scenario={"name": "x"}, seed=1)
    directory.metrics.append([{"time": 1.0, "round": 1, "metric": "hr@5", "value": 0.5}])
    assert told(capsys, "runs", tmp_path / "runs") == []
    directory.finish("failed")


def test_names_outside_the_run_are_not_read(run):
    manifest = open_run(run).manifest
    other = {"../../secret": {"bytes": 1, "sha256": ""}, "/etc/passwd": {"bytes": 1, "sha256": ""}}
    manifest["files"] |= other
    manifest.pop("digest")
    assert not {*other} & {*changed_files(run, manifest)}
