"""How these tests call the command line, and a world small enough to run in a blink."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SMOKE = str(ROOT / "scenarios" / "smoke.yaml")
QUICK = ("--set", "protocol.wakes=2", "--executor", "fused", "--no-plots")


EACH = """
import contextlib, io, json, sys
from gossiprec.cli.main import exit_code

told = []
for arguments in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = exit_code(arguments)
    told.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(told))
"""
"""Runs some command lines, one after the other."""


def environment(**more):
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", **more}


def call(*arguments, cwd=None, **more):
    """Run ``gossiprec`` in a process of its own, as a shell would."""
    return subprocess.run(
        [sys.executable, "-m", "gossiprec", *map(str, arguments)],
        cwd=cwd,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def call_each(*commands, cwd=None, **more):
    """Run several commands, one after the other, in one process of their own."""
    asked = [[str(argument) for argument in command] for command in commands]
    ran = subprocess.run(
        [sys.executable, "-c", EACH, json.dumps(asked)],
        cwd=cwd,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return [
        subprocess.CompletedProcess(command, code, out, err)
        for command, (code, out, err) in zip(asked, json.loads(ran.stdout), strict=True)
    ]


def invoke(capsys, *arguments):
    """Run ``gossiprec`` in this process; return its exit status, stdout and stderr."""
    from gossiprec.cli.main import exit_code

    code = exit_code([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err
