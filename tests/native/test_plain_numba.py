"""The plain path: outside the range of numba, or without a symbol that is patched, runs give the same results."""

from __future__ import annotations

import configparser
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from gossiprec.compute.executors import EXECUTORS
from gossiprec.compute.executors.analytic_trainer import AnalyticTrainer
from gossiprec.compute.executors.clients import ClientExecutor, ClientTrainer
from gossiprec.compute.executors.submodel_trainer import SubmodelTrainer
from gossiprec.emulation import prepare, simulate
from gossiprec.native import numba_support
from gossiprec.scenario import load_scenario
from tests.emulation.test_clients_without_models import MODELS, star
from tests.emulation.tiny_runs import tiny

ROOT = Path(__file__).parents[2]
KERNEL = """
import json, os
from pathlib import Path
import gossiprec
import numba
{before}
from gossiprec.native.jit import inline, jitable, kernel
from gossiprec.native.kernel_cache import KernelNotCachedError, MissingKernelPolicy, missing_kernel_policy
from gossiprec.native import jit_cached
from numba.core.codegen import CPUCodeLibrary
from numba.core.cpu import CPUContext

@inline
def double(x):
    return 2.0 * x

@jitable
def half(x):
    return x / 2

@kernel
def both(x):
    return double(x) + half(x)

def loop(x):
    return x + 1

def is_ours(function):
    return Path(function.__code__.co_filename).is_relative_to(Path(gossiprec.__file__).parent)

refused = False
try:
    with missing_kernel_policy(MissingKernelPolicy.REFUSE):
        both(1.0)
except KernelNotCachedError:
    refused = True
print(json.dumps(dict(
    values=[both(1.0), both(1.0), jit_cached(loop)(1)],
    refused=refused,
    patched=any(map(is_ours, (
        CPUCodeLibrary._optimize_final_module, CPUCodeLibrary._finalize_final_module, CPUContext.get_executable,
    ))),
    environment=os.environ.get("GOSSIPREC_PLAIN_NUMBA"),
)))
"""
RUN = """
import json, sys
from gossiprec.emulation import simulate
for name, scenario in json.loads(sys.argv[1]).items():
    simulate(scenario, out=f"{sys.argv[2]}/{name}")
"""
FULL = {"optimizer": "sgd", "learning_rate": 0.1, "batch_size": "full", "negatives": 2}
CLIENTS = {"training": FULL, "rounds": 2}
"""Clients without a model: the executor `fused` takes a compiled trainer if the model has one."""
SCENARIOS = {
    "reference": tiny(executor={"name": "reference"}),
    "batched": tiny(executor={"name": "batched", "threads": 1}),
    "fused": tiny(executor={"name": "fused", "threads": 1}),
    "pairs": star(model=MODELS["mf"], executor={"name": "fused"}, **CLIENTS),
    "submodels": star(model=MODELS["mf"], executor={"name": "batched"}, **CLIENTS),
}  # fmt: skip
"""A short scenario for each executor, and for the compiled and the other trainer of clients that hold no model.

Compiled trainers differ in the template of their kernel; that of pairs compiles in a quarter of the time.
"""


def python(path, program, *arguments, **variables):
    """Write a program to a file and run it, with the folder of compiled kernels of this process by default."""
    path.write_text(program)
    return subprocess.run(
        [sys.executable, str(path), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True, text=True, check=True,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "found"),
    [
        ("", None),
        ("numba.__version__ = '0.69.0rc1'", "found version 0.69.0rc1;"),
        ("import numba.core.caching; del numba.core.caching._CacheLocator", "without numba.core.caching._CacheLocator"),
        (
            "from numba.core.cpu import CPUContext as C; old = C.get_executable; "
            "C.get_executable = lambda self, *all: old(self, *all)",
            "with other parameters of numba.core.cpu.CPUContext.get_executable",
        ),
    ],
)  # fmt: skip
@pytest.mark.full
def test_kernels_work_whatever_numba_is_and_one_line_names_the_range(tmp_path, before, found):
    program = KERNEL.replace("{before}", before)
    done = python(tmp_path / "kernels.py", program, GOSSIPREC_PLAIN_NUMBA="", NUMBA_CACHE_DIR=str(tmp_path))
    told = json.loads(done.stdout)

    assert (told["values"], told["refused"], told["patched"]) == ([2.5, 2.5, 2], True, found is None)
    assert any(tmp_path.rglob("*.nbi")) == (found is None)
    if found is None:
        assert (done.stderr, told["environment"]) == ("", "")
    else:
        (line,) = done.stderr.splitlines()
        assert line.startswith("note: numba: found version ")
        assert found in line
        assert f"expected {numba_support.RANGE}; " in line
        assert told["environment"] == "1", "processes started later print nothing"


@pytest.mark.parametrize("version", ["0.59.1", "0.69.0", "0.69.0dev0+12", "1.0.0", "unknown"])
def test_other_versions_are_outside_the_range(monkeypatch, version):
    monkeypatch.setattr(numba, "__version__", version)
    assert numba_support.find_problem() == f"numba: found version {version}"


@pytest.mark.parametrize("version", ["0.60.0", "0.68.1", "0.68.9rc1"])
def test_versions_of_the_range_are_accepted(monkeypatch, version):
    monkeypatch.setattr(numba, "__version__", version)
    assert numba_support.find_problem() is None


def test_the_range_is_that_of_the_installation():
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    assert numba_support.RANGE in settings["options"]["install_requires"].split("\n")


def results(run):
    """Return the bytes of a run's event log and tables of results, by file."""
    names = ("events.mplog", "metrics.csv", "attacks.csv", "findings.csv")
    return {name: (run / name).read_bytes() for name in names if (run / name).exists()}


def concrete(kind):
    """Return the classes of gossiprec below `kind` that are not abstract."""
    below = {kind}.union(*(concrete(each) for each in kind.__subclasses__()))
    return {
        each for each in below if each.__module__.startswith("gossiprec.") and not inspect.isabstract(each)
    }


@pytest.mark.slow
def test_there_is_a_scenario_for_each_executor_and_for_compiled_and_other_trainers_of_clients():
    made = {name: prepare(load_scenario(scenario)).executor for name, scenario in SCENARIOS.items()}
    assert {made[name].name for name in EXECUTORS} == set(EXECUTORS)
    trainers = {type(executor._trainer) for executor in made.values() if isinstance(executor, ClientExecutor)}
    assert SubmodelTrainer in trainers <= concrete(ClientTrainer)
    assert any(issubclass(trainer, AnalyticTrainer) for trainer in trainers)


@pytest.mark.slow
@pytest.mark.full
def test_runs_with_plain_numba_give_the_same_bytes(tmp_path):
    for name, scenario in SCENARIOS.items():
        simulate(scenario, out=tmp_path / "patched" / name)
    done = python(
        tmp_path / "run.py", RUN, json.dumps(SCENARIOS), str(tmp_path / "plain"), GOSSIPREC_PLAIN_NUMBA="1"
    )

    assert "numba" not in done.stderr
    for name in SCENARIOS:
        plain, patched = (tmp_path / each / name for each in ("plain", "patched"))
        assert results(plain) == results(patched) != {}, name
        manifests = [json.loads((each / "manifest.json").read_text()) for each in (plain, patched)]
        assert [each.get("plain_numba") for each in manifests] == [True, None], name
