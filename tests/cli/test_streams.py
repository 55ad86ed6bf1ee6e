"""Standard streams that are closed, or that nothing reads any more: a run is not lost by them."""

import io
import json
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from calls import QUICK, ROOT, SMOKE, environment, invoke

GOSSIPREC = shlex.join([sys.executable, "-m", "gossiprec"])


def shell(text, cwd):
    return subprocess.run(
        ["bash", "-c", text], cwd=cwd, env=environment(PYTHONPATH=str(ROOT)), capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture
def simulate():
    return f"{GOSSIPREC} {shlex.join(['simulate', SMOKE, *QUICK])} --out run"


def status(folder):
    return json.loads((folder / "run" / "manifest.json").read_text())["status"]


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
@pytest.mark.full
def test_a_run_works_with_closed_streams(closed, simulate, tmp_path):
    ended = shell(f"{simulate} {closed}", tmp_path)
    assert (ended.returncode, ended.stderr.count("Error")) == (0, 0), ended.stderr
    assert status(tmp_path) == "complete"
    assert "complete and intact" in shell(f"{GOSSIPREC} log verify run", tmp_path).stdout


@pytest.mark.slow
@pytest.mark.parametrize("pipe", ["| head -1", "2>&1 | head -1"])
@pytest.mark.full
def test_a_reader_that_goes_early_ends_no_run(pipe, simulate, tmp_path):
    plots = simulate.replace("--no-plots", "--set plots=true")
    ended = shell(f"{plots} {pipe}; echo ${{PIPESTATUS[0]}}", tmp_path)
    assert ended.stdout.splitlines()[-1] == "0"
    assert "Error" not in ended.stderr
    assert status(tmp_path) == "complete"
    assert (tmp_path / "run" / "curves.png").exists()


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["head -1", "true"])
@pytest.mark.full
def test_a_listing_may_be_read_in_part_or_not_at_all(reader, tmp_path):
    ended = shell(f"{GOSSIPREC} scenario schema | {reader}; echo ${{PIPESTATUS[0]}}", tmp_path)
    assert (ended.stdout.splitlines()[-1], ended.stderr) == ("0", "")


def test_a_scenario_may_come_from_standard_input(monkeypatch, capsys):
    def given(text):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text)))
        return invoke(capsys, "scenario", "show", "-")

    assert given(Path(SMOKE).read_bytes()) == invoke(capsys, "scenario", "show", SMOKE)
    for text, found in {
        b"": "is empty",
        b"a: [": "not valid YAML",
        b"\0": "not a text",
        b"#" * 600_000: "bytes",
    }.items():
        code, out, err = given(text)
        assert (code, out) == (2, "")
        assert err.startswith("error: standard input")
        assert found in err
