"""Short runs take compiled kernels where earlier runs have left all that they need."""

import os

import numba
import pytest

from gossiprec.compute.executors import EXECUTORS
from gossiprec.emulation import estimate_run, prepare, resume, simulate
from gossiprec.emulation.assembly.memory import PARTS
from gossiprec.native import jit, kernel_cache
from gossiprec.scenario import load_scenario
from tests.emulation.ended_early import OFTEN, Patient, often, outcome
from tests.emulation.sharded import Threads, divided
from tests.emulation.tiny_runs import tiny

AUTO = {"executor": {"name": "auto"}}


def executor_of(**sections):
    return prepare(load_scenario(tiny(**AUTO | sections)), kept_kernels=True).executor.name


def test_nothing_is_compiled_for_a_short_run(monkeypatch, tmp_path):
    def warm_up(self):
        jit.kernel(lambda x: x + 1)(0)

    monkeypatch.setattr(EXECUTORS["fused"], "warm_up", warm_up)
    assert executor_of() == "reference"
    run = simulate(tiny(**AUTO), out=tmp_path / "run", use_cached_kernels=True)
    assert (run.summary["executor"], run.scenario["executor"]["name"]) == ("reference", "auto")


@pytest.fixture
def compiled(tmp_path):
    simulate(tiny(executor={"name": "fused"}), out=tmp_path / "compiled")


def test_what_is_asked_for_by_name_is_taken(compiled):
    assert executor_of() == "fused"
    assert executor_of(executor={"name": "reference"}) == "reference"
    assert prepare(load_scenario(tiny(**AUTO))).executor.name == "reference"


def test_other_keys_of_the_executor_stay(compiled):
    prepared = prepare(load_scenario(tiny(executor={"name": "auto", "threads": 1})), kept_kernels=True)
    assert (prepared.executor.name, prepared.components.scenario.executor.threads) == ("fused", 1)


def test_a_model_without_kernels_takes_the_reference():
    assert executor_of(model={"name": "mf", "dim": 4}) == "reference"


@pytest.mark.slow
@pytest.mark.full
def test_it_is_resumed_and_ends_as_without_a_break(compiled, tmp_path):
    whole = simulate(often(**AUTO), out=tmp_path / "whole", use_cached_kernels=True)
    broken = simulate(
        often(**AUTO, checkpoint=OFTEN), out=tmp_path / "broken", use_cached_kernels=True, progress=Patient(3)
    )
    assert whole.scenario["executor"]["name"] == "fused"
    assert whole.summary["executor"] == broken.summary["executor"] == "fused"
    assert outcome(resume(broken.path).path) == outcome(whole.path)


def test_all_shards_take_what_a_run_that_is_not_divided_takes(compiled, tmp_path):
    executors = []

    class Watched(Threads):
        def start(self, prepared):
            executors.append(prepared.executor.name)
            super().start(prepared)

    run = simulate(
        divided(tiny(**AUTO), 2), out=tmp_path / "run", use_cached_kernels=True, make_shard_group=Watched
    )
    assert (executors, run.summary["executor"]) == (["fused"], "fused")
    told = {key: run.scenario["executor"][key] for key in ("name", "inner")}
    assert told == {"name": "ray", "inner": "fused"}


def test_only_for_the_length_of_the_block_are_kernels_not_compiled(monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def one(x):
        return x + 1

    kernel = jit.kernel(one)
    with (
        kernel_cache.missing_kernel_policy(kernel_cache.MissingKernelPolicy.REFUSE),
        pytest.raises(kernel_cache.KernelNotCachedError, match="one"),
    ):
        kernel(os.getpid())
    assert kernel(1) == 2


def test_to_foresee_a_run_nothing_is_compiled(monkeypatch):
    def warm_up(self):
        raise AssertionError("compiled")

    monkeypatch.setattr(EXECUTORS["fused"], "warm_up", warm_up)
    scenario = load_scenario(tiny(executor={"name": "fused"}))
    found, of_reference = (estimate_run(each).memory_bytes for each in (scenario, load_scenario(tiny())))
    assert {part: found[part] for part in found.keys() - PARTS} == {
        part: of_reference[part] for part in of_reference.keys() - PARTS
    }
    with pytest.raises(AssertionError, match="compiled"):
        prepare(scenario)


def test_a_dry_run_names_the_executor_that_a_short_run_takes(compiled):
    scenario = load_scenario(tiny(**AUTO))
    short, told = (estimate_run(scenario, kept_kernels=kept) for kept in (False, True))

    assert (short.sizes["executor"], told.sizes["executor"]) == ("reference", "fused")
    assert told.memory_bytes.keys() - short.memory_bytes.keys() == {"kernels"}
    assert "torch" not in told.memory_bytes
