"""Which environment and which processor the portable target needs, and how a process gets there."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys

import pytest

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.base import portable
from gossiprec.base.errors import GossipRecError, ResourceError, ScenarioError
from gossiprec.cli.main import exit_code
from gossiprec.emulation import prepare
from gossiprec.scenario import load_scenario
from tests.cli.calls import SMOKE, environment
from tests.emulation.tiny_runs import tiny

PORTABLE = {"name": "auto", "portable": True}
FIT = set(portable.NEEDS) <= portable.host_features()
needs_fit = pytest.mark.skipif(not FIT, reason="the processor is not fit for the portable target")


def child(program, **more):
    """Run a program in a process that was not told of the portable target; return what it says."""
    own = {name: value for name, value in environment(**more).items() if name not in portable.ENVIRONMENT}
    done = subprocess.run(
        [sys.executable, "-c", program], env=own | more, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_an_environment_is_made_portable_whatever_it_said_before():
    given = {"HOME": "/home/x", "NUMBA_CPU_NAME": "znver4", "NPY_DISABLE_CPU_FEATURES": "X86_V4"}
    made = portable.portable_environment(given)

    assert made == {"HOME": "/home/x", **portable.ENVIRONMENT}
    assert portable.is_portable_env(made)
    assert not portable.is_portable_env(given)
    assert not portable.is_portable_env({**made, "NPY_DISABLE_CPU_FEATURES": "X86_V4"})


def test_a_processor_without_the_target_is_told_what_it_lacks():
    have = set(portable.NEEDS) - {"fma", "avx2"}
    with pytest.raises(ResourceError, match=r"lacks avx2, fma, which the portable target x86-64-v3 requires"):
        portable.check_processor(have, "x86_64")
    portable.check_processor(portable.NEEDS, "AMD64")


def test_an_architecture_without_a_target_is_refused():
    with pytest.raises(ResourceError, match="architecture aarch64, but only x86_64 has a portable target"):
        portable.check_processor(portable.NEEDS, "aarch64")


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_an_attack_that_computes_with_torch_or_lapack_says_so(name):
    modules = [
        inspect.getmodule(kind) for kind in ATTACKS[name].__mro__ if kind.__module__.startswith("gossiprec.")
    ]
    code = "".join(map(inspect.getsource, modules))
    assert ATTACKS[name].uses_torch == bool(
        re.search(r"np\.linalg| @ |sklearn|import torch$", code, re.MULTILINE)
    )


@needs_fit
def test_a_process_for_its_own_processor_is_told_how_to_become_portable(monkeypatch):
    monkeypatch.delenv("NUMBA_CPU_NAME", raising=False)
    with pytest.raises(portable.NotPortableError, match=r"NUMBA_CPU_NAME='x86-64-v3'"):
        prepare(load_scenario(tiny(executor=PORTABLE)))
    with pytest.raises(portable.NotPortableError, match=r"was called too late: .* already loaded"):
        portable.enter()


@needs_fit
def test_numpy_and_numba_follow_a_script_that_enters_first():
    program = (
        "import gossiprec.base.portable as p; p.enter(); import json, numba\n"
        "from numpy._core._multiarray_umath import __cpu_features__ as has\n"
        "print(json.dumps([has.get('X86_V4', has.get('AVX512_SKX')), numba.config.CPU_NAME, p.describe_target()]))"
    )
    told = child(program, NPY_DISABLE_CPU_FEATURES="X86_V4")
    assert json.loads(told) == [False, "x86-64-v3", "x86-64-v3, portable"]


@needs_fit
def test_the_command_line_begins_anew_with_its_arguments(monkeypatch):
    monkeypatch.delenv("NUMBA_CPU_NAME", raising=False)
    called = []
    monkeypatch.setattr(os, "execve", lambda *call: called.append(call))
    monkeypatch.setattr(sys, "orig_argv", ["python3", "-m", "gossiprec", "simulate", SMOKE])
    run = ["simulate", SMOKE, "--set", "executor.portable=true", "--out", "/nowhere", "--quiet"]

    assert exit_code(run) == 1  # called from Python, whose process is not ours
    assert not called
    exit_code(run, may_restart=True)
    assert called == [
        (
            sys.executable,
            [sys.executable, "-m", "gossiprec", "simulate", SMOKE],
            portable.portable_environment(os.environ),
        )
    ]


@pytest.mark.parametrize(
    ("sections", "found"),
    [
        (
            {"executor": {**PORTABLE, "name": "reference"}},
            r"executor.name: found 'reference', must be fused or auto",
        ),
        (
            {"executor": {**PORTABLE, "name": "batched"}},
            r"executor.name: found 'batched', must be fused or auto",
        ),
        ({"executor": {**PORTABLE, "device": "cuda"}}, r"executor.device: found 'cuda', must be cpu or auto"),
        (
            {
                "protocol": {"name": "fedavg", "rounds": 2},
                "observers": [{"name": "aia", "community_size": 3}],
            },
            r"observers.0.name: found 'aia', which computes with torch",
        ),
        (
            {"protocol": {"name": "central", "epochs": 2}, "observers": [], "model": {"name": "mf"}},
            r"protocol.name: found 'central', in which the coordinator trains with torch",
        ),
    ],
)
def test_what_torch_computes_is_refused(sections, found):
    scenario = tiny(**{"executor": PORTABLE, **sections})
    with pytest.raises(ScenarioError, match=found):
        load_scenario(scenario)
    load_scenario({**scenario, "executor": {**scenario["executor"], "portable": False}})


def test_recommenders_and_poisoners_are_refused_and_all_is_said_at_once():
    clients = {"name": "fedavg", "rounds": 2, "client_model": "none", "slice": 4, "merge": "sum"}
    with pytest.raises(ScenarioError) as caught:
        load_scenario(
            tiny(
                executor=PORTABLE,
                protocol=clients,
                model={"name": "ncf"},
                training={"optimizer": "sgd", "batch_size": "full"},
                observers=[],
                recommender={"name": "simgcl"},
                attackers=[{"name": "a-hum", "number": 1}],
            )
        )
    assert "recommender.name: found 'simgcl'" in str(caught.value)
    assert "attackers: poisoners compute with torch" in str(caught.value)


@pytest.mark.parametrize(("name", "missing"), [("ncf", "the scores of ncf"), ("deepfm", "deepfm")])
def test_a_model_without_kernels_is_refused(name, missing, monkeypatch):
    monkeypatch.setattr(portable, "require_portable", lambda: None)
    clients = {"name": "fedavg", "rounds": 2, "client_model": "none", "slice": 4, "merge": "sum"}
    for protocol in (tiny()["protocol"], clients):
        scenario = tiny(
            executor=PORTABLE,
            protocol=protocol,
            model={"name": name},
            training={"batch_size": "full"},
            observers=[],
        )
        with pytest.raises(
            GossipRecError,
            match=rf"executor.portable: found true, but there are no compiled kernels for {missing}",
        ):
            prepare(load_scenario(scenario))
