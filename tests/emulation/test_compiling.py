"""Kernels are compiled by several processes before a run, and each of them once."""

from __future__ import annotations

import gc
import os
import time

import numba
import pytest

from gossiprec.base.machine import ThreadPool
from gossiprec.emulation.assembly import kernel_warmup
from gossiprec.emulation.assembly.kernel_warmup import compile_kernels
from gossiprec.emulation.progress import NullProgress
from gossiprec.native.jit import kernel
from gossiprec.native.kernel_cache import (
    KernelNotCachedError,
    MissingKernelPolicy,
    missing_kernel_policy,
)
from gossiprec.native.numba_patches import KernelCache
from tests.processes import forks

HERE = os.getpid()


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """Return three that nobody has compiled."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def first(x):
        return x + 1

    def second(x):
        return x + 2

    def third(x):
        return x + 3

    return [kernel(each) for each in (first, second, third)]


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """Return what tells who has compiled which kernel."""
    path = tmp_path / "compiled"
    path.touch()
    save = KernelCache.save_overload

    def told(self, sig, data):
        save(self, sig, data)
        with path.open("a") as file:
            print(self._py_func.__name__, os.getpid(), file=file)

    monkeypatch.setattr(KernelCache, "save_overload", told)
    return lambda: [line.split() for line in path.read_text().splitlines()]


def parts_of(kernels):
    return [lambda each=each: each(0) for each in kernels]


@pytest.mark.parametrize("cores", [1, 2, 8])
def test_each_kernel_is_compiled_once_and_there_for_all(kernels, compiled, monkeypatch, cores):
    monkeypatch.setattr(kernel_warmup, "usable_cores", lambda: cores)
    before = forks()
    compile_kernels(parts_of(kernels), NullProgress())
    assert sorted(name for name, _ in compiled()) == ["first", "second", "third"]
    with missing_kernel_policy(MissingKernelPolicy.REFUSE):
        assert [each(0) for each in kernels] == [1, 2, 3]
    assert forks() <= before, "a process that compiled is left"


def test_another_process_compiles_what_this_one_has_not_begun(kernels, compiled, monkeypatch):
    def patient():
        kernels[0](0)
        deadline = time.monotonic() + 120
        while os.getpid() == HERE and len(compiled()) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)

    monkeypatch.setattr(kernel_warmup, "usable_cores", lambda: 2)
    compile_kernels([patient, *parts_of(kernels[1:])], NullProgress())
    others = {name for name, process in compiled() if int(process) != HERE}
    assert others >= {"second", "third"}


def test_a_process_that_fails_is_done_without(kernels, compiled, monkeypatch):
    def fails_elsewhere():
        if os.getpid() != HERE:
            raise RuntimeError("no")

    monkeypatch.setattr(kernel_warmup, "usable_cores", lambda: 4)
    compile_kernels([fails_elsewhere, *parts_of(kernels)], NullProgress())
    assert [each(0) for each in kernels] == [1, 2, 3]


def test_it_is_said_only_where_something_is_compiled(kernels):
    told = []

    class Telling(NullProgress):
        def phase(self, text):
            told.append(text)

    for _ in range(2):
        compile_kernels(parts_of(kernels), Telling())
    assert told == ["compiling kernels (once per machine)"]


def test_where_nothing_may_be_compiled_no_thread_of_a_crew_compiles(kernels, compiled):
    crew = ThreadPool(3)
    with missing_kernel_policy(MissingKernelPolicy.REFUSE), pytest.raises(KernelNotCachedError):
        crew.run(lambda part: kernels[part](0))
    assert compiled() == []
    crew.run(lambda part: kernels[part](0))
    assert len(compiled()) == 3


def test_nothing_is_collected_meanwhile(kernels, monkeypatch):
    monkeypatch.setattr(kernel_warmup, "usable_cores", lambda: 1)
    collects = []

    def part():
        kernels[0](0)
        collects.append(gc.isenabled())

    compile_kernels([part], NullProgress())
    assert not any(collects)
    assert gc.isenabled()


def test_who_collects_nothing_is_left_at_that(kernels):
    gc.disable()
    try:
        compile_kernels(parts_of(kernels[:1]), NullProgress())
        assert not gc.isenabled()
    finally:
        gc.enable()
