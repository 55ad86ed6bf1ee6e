"""Settings of all tests."""

import atexit
import gc
import os
import shutil
import sys
import tempfile
from pathlib import Path

# Compiled kernels, bytecode and what else is cached is kept in the checkout, not in the user's folders.
os.environ["XDG_CACHE_HOME"] = str(Path(__file__).resolve().parents[1] / ".cache")
os.environ["MPLCONFIGDIR"] = os.environ["XDG_CACHE_HOME"]
os.environ.pop("NUMBA_CACHE_DIR", None)

# Workers fill the cores. If torch and BLAS divide products of small matrices among threads that wait for each other,
# tests of torch take three times the processor time. Tests that are about such threads choose their number themselves.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
# numba colours the message of every error, also of those that its search for overloads catches. Where colorama is
# installed, that is a tenth of the time of compiling.
os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")

# Runs of tests leave no rates in the user's cache folder. Workers and other child processes inherit the folder.
if "GOSSIPREC_RATES" not in os.environ:
    os.environ["GOSSIPREC_RATES"] = tempfile.mkdtemp(prefix="gossiprec-rates-")
    atexit.register(shutil.rmtree, os.environ["GOSSIPREC_RATES"], ignore_errors=True)

# Each worker has one core, so its runs are not divided among threads: that is 15 % of the processor time of a tiny run.
if os.environ.get("PYTEST_XDIST_WORKER") and hasattr(os, "sched_setaffinity"):
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw")) % len(cores)]})

# Files are complete for other processes without it, and no test takes the power away. A tiny run waits for a dozen of
# its files, half as long as it computes.
os.fsync = lambda file: None

# Modules, tests and compiled functions are half a million objects, which Python would go through again and again: a
# tenth of the time of tests, a sixth of that of collecting them.
gc.set_threshold(20_000, 20, 50)

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

from gossiprec.base.machine import cache_dir  # noqa: E402
from tests.suites import EXAMPLES, select_tests  # noqa: E402

# Without bytecode, each worker compiles all tests, and each process that a test starts compiles gossiprec. Some
# containers forbid it next to the sources; then it is kept with the kernels.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(cache_dir() / "bytecode")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    os.environ["PYTHONDONTWRITEBYTECODE"] = ""


def pytest_addoption(parser):
    parser.addoption(
        "--suite", choices=list(EXAMPLES), default="all",
        help="tests to run: fast (for each save), gate (what CI runs), all (the default)",
    )  # fmt: skip
    parser.addoption(
        "--device", choices=["cpu", "cuda"], default="cpu",
        help="device of tests that leave it open; cpu hides all others, cuda adds the tests of CUDA",
    )  # fmt: skip


def pytest_configure(config):
    # How long an example takes says how busy the machine is; timings belong to benchmarks. Only all tests draw other
    # examples each time: two runs of the gate for one commit do the same.
    suite = config.getoption("--suite")
    settings.register_profile(
        "gossiprec", deadline=None, suppress_health_check=[HealthCheck.too_slow],
        max_examples=EXAMPLES[suite], derandomize=suite != "all",
    )  # fmt: skip
    settings.load_profile("gossiprec")
    if config.getoption("--device") == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # before torch looks
        return
    import torch

    if not torch.cuda.is_available():
        raise pytest.UsageError("--device: found cuda, but torch finds no CUDA device; leave it out")


def pytest_collection_modifyitems(config, items):
    chosen = select_tests(items, config.getoption("--suite"))
    kept = set(map(id, chosen))
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = chosen


def pytest_collection_finish():
    gc.freeze()  # nothing of what is imported is garbage: half a second each time that all of it is gone through
