"""Ctrl-C during a run, and what a scheduler sends that wants its machine back."""

import json
import os
import signal
import subprocess
import sys
import time
from shlex import quote

import pytest
from calls import ROOT, SMOKE, environment, invoke

from gossiprec import open_run
from gossiprec.cli.main import exit_code
from gossiprec.cli.progress import ProgressLines
from gossiprec.runs.checkpoints import CheckpointFolder, read_stamp
from gossiprec.runs.verify import verify_log
from tests.slow import slow_except_first

OFTEN = ("--set", "evaluate.every=1", "--executor", "reference")
LONG = (*OFTEN, "--set", "plots=true", "--set", "protocol.wakes=200")
SHORT = (*OFTEN, "--no-plots", "--set", "protocol.wakes=5")
ENDLESS = ("--set", "protocol.wakes=300000")
DEADLINE_S = 120


def interrupted_after(tmp_path, begun):
    """Start a run that would last for a minute, press Ctrl-C as soon as `begun(directory)`, and wait."""
    out = tmp_path / "run"
    run = subprocess.Popen(
        [sys.executable, "-m", "gossiprec", "simulate", SMOKE, *LONG, "--out", str(out)],
        cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not begun(out):
            assert run.poll() is None, run.communicate()
            assert time.monotonic() < deadline, "the run did not begin"
            time.sleep(0.05)
        run.send_signal(signal.SIGINT)
        output, errors = run.communicate(timeout=DEADLINE_S)
    finally:
        run.kill()
    return run.returncode, output, errors, out


def reported(out):
    table = out / "attacks.csv"
    return table.exists() and table.read_text().count("\n") > 4


def unheard(number, frame):
    raise AssertionError(f"nobody heard signal {number}")


@pytest.fixture
def asked_to_end(tmp_path, capsys, monkeypatch):
    """Return a function that runs in this process and is sent a signal at the second report."""

    def run(*options, by=signal.SIGINT):
        def tick(lines, status):
            if status.time == 2:
                os.kill(os.getpid(), by)

        before = signal.signal(by, unheard)
        try:
            with monkeypatch.context() as patched:
                patched.setattr(ProgressLines, "tick", tick)
                told = invoke(capsys, "simulate", SMOKE, *SHORT, *options, "--out", tmp_path / "run")
        finally:
            signal.signal(by, before)
        return *told, tmp_path / "run"

    return run


@pytest.mark.parametrize(
    ("argv", "asked", "before", "after"),
    [
        (["-m", "list"], ["-m", "gossiprec", "list"], "default_int_handler", "SIG_DFL"),
        (["-m", "list"], ["-m", "analysis.fedcl", "list"], "default_int_handler", "default_int_handler"),
        (["/usr/bin/gossiprec"], ["/usr/bin/gossiprec"], "default_int_handler", "SIG_DFL"),
        (["/usr/bin/gossiprec"], ["/usr/bin/gossiprec"], "SIG_IGN", "SIG_IGN"),
        (["notebook.py"], ["notebook.py"], "default_int_handler", "default_int_handler"),
    ],
)
def test_only_the_command_ends_without_a_traceback_from_its_first_line_on(argv, asked, before, after):
    code = f"import signal, sys; signal.signal(2, signal.{before}); sys.argv = {argv}; "
    code += f"sys.orig_argv = ['python', '-X', 'dev', *{asked}]; import gossiprec; "
    code += f"assert signal.getsignal(2) is signal.{after}"
    subprocess.run([sys.executable, "-c", code], env=environment(), check=True)


@pytest.mark.slow
@pytest.mark.full
def test_a_run_keeps_what_it_found_before_ctrl_c(tmp_path):
    code, output, errors, out = interrupted_after(tmp_path, reported)

    assert code == 130
    assert "Traceback" not in errors
    assert "interrupted at virtual time" in errors
    assert f"resume with: gossiprec resume {quote(str(out))}" in errors
    assert "smoke, seed 1: interrupted" in output
    run = open_run(out)
    assert run.manifest["status"] == run.summary["status"] == "interrupted"
    assert verify_log(out / "events.mplog").complete
    last = run.metrics["time"][-1]
    assert (
        run.summary["virtual_time"] == last == run.attacks["time"][-1] == run.events("evaluate")["time"][-1]
    )
    assert 0 < run.summary["node_updates"] == len(run.events("update")["time"])
    assert (out / "curves.png").exists()


@pytest.fixture(scope="module")
def whole_digest(tmp_path_factory):
    """The digest of a run that was let alone."""
    out = tmp_path_factory.mktemp("whole") / "run"
    assert exit_code(["simulate", SMOKE, *SHORT, "--quiet", "--out", str(out)]) == 0
    return open_run(out).manifest["log_digest"]


@pytest.mark.slow
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM], ids=lambda each: each.name)
@pytest.mark.full
def test_a_run_that_is_asked_to_end_can_be_resumed_from_there(by, asked_to_end, whole_digest, capsys):
    code, _, errors, out = asked_to_end(by=by)
    assert code == 130
    assert "note: stopping at the next report" in errors
    assert f"resume with: gossiprec resume {quote(str(out))}" in errors
    reached = open_run(out).summary["virtual_time"]
    assert reached == read_stamp(CheckpointFolder(out).newest_first()[0]).time == 2

    code, output, _ = invoke(capsys, "resume", out, "--quiet", "--json")
    assert (code, json.loads(output)["status"]) == (0, "complete")
    manifest = open_run(out).manifest
    assert manifest["resumed"][0]["time"] == reached
    assert manifest["log_digest"] == whole_digest


