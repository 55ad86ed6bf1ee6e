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
BEFORE = "323b822"
"""The commit before the interfaces of models, attacks, messages and measures were redesigned."""


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


def command(tree: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command line of a tree; its compiled kernels are in the folder of its sources."""
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    return subprocess.run(
        [sys.executable, "-m", "gossiprec", *map(str, words)],
        cwd=tree,
        env={**environment, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )


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
