"""Machine code on disk is used again only while all that is in it is what it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import numba
import numpy as np
import pytest
from filelock import FileLock

from gossiprec.native import kernel_cache, numba_patches
from gossiprec.native.jit import inline, kernel, specialise

KERNELS = """
from gossiprec.native.jit import inline, kernel, specialise
import sibling
from sibling import CONSTANT, deep, make
import types

@kernel
def own_kernel(x):
    return deep(x)

def template(x):
    return hook(x)

def hook(x):
    raise NotImplementedError

@inline
def by_name(x):
    return deep(x)

@inline
def by_module(x):
    return sibling.shallow(x)

@inline
def by_constant(x):
    return x + CONSTANT

by_closure = make(int(sibling.FACTOR))
hooks = {"by_name": by_name, "by_module": by_module, "by_constant": by_constant, "by_closure": by_closure}
"""
SIBLING = """
from gossiprec.native.jit import inline
from deeper import double
CONSTANT, FACTOR = 3.0, 5

@inline
def shallow(x):
    return x + 7.0

@inline
def deep(x):
    return double(x)

def make(factor):
    @inline
    def times(x):
        return factor * x
    return times
"""
DEEPER = """
from gossiprec.native.jit import inline

@inline
def double(x):
    return 2.0 * x
"""
RUN = """
import json
from kernels import hooks, own_kernel, specialise, template
compiled = {"own_kernel": own_kernel, **{name: specialise(template, hook=hook) for name, hook in hooks.items()}}
told = {name: each(1.0) for name, each in compiled.items()}
print(json.dumps([told, sum(sum(each.stats.cache_hits.values()) for each in compiled.values())]))
"""


@pytest.fixture
def ran(tmp_path):
    """Run the kernels, in a process of their own, of a folder: what they give, and how many came from disk."""

    def run(folder=tmp_path):
        told = subprocess.run(
            [sys.executable, "-c", RUN],
            env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{os.getcwd()}", "PYTHONDONTWRITEBYTECODE": "1"}
            | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return json.loads(told.stdout)

    for name, text in {"kernels": KERNELS, "sibling": SIBLING, "deeper": DEEPER}.items():
        (tmp_path / f"{name}.py").write_text(text)
    return run


@pytest.mark.slow
@pytest.mark.full
def test_an_edit_in_any_module_that_is_reached_is_seen(ran, tmp_path):
    first = {"own_kernel": 2.0, "by_name": 2.0, "by_module": 8.0, "by_constant": 4.0, "by_closure": 5.0}
    assert ran() == [first, 0]
    assert ran() == [first, 5]

    for name, before, after in [
        ("deeper", "2.0 * x", "4.0 * x"),
        ("sibling", "7.0", "70.0"),
        ("sibling", "3.0, 5", "30.0, 50"),
    ]:
        path = tmp_path / f"{name}.py"
        path.write_text(path.read_text().replace(before, after))
    edited = {"own_kernel": 4.0, "by_name": 4.0, "by_module": 71.0, "by_constant": 31.0, "by_closure": 50.0}
    assert ran() == [edited, 0]


@pytest.mark.slow
@pytest.mark.full
def test_machine_code_that_does_not_reach_the_edited_module_is_used_again(ran, tmp_path):
    ran()
    path = tmp_path / "deeper.py"
    path.write_text(path.read_text().replace("2.0", "6.0"))

    assert ran()[1] == len(["by_module", "by_constant", "by_closure"])


@pytest.mark.slow
@pytest.mark.full
def test_machine_code_is_that_of_all_folders_with_the_same_sources(ran, tmp_path):
    first, other = ran()[0], tmp_path / "other"
    other.mkdir()
    for name in ("kernels", "sibling", "deeper"):
        (other / f"{name}.py").write_text((tmp_path / f"{name}.py").read_text())
    assert ran(other) == [first, 5]

    (other / "sibling.py").write_text((other / "sibling.py").read_text().replace("7.0", "70.0"))
    assert ran(other)[0] == {**first, "by_module": 71.0}
    assert ran() == [first, 5]


@pytest.mark.slow
@pytest.mark.full
def test_an_index_of_another_version_with_an_argument_type_that_is_gone_is_not_read(ran, tmp_path):
    (tmp_path / "typed.py").write_text(
        "from typing import NamedTuple\n"
        "from gossiprec.native.jit import kernel\n"
        "class Old(NamedTuple):\n"
        "    x: float\n"
        "@kernel\n"
        "def first(pair):\n"
        "    return pair.x\n"
        "print(first(Old(3.0)))\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.getcwd()}"}
    environment |= {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    for name in ("Old", "New"):
        path = tmp_path / "typed.py"
        path.write_text(path.read_text().replace("Old", name))
        done = subprocess.run(
            [sys.executable, "-c", "import typed"],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "3.0\n"


def test_what_only_kernels_call_refuses_python():
    @inline
    def double(x):
        return 2.0 * x

    @kernel
    def twice(x):
        return double(x)

    for _ in ("before it is compiled", "afterwards"):
        with pytest.raises(TypeError, match="double is called by kernels only"):
            double(1.0)
        assert twice(1.0) == 2.0


def test_a_kernel_that_another_process_compiles_is_waited_for_or_left(tmp_path, monkeypatch):
    def half(x):
        return x / 2.0

    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(numba_patches, "TIMEOUT_S", 0.0)
    one, other = kernel(half), kernel(half)
    refused = pytest.raises(kernel_cache.KernelNotCachedError, match="half")
    with (
        FileLock(one._cache.lock_path),
        kernel_cache.missing_kernel_policy(kernel_cache.MissingKernelPolicy.CLAIM),
        refused,
    ):
        one(3.0)
    assert one(3.0) == 1.5
    with FileLock(other._cache.lock_path):
        assert other(np.float32(3.0)) == 1.5  # patience is at an end


def test_a_kernel_that_calls_one_that_another_process_compiles_is_left_to_others(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    @kernel
    def half(x):
        return x / 2.0

    @kernel
    def quarter(x):
        return half(x) / 2.0

    with (
        FileLock(half._cache.lock_path),
        kernel_cache.missing_kernel_policy(kernel_cache.MissingKernelPolicy.CLAIM),
        pytest.raises(kernel_cache.KernelNotCachedError, match="half"),
    ):
        quarter(3.0)
    with FileLock(quarter._cache.lock_path, timeout=0):
        pass
    assert quarter(3.0) == 0.75


def test_a_kernel_whose_compilation_was_interrupted_is_compiled_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(numba_patches, "TIMEOUT_S", 60.0)

    @kernel
    def half(x):
        return x / 2.0

    with monkeypatch.context() as patch:
        patch.setattr(half, "_compiler", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            half(3.0)
    begun = time.monotonic()
    assert half(3.0) == 1.5
    assert time.monotonic() - begun < 30.0


class Interrupted:
    """A compiler during which the user presses Ctrl-C."""

    def compile(self, *_):
        raise KeyboardInterrupt


def test_a_template_is_specialised_only_in_names_that_its_module_has():
    with pytest.raises(TypeError, match="has no hok to replace"):
        specialise(_calls_hook, hok=_hook)


def _calls_hook(x):
    return _hook(x)


@kernel
def _hook(x):
    return x