def test_without_checkpoints_it_says_how_to_begin_again(asked_to_end):
    _, _, errors, out = asked_to_end("--set", "checkpoint={minutes: null}")
    assert f"gossiprec resume {quote(str(out))} --from-start" in errors


@pytest.mark.slow
def test_json_of_an_interrupted_run_is_one_object(asked_to_end):
    code, output, _, out = asked_to_end("--json")
    assert code == 130
    assert json.loads(output)["status"] == "interrupted"
    assert json.loads(output)["run"] == str(out)


@pytest.mark.slow
@pytest.mark.full
def test_ctrl_c_before_the_run_begins_leaves_nothing_behind(tmp_path):
    out = tmp_path / "run"
    run = subprocess.Popen(
        [sys.executable, "-m", "gossiprec", "simulate", SMOKE, *ENDLESS, "--out", out],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert run.stderr.readline().endswith(" ...\n")
        run.send_signal(signal.SIGINT)
        output, errors = run.communicate(timeout=DEADLINE_S)
    finally:
        run.kill()
    assert (run.returncode, output, errors.splitlines()[-1]) == (130, "", "interrupted")
    assert "Traceback" not in errors
    assert not out.exists()


SEND = """
import os, signal, sys
from gossiprec.entry import run

_, module, number, *sys.argv[1:] = sys.argv

class AtImport:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), int(number))

sys.meta_path.insert(0, AtImport())
run()
"""
"""Runs a command line that gets a signal when it is about to import a module."""


@pytest.mark.parametrize(
    "number", slow_except_first([signal.SIGINT, signal.SIGTERM]), ids=lambda each: each.name
)
@pytest.mark.parametrize(
    ("module", "command"),
    slow_except_first(
        [
            ("click", ["simulate", SMOKE, "--out", "run"]),
            ("gossiprec.cli.simulate", ["simulate", SMOKE, "--out", "run"]),
            ("pydantic", ["simulate", SMOKE, "--out", "run"]),
            ("simpy", ["simulate", SMOKE, "--out", "run"]),
            ("torch", ["simulate", SMOKE, "--executor", "reference", "--out", "run"]),
            ("numba", ["simulate", SMOKE, "--out", "run"]),
            ("gossiprec.emulation.run.simulate", ["resume", "run"]),
            ("gossiprec.study.spec", ["study", "study.yaml", "--out", "out"]),
            ("gossiprec.report.page", ["report", ".", "--out", "page.html"]),
            ("gossiprec.cli.plot", ["plot", "curves", "."]),
            ("gossiprec.cli.data", ["data", "check", "x.csv"]),
        ]
    ),
)
@pytest.mark.cases(1)
def test_a_signal_in_the_first_second_ends_with_130_and_leaves_nothing(module, command, number, tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", SEND, module, str(int(number)), *command], cwd=tmp_path, env=environment(),
        capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert ended.returncode == 130, ended.stderr
    assert ended.stderr.splitlines()[-1:] in ([], ["interrupted"])
    assert "Traceback" not in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_little_is_imported_before_signals_are_answered():
    """Until then Ctrl-C ends the process by the signal, without the command's own exit status."""
    told = subprocess.run(
        [sys.executable, "-S", "-c", "import gossiprec.entry, sys; print(*sys.modules)"],
        env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert not {"pathlib", "hashlib", "click", "numpy"} & set(told.stdout.split())
