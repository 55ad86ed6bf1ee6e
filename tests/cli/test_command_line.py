"""The command line as a whole: help, misspelt commands, exit statuses, one message for each error."""

import errno
import os
import shlex
import subprocess
import sys
import sysconfig

import click
import pytest
from calls import ROOT, SMOKE, call, environment, invoke

from gossiprec.base.errors import DataError, LogError, ResourceError, ScenarioError
from gossiprec.cli import main
from gossiprec.version import __version__

HEAVY = ("numpy", "scipy", "torch", "numba", "simpy", "networkx", "matplotlib", "pydantic", "yaml", "rich")


@pytest.fixture
def raising(monkeypatch):
    """Make ``gossiprec simulate`` raise an error of choice."""

    def arrange(error):
        @click.command()
        def simulate():
            raise error

        monkeypatch.setattr(main.LazyGroup, "get_command", lambda *_: simulate)

    return arrange


@pytest.mark.parametrize("arguments", [["--help"], ["simulate", "--help"], ["plot", "cdf", "--help"]])
def test_help_imports_nothing_heavy(arguments):
    script = (
        "import sys; from gossiprec.cli.main import exit_code; exit_code(sys.argv[2:]); "
        "print([m for m in sys.argv[1].split(',') if m in sys.modules], file=sys.stderr)"
    )
    command = [sys.executable, "-c", script, ",".join(HEAVY), *arguments]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    assert ran.stderr.strip() == "[]"


def test_help_names_every_command_and_shows_how_to_start(capsys):
    code, out, _ = invoke(capsys, "--help")
    assert code == 0
    assert {line.split()[0] for line in out.split("Commands:")[1].splitlines() if line} == set(main.COMMANDS)
    assert "\n    gossiprec simulate smoke.yaml" in out


def test_examples_in_help_texts_keep_their_lines(capsys):
    for arguments in ([], ["simulate"], ["data", "stats"]):
        _, out, _ = invoke(capsys, *arguments, "--help")
        assert "\\b" not in out
        assert "\x08" not in out


def test_version_is_printed(capsys):
    assert invoke(capsys, "--version") == (0, f"gossiprec, version {__version__}\n", "")


def test_the_package_runs_as_a_module():
    assert call("--version").stdout == f"gossiprec, version {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["simulat", SMOKE], "did you mean 'simulate'?"),
        (["x.yaml"], "did you mean 'gossiprec simulate x.yaml'?"),
        (["nothing-like-it"], "no such command 'nothing-like-it'"),
        (["simulate"], "Missing argument 'SCENARIO'"),
        (["simulate", SMOKE, "--quite"], "'--quiet'"),
        (
            ["simulate", SMOKE, "--calibrate", "4"],
            "--calibrate was removed: --dry-run predicts the time from earlier",
        ),
        (["simulate", SMOKE, "--threads", "0"], "0 is not in the range x>=1"),
        (["simulate", SMOKE, "--seed", "one"], "found 'one'; expected a whole number"),
    ],
)
def test_a_slip_in_the_command_is_answered_with_a_hint_and_2(capsys, arguments, hint):
    code, out, err = invoke(capsys, *arguments)
    assert (code, out) == (2, "")
    assert hint in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ScenarioError("seed: bad"), 2),
        (DataError("x: bad"), 2),
        (LogError("x: bad"), 2),
        (ResourceError("no room"), 1),
        (MemoryError(), 1),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"), 1),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "events.mplog"), 1),
        (PermissionError(errno.EACCES, os.strerror(errno.EACCES), "runs"), 1),
        (OSError(errno.EIO, os.strerror(errno.EIO), "runs"), 1),
        (FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "words.txt"), 2),
        (NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), "words.txt/a"), 2),
    ],
)
def test_an_error_is_one_message_and_an_exit_status(capsys, raising, error, code):
    raising(error)
    found, out, err = invoke(capsys, "simulate")
    assert (found, out) == (code, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert str(getattr(error, "filename", None) or "") in err


@pytest.mark.parametrize(
    ("number", "step"),
    [
        (errno.ENOSPC, "free disk space"),
        (errno.EROFS, "fix the permissions"),
        (errno.ENOENT, "correct the path or the file"),
        (errno.EIO, "try again"),
    ],
)
def test_each_error_of_the_system_has_its_own_next_step(capsys, raising, number, step):
    raising(OSError(number, os.strerror(number), "words.txt"))
    err = invoke(capsys, "simulate")[2]
    assert err.startswith(f"error: words.txt: {os.strerror(number)}")
    assert f"; {step}" in err


@pytest.mark.parametrize("library", ["lib", "."])
def test_a_missing_file_of_a_plug_in_names_the_line_that_opened_it(capsys, monkeypatch, tmp_path, library):
    """Also where plug-ins are installed below Python's own library, as without a virtual environment."""
    plugin = tmp_path / "site-packages" / "plugin.py"
    plugin.parent.mkdir()
    places = {
        "stdlib": library,
        "platstdlib": library,
        "purelib": "site-packages",
        "platlib": "site-packages",
    }
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / places[name]))
    plugin.write_text("def load(*_):\n    return open('/no/such/words.txt')\n")
    space: dict = {}
    exec(compile(plugin.read_text(), str(plugin), "exec"), space)
    monkeypatch.setattr("gossiprec.scenario.load_scenario", space["load"])

    code, _, err = invoke(capsys, "scenario", "show", "smoke.yaml")

    assert code == 2
    assert err == (
        f"error: /no/such/words.txt: No such file or directory (load, {plugin}, line 2); correct the path or the "
        "file, then try again\n"
    )


def test_several_problems_stand_below_one_another(capsys, raising):
    raising(ScenarioError("seed: bad\nname: bad"))
    assert invoke(capsys, "simulate")[2] == "error: seed: bad\n       name: bad\n"


def test_a_reader_that_leaves_is_no_error(capsys, raising):
    raising(BrokenPipeError())
    assert invoke(capsys, "simulate")[1:] == ("", "")


def test_ctrl_c_leaves_with_130(capsys, raising):
    raising(KeyboardInterrupt())
    code, _, err = invoke(capsys, "simulate")
    assert (code, err.strip()) == (130, "interrupted")


def test_a_traceback_is_shown_on_request_only(capsys, raising, monkeypatch):
    raising(DataError("x: bad"))
    assert "Traceback" not in invoke(capsys, "simulate")[2]
    monkeypatch.setenv("GOSSIPREC_DEBUG", "1")
    code, _, err = invoke(capsys, "simulate")
    assert code == 2
    assert "Traceback" in err
    assert err.endswith("error: x: bad\n")


def test_a_mistake_of_ours_is_not_dressed_up_as_the_users(capsys, raising):
    raising(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        invoke(capsys, "simulate")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.full
def test_a_full_disk_under_stdout_is_one_message():
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "gossiprec", "scenario", "schema"],
            env=environment(), stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert ran.returncode == 1
    assert ran.stderr.startswith("error: No space left on device")
    assert ran.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.full
def test_a_closed_pipe_is_quiet():
    ran = subprocess.run(
        f"{shlex.quote(sys.executable)} -m gossiprec scenario schema | head -n 1",
        shell=True, env=environment(), cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.stdout, ran.stderr) == ("{\n", "")
