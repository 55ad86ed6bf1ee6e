"""Modules that a run imports late: the dry run imports them too, and a run that fails on them leaves nothing."""

import ast
import configparser
import json
import re
import subprocess
import sys

import pytest
from calls import ROOT, SMOKE, invoke

import gossiprec
from gossiprec.base.errors import ScenarioError
from gossiprec.emulation.run.active_run import ActiveRun
from gossiprec.trackers import TRACKERS

PERFEDREC = str(ROOT / "scenarios" / "perfedrec_pp.yaml")
IMPORTED_AS = {"PyYAML": "yaml", "pycryptodome": "Crypto", "scikit-learn": "sklearn"}
COME_WITH = {
    "threadpoolctl": "sklearn",
    "llvmlite": "numba",
    "pydantic_core": "pydantic",
    "typing_extensions": "pydantic",
    "tensorboard": "torch",
}
"""Modules that another distribution requires."""
REFUSED_EARLY = {
    "ray",
    "pandas",
    "optuna",
    *(module for name in TRACKERS for module in TRACKERS[name].modules),
}
"""Optional modules with a check of their own: of the executor, of tables for pandas, of searches and of trackers."""


def block(monkeypatch, top):
    """Let imports of a package fail."""
    for module in [name for name in sys.modules if name.partition(".")[0] == top]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, top, None)


def imported(file):
    """Yield the top-level names of all modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


@pytest.mark.slow
@pytest.mark.full
def test_every_module_that_is_imported_is_required_or_checked_early():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    required = re.findall(r"^[\w-]+", setup["options"]["install_requires"], re.MULTILINE)
    core = {IMPORTED_AS.get(name, name.replace("-", "_")) for name in required}
    for file in (ROOT / "gossiprec").rglob("*.py"):
        others = set(imported(file)) - {"gossiprec", *sys.stdlib_module_names, *REFUSED_EARLY}
        if "testing" not in file.parts:
            assert {COME_WITH.get(name, name) for name in others} <= core, file


@pytest.mark.parametrize(
    ("module", "scenario", "extra"),
    [
        ("sklearn", PERFEDREC, ()),
        ("threadpoolctl", PERFEDREC, ()),
        ("dp_accounting", SMOKE, ("--set", "policies=[{name: dp-sgd, epsilon: inf}]")),
        ("matplotlib", SMOKE, ("--set", "plots=true")),
        ("tensorboard", SMOKE, ("--track", "tensorboard")),
        ("ray", SMOKE, ("--set", "executor={name: ray, shards: 2}")),
    ],
)
@pytest.mark.parametrize("dry", [True, False], ids=["dry-run", "run"])
def test_what_is_not_installed_is_told_before_the_run(
    module, scenario, extra, dry, tmp_path, capsys, monkeypatch
):
    block(monkeypatch, module)
    dry_run = ["--dry-run"] if dry else []
    code, _, said = invoke(
        capsys, "simulate", scenario, *extra, *dry_run, "--quiet", "--out", tmp_path / "run"
    )
    assert (code, said.count("\n")) == (1, 1), said
    assert module in said.lower()
    assert not (tmp_path / "run").exists()


def test_a_run_that_failed_before_its_first_report_is_not_in_the_way(tmp_path, monkeypatch):
    quick = {
        "overrides": ["protocol.wakes=2", "executor.name=reference", "plots=false"],
        "out": tmp_path / "run",
    }

    def fail(*arguments):
        raise ScenarioError("stopped by the test")

    with monkeypatch.context() as patched:
        patched.setattr(ActiveRun, "execute", fail)
        with pytest.raises(ScenarioError, match="stopped by the test"):
            gossiprec.simulate(SMOKE, **quick)
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["status"] == "failed"

    assert gossiprec.simulate(SMOKE, **quick).status == "complete"


@pytest.mark.full
def test_a_run_without_pictures_leaves_their_library_alone(tmp_path):
    arguments = ["simulate", SMOKE, "--no-plots", "--quiet", "--out", str(tmp_path / "run")]
    script = f"""
import sys
from gossiprec.entry import run
sys.argv = ["gossiprec", *{arguments!r}]
try:
    run()
except SystemExit as end:
    assert not end.code
sys.exit(1 if "matplotlib" in sys.modules else 0)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
