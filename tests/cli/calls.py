"""How these tests call the command line, and a world small enough to run in a blink."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SMOKE = str(ROOT / "scenarios" / "smoke.yaml")
QUICK = ("--set", "protocol.wakes=2", "--executor", "reference", "--no-plots")


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


def invoke(capsys, *arguments):
    """Run ``gossiprec`` in this process; return its exit status, stdout and stderr."""
    from gossiprec.cli.main import exit_code

    code = exit_code([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err
