"""Checkouts of old commits: each tree runs its own code in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BEFORE = "c7f803f2"
"""The last commit before the redesign."""


def git(*words: str | Path) -> str:
    """Return the output of a git command in this repository."""
    whole = ["git", "-C", str(ROOT), *map(str, words)]
    return subprocess.run(whole, check=True, stdout=subprocess.PIPE, text=True).stdout


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """Check a commit out into a temporary worktree; yield its folder."""
    with tempfile.TemporaryDirectory(prefix="gossiprec-old-") as folder:
        tree = Path(folder) / "tree"
        git("worktree", "add", "--quiet", "--detach", tree, commit)
        try:
            yield tree
        finally:
            git("worktree", "remove", "--force", tree)


def run_python(
    tree: Path, *words: str | Path, folder: Path | None = None, show: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run Python with the package of a tree; its compiled kernels are in the folder of its sources.

    Parameters
    ----------
    tree : Path
    *words : str or Path
        Arguments of Python.
    folder : Path, optional
        Working folder; the tree if not given.
    show : bool
        Whether the output appears on this process's own stderr, instead of being returned.
    """
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=folder or tree,
        env={**environment, "PYTHONPATH": str(tree)},
        stdout=sys.stderr if show else subprocess.PIPE,
        stderr=None if show else subprocess.PIPE,
        text=True,
        check=False,
    )


def command(tree: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command line of a tree."""
    return run_python(tree, "-m", "gossiprec", *words)


def simulate(tree: Path, scenario: Path, out: Path, changes: Sequence[str] = ()) -> dict[str, Any]:
    """Run a scenario with the code of a tree; return the summary.

    Raises
    ------
    RuntimeError
        If the run fails, with the last lines of its output.
    """
    overrides = (word for change in changes for word in ("--set", change))
    options = ("--out", out, "--overwrite", "--no-plots", "--quiet")
    done = command(tree, "simulate", scenario, *options, *overrides)
    if done.returncode:
        last = " | ".join(done.stderr.strip().splitlines()[-5:])
        raise RuntimeError(f"{scenario.name} by {tree} left with {done.returncode}: {last}")
    summary: dict[str, Any] = json.loads((out / "summary.json").read_text())
    return summary
