"""What a kernel computes does not depend on what its process has compiled or loaded before.

What only kernels call is compiled for them alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import NamedTuple

import numba
import numpy as np
import pytest

from gossiprec.native import numba_patches
from gossiprec.native.jit import borrow, inline, jitable, kernel, length, noinline

KERNELS = """
import numpy as np
from numpy import float32
from gossiprec.native.jit import kernel, noinline

@noinline
def squares(x, y):
    found = float32(0.0)
    for k in range(len(x)):
        inner = float32(0.0)
        for j in range(len(y)):
            inner += y[j] * x[k] * x[(k + j) % len(x)]
        found += inner * inner
    return found

@noinline
def move(values, slopes, means):
    for k in range(len(values)):
        means[k] = float32(0.9) * means[k] + float32(0.1) * slopes[k] * slopes[k]
        values[k] -= float32(0.01) * slopes[k] / (np.sqrt(means[k]) + float32(1e-8))

@kernel
def both(x, y):
    return squares(x, y[:7]) + squares(y, x[:50])

@kernel
def moved(x, y):
    values, means = x.copy(), np.zeros_like(x)
    for _ in range(50):
        move(values, y, means)
        move(values, x, means)
    return squares(values, y[:7])
"""
RUN = """
import json, sys
import numpy as np
import kernels
x, y = np.random.default_rng(0).normal(size=(2, 1003)).astype(np.float32)
found = {name: getattr(kernels, name)(x, y) for name in sys.argv[1:]}
print(json.dumps([found, sum(sum(getattr(kernels, name).stats.cache_hits.values()) for name in found)]))
"""


@pytest.fixture
def run(tmp_path):
    """Call some kernels one after the other in a process of their own: what they give, and how many came from disk."""
    (tmp_path / "kernels.py").write_text(KERNELS)

    def run(*names):
        told = subprocess.run(
            [sys.executable, "-c", RUN, *names],
            env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.getcwd()}", "PYTHONDONTWRITEBYTECODE": "1"}
            | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return json.loads(told.stdout)

    return run


@pytest.mark.slow
@pytest.mark.full
def test_the_process_that_compiles_a_kernel_and_those_that_load_it_get_the_same_numbers(run):
    compiled, hits = run("both", "moved")
    assert hits == 0
    assert run("both", "moved") == [compiled, 2]
    assert run("moved", "both") == [compiled, 2]
    assert run("moved") == [{"moved": compiled["moved"]}, 1]


@inline
def doubled(x):
    return 2 * x


@noinline
def tripled(x):
    return doubled(x) + x


@jitable
def halved(x):
    return x / 2


def test_what_only_kernels_call_has_no_machine_code_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def together(x):
        return tripled(x) + halved(x)

    own = kernel(together)
    assert own(2.0) == 7.0
    (compiled,) = own.overloads.values()
    symbols = compiled.library.codegen._engine._defined_symbols
    callable_ = {name for name in symbols if "NumbaEnv" not in name and ".of." not in name}
    assert any("together" in name for name in callable_)
    parts = [f"test_kernel_linking{len(part)}{part}" for part in ("doubled", "tripled", "halved")]
    assert not [name for name in callable_ if any(part in name for part in parts)]


def test_what_only_kernels_call_can_be_made_a_kernel(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    for compiled, hits in ((kernel(tripled.py_func), 0), (kernel(tripled.py_func), 1)):
        assert compiled(2.0) == 6.0
        assert sum(compiled.stats.cache_hits.values()) == hits
    assert halved(3) == 1.5


FOREIGN = """
from numba import njit

@njit
def callee(x):
    return x * x + 1

@njit
def same_name(x):
    return callee(x) + callee(x + 1)
"""


def test_a_function_of_another_package_with_the_name_of_a_kernel_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    linked, optimize = [], numba_patches._optimize

    def record(library):
        linked.append([each.name for each in library._final_module.functions if "callee" in each.name])
        optimize(library)

    monkeypatch.setattr(numba_patches, "_optimize", record)
    ours, theirs = {"__name__": "ours"}, {"__name__": "theirs"}
    exec(FOREIGN, ours)
    exec(FOREIGN, theirs)

    assert kernel(ours["same_name"].py_func)(2.0) == 15.0
    assert [".of." in name for name in linked[-1]] == [True]
    assert theirs["same_name"](2.0) == 15.0
    assert [".of." in name for name in linked[-1]] == [False]


@inline
def counted_sum(pair):
    total = 0.0
    for values in pair:
        for value in values[1:]:
            total += value
    return total


borrowed_sum = borrow(counted_sum.py_func)


def sums(x, y):
    pair = (x.copy(), y.copy())
    return counted_sum(pair) - borrowed_sum(pair)


def test_borrowed_arrays_are_not_counted_and_stay_alive(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    x = np.arange(5.0)
    assert kernel(sums)(x, x) == 0.0
    (counted,), (borrowed,) = (each.overloads.values() for each in (counted_sum, borrowed_sum))
    assert "NRT_incref" in counted.library.get_llvm_str()
    assert "NRT_incref" not in borrowed.library.get_llvm_str()


@borrow
def halves(values):
    return values[:2], values[2:]


def test_borrowing_functions_do_not_return_arrays():
    @kernel
    def caller(values):
        return halves(values)

    with pytest.raises(TypeError, match="without counting"):
        caller(np.ones(4))


class Shape(NamedTuple):
    dims: tuple[int, ...]


@inline
def constant_of(dim):
    return 3 * dim


@inline
def number_of(dim):
    return 4 * dim


def lengths(shape):
    return constant_of(length(shape.dims)) + number_of(len(shape.dims))


def test_the_length_of_a_tuple_in_a_bundle_is_a_constant_for_the_functions_called_with_it(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    assert kernel(lengths)(Shape((0,) * 5)) == 35
    assert [kind.literal_value for (kind,) in constant_of.overloads] == [5]
    assert not any(isinstance(kind, numba.types.Literal) for (kind,) in number_of.overloads)
