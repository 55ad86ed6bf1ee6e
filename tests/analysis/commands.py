"""Studies of papers as a shell runs them, without a new interpreter for each."""

from __future__ import annotations

import contextlib
import io
import runpy
import subprocess
import sys
from pathlib import Path
from unittest import mock

from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.study.task import run_task

ROOT = Path(__file__).resolve().parents[2]
REPORTS = ("report.md", "report.html", "findings.md", "findings.html")


class WorkerHere:
    """A pool of workers that is this process."""

    def __init__(self, jobs, threads, say):
        self.threads = threads

    def carry_out(self, tasks):
        for task in tasks:
            yield run_task(task, threads=self.threads, load=load_data)


def ran(module: str, out: Path | str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a module as ``python -m`` does, and its runs in this process: tests/study is about workers."""
    arguments = [module, "--out", str(out), "--jobs", "1", *options]
    told, errors, code = io.StringIO(), io.StringIO(), 0
    with (
        contextlib.chdir(ROOT), mock.patch.object(sys, "argv", arguments),
        contextlib.redirect_stdout(told), contextlib.redirect_stderr(errors),
        mock.patch("gossiprec.study.worker_pool.WorkerPool", WorkerHere),
    ):  # fmt: skip
        try:
            runpy.run_module(module, run_name="__main__")
        except SystemExit as left:
            code = int(left.code or 0)
    return subprocess.CompletedProcess(arguments, code, told.getvalue(), errors.getvalue())
