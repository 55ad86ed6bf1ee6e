"""Memory and cores within the limits of containers and batch systems."""

import os
import resource

import pytest

from gossiprec.base.machine import available_bytes, cache_dir, processor_name, usable_cores
from gossiprec.emulation.estimate.timing import rates_path

GIB = 2**30
INACTIVE = 3 * 2**20


def system(root, groups, files=()):
    """Return a folder that looks like a system with 64 GiB free."""
    for name, text in {"proc/meminfo": "MemFree: 1 kB\nMemAvailable: 67108864 kB\n", **dict(files)}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "proc/self").mkdir(parents=True, exist_ok=True)
    (root / "proc/self/cgroup").write_text(groups)
    return root


def second(limit, current, folder=""):
    """Return the files of a group of version 2."""
    group = f"sys/fs/cgroup/{folder}"
    return {f"{group}memory.max": f"{limit}\n", f"{group}memory.current": f"{current}\n"}


def test_a_processor_is_called_as_the_system_calls_it(tmp_path):
    text = "processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nprocessor\t: 1\nmodel name\t: AMD EPYC\n"
    assert processor_name(system(tmp_path, "", {"proc/cpuinfo": text})) == "AMD EPYC"
    assert processor_name(tmp_path / "nowhere")


def test_without_limits_the_machine_decides(tmp_path):
    assert available_bytes(system(tmp_path, "")) == 64 * GIB
    assert usable_cores(tmp_path) == len(os.sched_getaffinity(0))


def test_a_container_has_what_its_limit_leaves(tmp_path):
    files = second(4 * GIB, GIB) | {"sys/fs/cgroup/memory.stat": f"anon 5\ninactive_file {INACTIVE}\n"}
    assert available_bytes(system(tmp_path, "0::/\n", files)) == 3 * GIB + INACTIVE


@pytest.mark.parametrize("tight", ["job/", "job/step/"])
def test_the_tightest_of_nested_groups_counts(tight, tmp_path):
    wide = next(folder for folder in ("job/", "job/step/") if folder != tight)
    files = second(8 * GIB, GIB, wide) | second(2 * GIB, GIB, tight) | second("max", GIB)
    assert available_bytes(system(tmp_path, "0::/job/step\n", files)) == GIB


def test_groups_of_version_1_are_read(tmp_path):
    files = {
        "sys/fs/cgroup/memory/slurm/memory.limit_in_bytes": f"{2 * GIB}",
        "sys/fs/cgroup/memory/slurm/memory.usage_in_bytes": f"{GIB}",
        "sys/fs/cgroup/memory/slurm/memory.stat": f"inactive_file 1\ntotal_inactive_file {INACTIVE}\n",
        "sys/fs/cgroup/cpu/slurm/cpu.cfs_quota_us": "100000",
        "sys/fs/cgroup/cpu/slurm/cpu.cfs_period_us": "100000",
    }
    root = system(tmp_path, "4:memory:/slurm\n2:cpuacct,cpu:/other\n1:cpu:/slurm\n", files)
    assert (available_bytes(root), usable_cores(root)) == (GIB + INACTIVE, 1)


def test_a_group_that_has_taken_all_has_nothing_left(tmp_path):
    assert available_bytes(system(tmp_path, "0::/\n", second(GIB, 2 * GIB))) == 0


@pytest.mark.parametrize(
    ("quota", "cores"), [("50000 100000", 1), ("max 100000", None), ("1000000000 100000", None), ("", None)]
)
def test_cores_are_those_of_the_quota_rounded_up(quota, cores, tmp_path):
    root = system(tmp_path, "0::/\n", {"sys/fs/cgroup/cpu.max": f"{quota}\n"})
    assert usable_cores(root) == (cores or len(os.sched_getaffinity(0)))


def test_one_core_and_a_half_are_two(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8), raising=False)
    root = system(tmp_path, "0::/\n", {"sys/fs/cgroup/cpu.max": "150000 100000\n"})
    assert usable_cores(root) == 2


def test_this_machine_has_some_of_each():
    assert available_bytes() > 0
    assert usable_cores() > 0


@pytest.mark.parametrize(("limit", "entry"), [("RLIMIT_AS", "VmSize"), ("RLIMIT_DATA", "VmData")])
def test_a_limit_of_the_process_counts(limit, entry, tmp_path, monkeypatch):
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr(
        resource, "getrlimit", lambda one: (3 * GIB, -1) if one == getattr(resource, limit) else unlimited
    )
    taken = {"proc/self/status": f"Name:\tpython\n{entry}:\t 1048576 kB\n"}
    assert available_bytes(system(tmp_path, "", taken)) == 2 * GIB


def test_runs_of_tests_leave_the_rates_of_the_user_alone():
    assert cache_dir() not in rates_path().parents
