"""Worker processes: the table is the same whoever makes it, and a worker that dies takes nothing with it."""

from __future__ import annotations

import json
import multiprocessing as mp
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_studies import BASE, FANOUT, carried_out, planned, study_file, tables

from gossiprec.study import worker_pool as pool_module
from gossiprec.study.task import StudyTask
from gossiprec.study.worker_pool import TaskQueue, WorkerPool
from gossiprec.version import code_version
from tests.cli.calls import invoke
from tests.slow import slow_except_first

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 120


def silent(hash_, what):
    pass


def task(name, signature="s"):
    return StudyTask(hash=name, scenario={}, path="", signature=signature, code="")


def test_a_resumed_run_has_its_kernels_so_others_that_need_them_may_start():
    queue, (here, there) = TaskQueue([task("a"), task("b")]), mp.Pipe()
    first = queue.take_startable()
    assert queue.take_startable() is None
    there.send("resuming at virtual time 3")
    worker = pool_module._Worker(mp.current_process(), here, first)
    assert list(WorkerPool(2, 1, silent)._hear(worker, queue, {})) == []
    assert queue.take_startable() == task("b")


def command(*arguments):
    return [sys.executable, "-m", "gossiprec", "study", *map(str, arguments)]


def environment():
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def children(pid):
    """Return the workers of a study: its children that run Python's spawned main."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
            line = (path.parent / "cmdline").read_text()
        except OSError:
            continue
        if int(fields[1]) == pid and "spawn_main" in line:
            found.append(int(path.parent.name))
    return sorted(found)


def until(condition, what):
    deadline = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
    return found


@pytest.mark.slow
@pytest.mark.full
def test_two_workers_make_the_table_that_one_process_makes(tmp_path, capsys):
    carried_out(planned(tmp_path), tmp_path / "here")
    out = tmp_path / "out"
    code, told, errors = invoke(capsys, "study", study_file(tmp_path), "--jobs", 2, "--out", out)
    assert code == 0, errors
    assert "6 of 6 runs" in errors
    assert told.split()[:2] == [str(out / "table.parquet"), str(out / "table.csv")]
    assert tables(out) == tables(tmp_path / "here")


@pytest.mark.slow
@pytest.mark.full
def test_a_worker_that_is_killed_loses_nothing(tmp_path):
    """Each of two workers is killed once, at work on its first run."""
    killed = set()

    def kill_first(hash_, what):
        if what == "simulating" and len(killed) < 2:
            victim = next(w.process for w in pool._workers if w.task and w.task.hash == hash_)
            killed.add(victim.pid)
            os.kill(victim.pid, signal.SIGKILL)

    pool = WorkerPool(2, 1, kill_first)
    conduct = carried_out(planned(tmp_path, seeds=1), tmp_path / "out", start=pool.carry_out)
    assert len(killed) == 2
    assert (conduct.outcome.made, conduct.outcome.failed) == (3, {})
    carried_out(planned(tmp_path, seeds=1), tmp_path / "here")
    assert tables(tmp_path / "out") == tables(tmp_path / "here")


@pytest.mark.slow
@pytest.mark.full
def test_a_run_that_kills_every_worker_is_given_up_and_the_others_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(pool_module, "ATTEMPTS", 2)
    plan = planned(tmp_path, seeds=1)
    deadly, killed = plan.simulations[1].hash, []

    def kill(hash_, what):
        if hash_ == deadly and what == "simulating":
            victim = next(w.process for w in pool._workers if w.task and w.task.hash == hash_)
            killed.append(victim.pid)
            os.kill(victim.pid, signal.SIGKILL)

    pool = WorkerPool(1, 1, kill)
    conduct = carried_out(plan, tmp_path / "out", start=pool.carry_out)
    assert len(killed) == 2
    assert conduct.outcome.made == 2
    assert "killed by signal 9 (SIGKILL), 2 times" in conduct.outcome.failed[deadly].problem


@pytest.mark.full
def test_a_worker_with_other_code_refuses(tmp_path):
    plan = planned(tmp_path, axes={}, seeds=1)
    simulation = plan.simulations[0]
    path = str(tmp_path / "run")
    other = StudyTask(simulation.hash, simulation.scenario.resolved(), path, "s", "0123456789abcdef")
    (done,) = WorkerPool(1, 1, silent).carry_out([other])
    assert done.problem.startswith("gossiprec changed while the study was running")
    assert code_version() in done.problem
    assert not Path(path).exists()


def started(tmp_path, out):
    """Start a study that would last for minutes; return it when its first run is at work."""
    base = {**BASE, "protocol": {**BASE["protocol"], "wakes": 600}}
    study = subprocess.Popen(
        command(study_file(tmp_path, base=base, axes=FANOUT), "--jobs", 2, "--out", out),
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    until(lambda: any((out / "runs").glob("*/metrics.csv")) or study.poll() is not None, "no run began")
    assert study.poll() is None, study.communicate()
    return study


@pytest.mark.slow
@pytest.mark.parametrize("by", slow_except_first([signal.SIGINT, signal.SIGTERM]))
@pytest.mark.full
def test_a_signal_ends_a_study_and_its_workers_and_says_how_to_go_on(tmp_path, by):
    out = tmp_path / "out"
    study = started(tmp_path, out)
    try:
        workers = children(study.pid)
        study.send_signal(by)
        _, errors = study.communicate(timeout=DEADLINE_S)
    finally:
        study.kill()
    assert study.returncode == 130
    assert "Traceback" not in errors
    assert "interrupted: 0 of 6 runs are finished" in errors
    assert "run the same command to continue" in errors
    assert len(workers) == 2
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), "a worker went on")
    assert json.loads((out / "study.json").read_text())["status"] == "interrupted"


@pytest.mark.slow
@pytest.mark.full
def test_the_workers_of_a_study_that_is_killed_end_with_it(tmp_path):
    study = started(tmp_path, tmp_path / "out")
    workers = children(study.pid)
    study.kill()
    study.communicate(timeout=DEADLINE_S)
    assert len(workers) == 2
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), "a worker went on")


def test_no_two_tasks_compile_the_same_kernels_at_a_time():
    waiting = TaskQueue([task("a"), task("b"), task("c", "t")])
    first = waiting.take_startable()
    assert first.hash == "a"
    assert waiting.take_startable().hash == "c"
    assert waiting.take_startable() is None
    waiting.note_compiled(first)
    assert waiting.take_startable().hash == "b"
    assert not waiting


def test_a_task_that_is_put_back_comes_next():
    waiting = TaskQueue([task("a"), task("b")])
    first = waiting.take_startable()
    waiting.put_back(first)
    waiting.note_compiled(first)
    assert [waiting.take_startable().hash, waiting.take_startable().hash] == ["a", "b"]


@pytest.mark.parametrize("options", [("--again", "--keep"), ("--jobs", "0")])
def test_options_that_make_no_sense_are_refused(tmp_path, capsys, options):
    code, _, errors = invoke(capsys, "study", study_file(tmp_path), *options)
    assert code == 2
    assert "Traceback" not in errors


def test_a_dry_run_says_what_would_be_run_and_writes_nothing(tmp_path, capsys):
    asked = ("study", study_file(tmp_path), "--dry-run", "--out", tmp_path / "out")
    code, told, errors = invoke(capsys, *asked)
    assert code == 0, errors
    assert "3 combinations, 6 runs" in told
    assert told.count("to run    fanout=") == 6
    assert not (tmp_path / "out").exists()
