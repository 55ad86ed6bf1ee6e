"""Comparisons with public libraries: what is compared, what is refused, and what the table says."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

PEERS = Path(__file__).resolve().parents[2] / "benchmarks" / "peers"
SIDE = """
from types import SimpleNamespace
from worker import serve
serve(SimpleNamespace(prepare=lambda **_: None, check=lambda: {facts}, measure=lambda: {seconds}))
"""
FAST, SLOW = {"wall": 2.0, "cpu": 1.0, "drawing": 0.5}, {"wall": 9.0, "cpu": 8.0}


@pytest.fixture
def peers(monkeypatch):
    monkeypatch.syspath_prepend(PEERS)
    names = ("comparison", "environments", "run")
    yield {name: importlib.import_module(name) for name in names}
    for name in names:
        sys.modules.pop(name)


@pytest.fixture
def compared(peers, tmp_path):
    """Return a function that compares two sides with these facts and seconds."""

    def compare(ours, theirs, fast=FAST, slow=SLOW):
        module, scripts = peers["comparison"], {}
        for name, facts, seconds in (("ours", ours, fast), ("theirs", theirs, slow)):
            scripts[name] = tmp_path / f"{name}.py"
            scripts[name].write_text(SIDE.format(facts=facts, seconds=seconds))
        what = module.Comparison("toy", "pass", "other", str(scripts["ours"]), str(scripts["theirs"]), aim=4)
        log = tmp_path / "log"
        with (
            module.Side(sys.executable, what.ours, 1, log) as our,
            module.Side(sys.executable, what.theirs, 1, log) as their,
        ):
            return module.compare(what, our, their, tmp_path, threads=1, rounds=2)

    return compare


def test_table_has_medians_ratios_aim_and_what_is_equal(peers, compared):
    row = compared({"samples": 7, "losses": [0.5, 2.0]}, {"samples": 7, "losses": [0.50001, 2.0]})
    assert row.ratio == 4.5
    text = peers["comparison"].table([row], ["fedjax: pip: no such version"], "a machine")
    assert "a machine" in text
    assert text.endswith("- not compared: fedjax: pip: no such version")
    cells = "| 2 (1), drawing 0.5 | 9 (8) | 4.5 (4.5 to 4.5) | 8 (8 to 8) | 4: reached | samples, losses |"
    assert cells in text


def test_other_work_is_refused_with_both_values(peers, compared):
    with pytest.raises(peers["comparison"].FailedError, match=r"losses: ours .0.5., theirs .0.51."):
        compared({"samples": 7, "losses": [0.5]}, {"samples": 7, "losses": [0.51]})
    with pytest.raises(peers["comparison"].FailedError, match="no fact is shared"):
        compared({"samples": 7}, {"users": 7})


def test_failure_of_a_side_names_the_script_the_error_and_the_log(peers, compared):
    with pytest.raises(
        peers["comparison"].FailedError, match=r"theirs.py: measure: ZeroDivisionError: .*log"
    ):
        compared({"a": 1}, {"a": 1}, slow="1 / 0")
    with pytest.raises(peers["comparison"].FailedError, match=r"theirs.py: measure: left with 5"):
        compared({"a": 1}, {"a": 1}, slow="__import__('os')._exit(5)")


def test_source_is_the_folder_of_the_commit_and_a_missing_clone_gets_one_line(peers, tmp_path):
    module, clone = peers["environments"], tmp_path / "clone"
    (clone / "code").mkdir(parents=True)
    (clone / "code" / "a.py").write_text("x = 1")

    def git(*words):
        command = ["git", "-C", str(clone), "-c", "user.name=a", "-c", "user.email=a@b.c", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    commit = git("rev-parse", "HEAD")
    (clone / "code" / "a.py").write_text("x = 2")
    peer = module.Peer((), "https://example.org/a", commit, "code")
    assert (module._source("a", peer, tmp_path, clone) / "code" / "a.py").read_text() == "x = 1"
    with pytest.raises(
        module.UnavailableError, match=r"a: --source found no folder .*; expected a clone of http"
    ):
        module._source("a", module.Peer((), "https://a.org", "0" * 40), tmp_path, tmp_path / "absent")
    with pytest.raises(module.UnavailableError, match=r"^a: git -C .*: fatal: .*$"):
        module._source("a", module.Peer((), "https://a.org", "0" * 40), tmp_path, clone)


def test_peer_that_cannot_be_installed_leaves_exit_code_3(peers, tmp_path, monkeypatch, capsys):
    broken = peers["environments"].Peer(("--no-index", "surely-absent==1"))
    monkeypatch.setitem(peers["environments"].PEERS, "gossipy", broken)
    monkeypatch.setattr(peers["environments"].venv, "create", lambda *_, **__: None)
    python = tmp_path / "gossipy" / "bin" / "python"
    monkeypatch.setattr(sys, "argv", ["run.py", "--cache", str(tmp_path), "--only", "gossip"])
    assert peers["run"].main() == 3
    assert f"- not compared: gossipy: {python} cannot be started" in capsys.readouterr().out


def test_source_without_a_known_name_is_refused(peers, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["run.py", "--cache", "x", "--source", "lightgnc=/a"])
    with pytest.raises(SystemExit, match="2"):
        peers["run"].main()
    assert "found lightgnc=/a; expected NAME=PATH with a name of lightgcn" in capsys.readouterr().err
