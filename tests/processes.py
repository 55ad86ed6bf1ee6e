"""Processes that tests begin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path


def forks():
    """Return the processes that are forks of this one, also those that have ended: other tests may have left others."""
    own, found = Path("/proc/self/cmdline").read_bytes(), set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may be gone by now
            parent = int((process / "stat").read_bytes().rpartition(b")")[2].split()[1])
            if parent == os.getpid() and (process / "cmdline").read_bytes() in (own, b""):
                found.add(int(process.name))
    return found


class Interpreter:
    """A Python process that runs one program after the other, and imports what they need once.

    Parameters
    ----------
    environment : mapping
    """

    _LOOP = """
import json, sys, traceback

for line in sys.stdin:
    answer, replies, sys.stdout = "", sys.stdout, sys.stderr  # what a program prints is no answer
    try:
        exec(json.loads(line), {"__name__": "program"})
    except BaseException:
        answer = traceback.format_exc()
    sys.stdout = replies
    print(json.dumps(answer), flush=True)
"""

    def __init__(self, environment):
        self._process = subprocess.Popen(
            [sys.executable, "-c", self._LOOP], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def run(self, program):
        """Run a program; its traceback is the message of the error if it fails."""
        print(json.dumps(program), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline() or '"the process has ended"')
        assert not answer, answer

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._process.communicate()


class Killed(BaseException):
    """The process ended here."""


def killed_at(monkeypatch, step, job, *arguments, **options):
    """Carry out a job until the given step that changes a folder; return whether it ended before."""
    done = 0

    def watched(change):
        def changed(*arguments, **options):
            nonlocal done
            done += 1
            if done >= step:  # a killed process cleans nothing up
                raise Killed
            return change(*arguments, **options)

        return changed

    with monkeypatch.context() as patched:
        for name in ("replace", "unlink", "rename", "rmdir", "mkdir"):
            patched.setattr(Path, name, watched(getattr(Path, name)))
        try:
            job(*arguments, **options)
        except Killed:
            return False
    return True
