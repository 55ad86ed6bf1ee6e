"""The core runs without any part: a run of Rand-Gossip with GMF and the mean, on synthetic data, without observers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

import gossiprec
from tools.home_contracts import EXCEPTIONS, read_homes, read_rows

SCENARIO = {
    "name": "core",
    "seed": 1,
    "dataset": {
        "name": "synthetic",
        "users": 20,
        "items": 30,
        "interactions": 300,
        "split": {"name": "leave_last_k", "test": 1},
    },
    "model": {"name": "gmf", "dim": 4},
    "protocol": {"name": "rand-gossip", "wakes": 5, "merge": "mean"},
    "evaluate": {"metrics": []},
}
DEFAULTS = {
    "gossiprec.measures.hr",
    "gossiprec.measures.hit",
    "gossiprec.measures.ndcg",
    "gossiprec.data.leave_last_k",
}
"""Parts that the defaults of a scenario name."""
RUN = """
import sys
from gossiprec.emulation.run.simulate import simulate
run = simulate({scenario!r}, out={out!r})
print(run.status, run.summary["node_updates"])
"""


@pytest.fixture(scope="module")
def core(tmp_path_factory):
    """A copy of the package without the files of parts, of the workbench and of commands."""
    homes, source = read_homes(), Path(gossiprec.__file__).parent
    graph = grimp.build_graph("gossiprec", exclude_type_checking_imports=True)
    needed = {imported for _, imported, _ in read_rows(EXCEPTIONS)} | DEFAULTS
    left = needed.union(*map(graph.find_upstream_modules, needed))
    copy = tmp_path_factory.mktemp("core") / "gossiprec"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for module, home in homes.items():
        if home.split("/")[0] in ("parts", "workbench") and module not in left:
            stem = copy.parent.joinpath(*module.split("."))
            init = stem / "__init__.py"
            if init.exists():
                init.write_text("")  # of a folder in which a module of the core may be
            else:
                stem.with_suffix(".py").unlink()
    return copy.parent


def test_rand_gossip_runs_without_parts(core, tmp_path):
    code = RUN.format(scenario=SCENARIO, out=str(tmp_path / "run"))
    process = subprocess.run(
        [sys.executable, "-c", code],
        cwd=core,
        env={**os.environ, "PYTHONPATH": str(core)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.stdout.split() == ["complete", "100"], process.stderr[-2000:]
