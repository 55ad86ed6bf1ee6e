"""Studies of papers as a shell runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REPORTS = ("report.md", "report.html", "findings.md", "findings.html")


def in_a_process(module: str, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a study in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", module, "--out", str(out), *options],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
