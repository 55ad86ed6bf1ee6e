"""The notebooks run from beginning to end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gossiprec

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "analysis" / "notebooks").glob("*.py"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_prints_what_the_run_says(notebook, tmp_path):
    run = gossiprec.simulate(
        ROOT / "scenarios" / "smoke.yaml",
        overrides=["protocol.wakes=4", "executor.name=reference"],
        out=tmp_path / "run",
    )
    done = subprocess.run(
        [sys.executable, str(notebook)], cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "RUN": "run", "OUT": "pictures"},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"max AAC {run.summary['attacks'][0]['max_aac']:.3f}" in done.stdout
    assert (tmp_path / "pictures" / "cdf.png").is_file()
    assert notebook.name in (ROOT / "analysis" / "README.md").read_text()
