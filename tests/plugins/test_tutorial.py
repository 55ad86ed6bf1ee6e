"""The tutorial package: installed as anybody would, its model, attack and policy work and keep our contracts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.calls import call_each
from tests.emulation.tiny_runs import tiny

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "gossiprec-tutorial"
CHECKS = """
from gossiprec.testing import check_attack, check_model, check_policy
from gossiprec.models import MODELS
from gossiprec.defences import POLICIES
check_model(MODELS["biased-mf"])
check_attack("last-heard", {"community_size": 3})
check_policy(POLICIES["coarse"], {"step": 0.05})
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Install the package into a folder of its own; return an environment in which Python finds it."""
    site = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(site), str(FOLDER)], check=True, capture_output=True, timeout=300)
    path = os.pathsep.join([str(site), str(ROOT)])
    return {**os.environ, "PYTHONPATH": path}


def run(environment, *arguments, cwd=None):
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_it_brings_is_listed_with_its_origin(environment):
    names = {"models": "biased-mf", "attacks": "last-heard", "policies": "coarse"}
    each = call_each(*(("list", kind) for kind in names), PYTHONPATH=environment["PYTHONPATH"])

    for listed, name in zip(each, names.values(), strict=True):
        lines = listed.stdout.splitlines()
        assert [line for line in lines if name in line and "gossiprec-tutorial 1.0" in line]


@pytest.mark.slow
def test_a_scenario_uses_all_three(environment, tmp_path):
    scenario = tiny(
        model={"name": "biased-mf", "dim": 4},
        policies=[{"name": "coarse", "nodes": "all", "step": 0.05}],
        observers=[{"name": "last-heard", "community_size": 3}],
    )
    (tmp_path / "mine.json").write_text(json.dumps(scenario))
    path = str(tmp_path / "run")

    run(environment, "-m", "gossiprec", "simulate", str(tmp_path / "mine.json"), "--out", path)

    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert [attack["observer"] for attack in summary["attacks"]] == ["last-heard"]
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert list(manifest["plugins"]) == ["gossiprec-tutorial"]


@pytest.mark.slow
def test_it_keeps_the_contracts(environment):
    run(environment, "-c", CHECKS)


@pytest.mark.parametrize("name", ["biased_mf", "last_heard", "coarse"])
def test_the_pages_show_it_as_it_is(name):
    source = (FOLDER / "gossiprec_tutorial" / f"{name}.py").read_text().rstrip()
    pages = (ROOT / "docs" / page for page in ("models.md", "extending.md", "policies.md"))

    assert any(source in page.read_text() for page in pages)
