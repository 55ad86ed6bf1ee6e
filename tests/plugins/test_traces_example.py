"""The example of a session format: installed as any user would, with the full set of what runs must do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.emulation.ended_early import often
from tests.plugins.test_tutorial import FULL_SET
from tests.processes import Interpreter

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "gossiprec-traces"
SOURCE = FOLDER / "gossiprec_traces" / "heartbeats.py"
CHECK = """
import sys
from gossiprec.network.sessions import SESSION_FORMATS
from gossiprec.testing import check_session_format
check_session_format(SESSION_FORMATS["heartbeats"], sys.argv[1], {"silence": 30})
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Install the package into a folder of its own; return an environment in which Python finds it."""
    site = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(site), str(FOLDER)], check=True, capture_output=True, timeout=300)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])}


@pytest.fixture
def log(tmp_path):
    """Write a log of heartbeats of 12 devices over 600 s, with times since 1970."""
    draws = np.random.default_rng(0)
    beats = [(1.7e9 + float(draws.uniform(0, 600)), f"phone-{k % 12}") for k in range(160)]
    path = tmp_path / "beats.log"
    path.write_text("\n".join(f"{time:.1f} {device}" for time, device in sorted(beats)))
    return path


def run(environment, *arguments):
    return subprocess.run(
        [sys.executable, *map(str, arguments)], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.full
def test_it_keeps_the_contract(environment, log):
    done = run(environment, "-c", CHECK, log)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.full
def test_a_run_of_it_does_all_that_runs_must_do(environment, log, tmp_path):
    sessions = {"trace": str(log), "format": {"name": "heartbeats", "silence": 30}, "end": "repeat"}
    scenario = often(churn={"sessions": sessions}, seconds_per_wake=50)
    with Interpreter(environment) as process:
        process.run(FULL_SET.format(scenario=scenario, folder=str(tmp_path), apart=False))
    manifest = json.loads((tmp_path / "whole" / "manifest.json").read_text())
    assert list(manifest["plugins"]) == ["gossiprec-traces"]
    assert list(manifest["inputs"]) == [str(log)]


def test_the_page_leads_to_it():
    page = (ROOT / "docs" / "extending.md").read_text()
    assert f"](../{SOURCE.relative_to(ROOT)})" in page
