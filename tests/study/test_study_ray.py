"""Studies on Ray: the same table, and messages that say how to get a cluster."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from small_studies import carried_out, planned, tables

from gossiprec.base.errors import ResourceError
from gossiprec.emulation.assembly.shard_partition import require_ray
from gossiprec.emulation.carriers.shards import ray_backend
from gossiprec.emulation.carriers.shards.ray_backend import LOCAL
from gossiprec.study import worker_pool as cluster_module
from gossiprec.study.task import StudyTask
from gossiprec.study.worker_pool import INSTEAD, RayRunner, run_remote_task
from gossiprec.version import code_version

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="needs the extra gossiprec[ray]"
)


def silent(hash_, what):
    pass


def a_task(tmp_path):
    plan = planned(tmp_path, axes={}, seeds=1)
    simulation = plan.simulations[0]
    path = str(tmp_path / "out" / "runs" / simulation.hash)
    return StudyTask(simulation.hash, simulation.scenario.resolved(), path, "s", code_version())


@pytest.mark.slow
@needs_ray
def test_ray_makes_the_table_that_one_process_makes_though_a_worker_dies(tmp_path):
    """The worker of the first task is killed as soon as it is at work."""
    killer, killed = [], []

    def kill_once(hash_, what):
        if not killer:
            killer.append(
                threading.Thread(target=_kill_at_work, args=(tmp_path / "ray" / "runs" / hash_, killed))
            )
            killer[0].start()

    start = RayRunner(LOCAL, 2, kill_once).carry_out
    conduct = carried_out(planned(tmp_path), tmp_path / "ray", start=start)
    killer[0].join()
    assert killed
    assert (conduct.outcome.made, conduct.outcome.failed) == (6, {})
    carried_out(planned(tmp_path), tmp_path / "here")
    assert tables(tmp_path / "ray") == tables(tmp_path / "here")
    assert sorted(p.name for p in (tmp_path / "ray").iterdir()) == [
        ".lock", "runs", "study.json", "study.yaml", "table.csv", "table.parquet",
    ]  # fmt: skip
    assert len(list((tmp_path / "ray" / "runs").iterdir())) == 6


def _kill_at_work(run, killed):
    """Kill the process that has the log of a run open."""
    for _ in range(3000):
        for link in Path("/proc").glob("[0-9]*/fd/*"):
            try:
                if Path(os.readlink(link)) == run / "events.mplog":
                    os.kill(int(link.parts[2]), signal.SIGKILL)
                    killed.append(run)
                    return
            except OSError:
                continue


def test_the_files_of_a_run_out_of_reach_come_back(tmp_path):
    task = a_task(tmp_path)
    returned = run_remote_task(task, 1, str(tmp_path), str(tmp_path / "no-such-token"))
    assert not returned.done.problem
    assert not Path(task.path).exists()
    Path(task.path).parent.mkdir(parents=True)
    cluster_module._put(Path(task.path), returned.files)
    (tmp_path / "token").touch()
    here = run_remote_task(
        replace(task, path=str(tmp_path / "direct")), 1, str(tmp_path), str(tmp_path / "token")
    )
    assert here.files == {}
    for name in ("events.mplog", "metrics.csv", "attacks.csv", "adversaries.npz"):
        assert (Path(task.path) / name).read_bytes() == (tmp_path / "direct" / name).read_bytes()


def test_a_failed_run_out_of_reach_sends_its_problem_and_no_files(tmp_path):
    task = replace(a_task(tmp_path), code="0123456789abcdef", machine="elsewhere")
    returned = run_remote_task(task, 1, str(tmp_path), str(tmp_path / "no-such-token"))
    assert "install the same version" in returned.done.problem
    assert returned.files == {}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "no-such-thing",
            "the study uses plug-ins that are not installed; install them with: pip install no-such-thing==7",
        ),
        (
            "pytest",
            r"the plug-in pytest on the worker \S+: found none, expected 7 \(abc\) as on elsewhere; install the same",
        ),
    ],
)
def test_a_worker_without_the_study_s_plug_in_says_so(tmp_path, name, message):
    task = replace(a_task(tmp_path), plugins={name: {"version": "7", "code": "abc"}}, machine="elsewhere")
    returned = run_remote_task(task, 1, str(tmp_path), str(tmp_path / "no-such-token"))

    assert re.match(message, returned.done.problem)
    assert not returned.done.trace


def test_a_plug_in_that_is_edited_meanwhile_is_not_blamed_on_other_machines(tmp_path):
    task = replace(a_task(tmp_path), plugins={"pytest": {"version": "7", "code": "abc"}})
    returned = run_remote_task(task, 1, str(tmp_path), str(tmp_path / "no-such-token"))

    assert returned.done.problem == (
        "the plug-in pytest changed while the study was running: found none, the study began with 7 (abc); finish the "
        "edit, then start the study with --again (run all again) or --keep (keep the finished runs)"
    )


def test_missing_ray_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ResourceError, match=r"pip install 'gossiprec\[ray\]'"):
        require_ray(INSTEAD)


@needs_ray
@pytest.mark.parametrize("listening", [False, True])
def test_a_cluster_that_does_not_answer_is_refused_in_time(tmp_path, monkeypatch, listening):
    monkeypatch.setattr(ray_backend, "REACH_S", 8.0)
    with socket.socket() as other:  # a port at which nobody, or something that is no Ray, listens
        other.bind(("127.0.0.1", 0))
        if listening:
            other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(ResourceError, match=r"cannot reach a Ray cluster at .*ray start --head"):
            next(RayRunner(address, None, silent).carry_out([a_task(tmp_path)]))
