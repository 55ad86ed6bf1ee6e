"""Kernels for the portable target are the same whatever the processor; others are not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import product

import pytest

from gossiprec.base import portable

OLD = (
    "sse",
    "sse2",
    "sse3",
    "ssse3",
    "sse4.1",
    "sse4.2",
    "popcnt",
    "cx8",
    "cx16",
    "cmov",
    "fxsr",
    "sahf",
    "64bit",
)
NEWER = (*OLD, "avx", "xsave", *portable.NEEDS)
PROCESSORS = {"nehalem": OLD, "haswell": NEWER, "skylake-avx512": (*NEWER, "avx512f", "avx512dq", "avx512vl")}
"""What a processor is called, and what it has."""
RUNS = [*product(("nehalem", "haswell"), (True, False)), ("skylake-avx512", True)]
"""Processors that this one pretends to be, and whether it compiles for the portable target; wide code would not run."""
SUM = """
from gossiprec.native.jit import kernel
from gossiprec.numerics.flat_ops import dot

@kernel
def total(a):
    return dot(a, 0, a, 0, len(a))
"""
PRETEND = """
import json, sys
import llvmlite.binding as llvm

name, has = sys.argv[1], json.loads(sys.argv[2])
features = llvm.FeatureMap({feature: feature in has for feature in {*has, *llvm.get_host_cpu_features()}})
llvm.get_host_cpu_name, llvm.get_host_cpu_features = lambda: name, lambda: features

import numpy as np
from sums import total
from gossiprec.native.tiles import LANES
from gossiprec.base.portable import describe_target

numbers = np.random.default_rng(1).normal(size=1003).astype(np.float32)
sums = [float(total(numbers[:n])) for n in range(3, 1003, 50)]
print(json.dumps({"sums": sums, "lanes": LANES, "target": describe_target()}))
"""

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        not set(portable.NEEDS) <= portable.host_features(),
        reason="the processor is not fit for the portable target",
    ),
]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Return what kernels give on some processors, for the portable target and for their own; with one cache."""
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "sums.py").write_text(SUM)
    own = {name: value for name, value in os.environ.items() if name not in portable.ENVIRONMENT}
    own |= {"PYTHONPATH": f"{folder}{os.pathsep}{os.getcwd()}", "NUMBA_CACHE_DIR": str(folder / "cache")}
    running = {}
    for processor, is_portable in RUNS:
        running[processor, is_portable] = subprocess.Popen(
            [sys.executable, "-c", PRETEND, processor, json.dumps(PROCESSORS[processor])],
            env=portable.portable_environment(own) if is_portable else own,
            stdout=subprocess.PIPE,
            text=True,
        )
    return {which: json.loads(process.communicate(timeout=300)[0]) for which, process in running.items()}


def test_the_portable_target_gives_the_same_bytes_on_every_processor(told):
    assert told["nehalem", True] == told["haswell", True] == told["skylake-avx512", True]
    assert told["haswell", True]["target"] == "x86-64-v3, portable"


def test_sums_for_a_processors_own_target_differ_and_machine_code_is_not_mixed_up(told):
    assert told["nehalem", False]["sums"] != told["haswell", False]["sums"]
    assert [told[name, False]["target"] for name in ("nehalem", "haswell")] == ["nehalem", "haswell avx2 fma"]
