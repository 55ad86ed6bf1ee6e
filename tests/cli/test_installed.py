"""What is installed: one import name that nobody's own folders can be mistaken for, with the files that it needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.cli.calls import call_each

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
from pathlib import Path

import gossiprec
from gossiprec.figures import exposure

split = {"name": "leave_last_k", "test": 2, "validation": 0}
run = gossiprec.simulate(
    {
        "name": "mine",
        "dataset": {"name": "synthetic", "users": 34, "items": 60, "interactions": 600, "split": split},
        "model": {"name": "gmf", "dim": 4},
        "protocol": {"name": "rand-gossip", "fanout": 2, "view": {"graph": {"frozen": "karate-club"}}, "wakes": 2},
        "evaluate": {"every": 1, "metrics": ["hr@5"]},
        "executor": {"name": "fused"},
    },
    out="run",
)
exposure.draw([run], Path("exposure"))
print(run.manifest["status"], gossiprec.__file__)
"""


def call(*arguments, cwd, path):
    """Run Python as a user would, with gossiprec found in `path`."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=cwd, env={**os.environ, "PYTHONPATH": str(path)},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


def test_a_script_beside_folders_of_its_own_called_topologies_and_analysis_runs(tmp_path):
    for name in ("topologies", "analysis"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("MINE = True\n")
    own = f"import analysis, topologies\n{SCRIPT}\nassert analysis.MINE and topologies.MINE\n"
    (tmp_path / "script.py").write_text(own)
    done = call("script.py", cwd=tmp_path, path=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("complete ")


def build(kind, folder):
    """Build a wheel or an sdist from a copy of the checkout, without network; return the file."""
    source = folder / "source"  # building leaves folders behind
    skipped = shutil.ignore_patterns(".git", "__pycache__", "*.egg-info", "build", "tests", "runs", ".venv")
    shutil.copytree(ROOT, source, ignore=skipped, symlinks=True)
    built = call("-m", "build", f"--{kind}", "--no-isolation", "--outdir", folder, cwd=source, path="")
    assert built.returncode == 0, built.stdout + built.stderr
    (file,) = folder.glob("gossiprec-*")
    return file


def install(file):
    """Install a wheel or an sdist beside itself, without its dependencies and without network; return the folder."""
    site = file.parent / "site"
    options = ("--no-deps", "--no-index", "--no-build-isolation", "--no-compile", "--target", site)
    done = call("-m", "pip", "install", "--quiet", *options, file, cwd=file.parent, path="")
    assert done.returncode == 0, done.stderr
    return site


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Return a folder that holds what the wheel installs."""
    return install(build("wheel", tmp_path_factory.mktemp("wheel")))


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """Return a source distribution."""
    return build("sdist", tmp_path_factory.mktemp("sdist"))


def test_one_import_name_is_installed(installed):
    names = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    assert names == {"bin", "gossiprec"}
    assert [path.name for path in (installed / "bin").iterdir()] == ["gossiprec"]


def test_an_installed_package_finds_its_frozen_graphs_and_runs(installed, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = call("script.py", cwd=tmp_path, path=installed)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["complete", str(installed / "gossiprec" / "__init__.py")]


def test_scenarios_and_studies_are_installed_as_they_are_in_the_checkout(installed):
    shipped = installed / "gossiprec" / "scenario" / "shipped"
    here, there = (
        {path.relative_to(place): path.read_bytes() for path in place.rglob("*.yaml")}
        for place in (ROOT / "scenarios", shipped)
    )
    assert there == here


def test_an_installed_package_lists_its_graphs_writes_a_scenario_and_runs_it(installed, tmp_path):
    listed, *others = call_each(
        ("topology", "list"),
        ("init", "smoke"),
        ("simulate", "smoke.yaml", "--set", "protocol.wakes=2", "--quiet"),
        cwd=tmp_path,
        PYTHONPATH=str(installed),
    )
    graphs = {path.stem for path in (ROOT / "topologies" / "frozen").glob("*.edges")}
    assert all(f"  {name} " in listed.stdout for name in graphs)
    assert [done.returncode for done in others] == [0, 0], others
    assert (tmp_path / "runs" / "smoke-s1" / "summary.json").is_file()


def test_a_source_distribution_holds_the_scenarios_and_the_policies(packed):
    with tarfile.open(packed) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {str(path.relative_to(ROOT)) for path in (ROOT / "scenarios").rglob("*.yaml")} <= names
    assert {"setup.py", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md", "constraints.txt"} <= names


def test_a_source_distribution_installs_what_the_wheel_installs(packed, installed):
    def files(site):
        return {
            path.relative_to(site): path.read_bytes()
            for path in (site / "gossiprec").rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }

    assert files(install(packed)) == files(installed)
