"""Who writes now: locks that end with their process, on file systems with and without locks."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
import warnings

import pytest

from gossiprec.base.errors import LogError, ResourceError
from gossiprec.runs import lock as lock_module
from gossiprec.runs.lock import Lock, RunLock, exclusive_writer, is_locked

pytestmark = pytest.mark.filterwarnings("ignore:this file system does not support locks:RuntimeWarning")

HOLDING = """
import errno, os, sys, time
from pathlib import Path
from gossiprec.runs import lock

def no_locks(descriptor, *, blocking):
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

if sys.argv[2] == "without":
    lock.lock_descriptor = no_locks
held = lock.RunLock(Path(sys.argv[1]))
if len(sys.argv) > 3 and os.fork() == 0:
    time.sleep(float(sys.argv[3]))
    os._exit(0)
print("held", flush=True)
time.sleep(600)
"""


def no_locks(descriptor, *, blocking):
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


@pytest.fixture(params=["with", "without"])
def locks(request, monkeypatch):
    """Say whether the file system has locks; if not, it answers as such file systems do."""
    if request.param == "without":
        monkeypatch.setattr(lock_module, "lock_descriptor", no_locks)
    monkeypatch.setattr(lock_module, "TIMEOUT_S", 0.1)
    return request.param


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "events.mplog"
    path.write_bytes(b"log")
    return path


@pytest.fixture
def holder(log, locks):
    """Return a function that starts another process that holds the lock."""
    started = []

    def hold(*more):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDING, log, locks, *more], stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield hold
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_one_writer_at_a_time_and_whoever_looks_sees_it(log, locks):
    assert not is_locked(log)
    first = RunLock(log)
    assert is_locked(log)
    with pytest.raises(LogError, match="is in use by a running process"):
        RunLock(log)
    first.close()
    first.close()
    assert not is_locked(log)
    RunLock(log).close()
    assert log.read_bytes() == b"log"
    assert os.listdir(log.parent) == [log.name]


def test_the_lock_of_a_killed_process_is_gone(log, holder):
    process = holder()
    assert is_locked(log)
    with pytest.raises(LogError, match="a running process"):
        RunLock(log)
    process.kill()
    process.wait()
    assert not is_locked(log)
    RunLock(log).close()


@pytest.mark.slow
@pytest.mark.parametrize("locks", ["with"], indirect=True)
def test_a_child_keeps_the_lock_of_a_parent_that_was_killed_until_it_ends(log, holder, monkeypatch):
    process = holder("1.5")
    process.kill()
    process.wait()
    assert is_locked(log)
    monkeypatch.setattr(lock_module, "TIMEOUT_S", 30.0)
    RunLock(log).close()


def test_a_forked_child_that_closes_leaves_its_parents_lock_in_force(log, locks):
    held = RunLock(log)
    child = os.fork()
    if child == 0:
        held.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert is_locked(log)
    held.close()
    assert not is_locked(log)


def test_who_looks_does_not_take_another_who_does_for_a_writer(log, locks):
    looking = Lock(log, LogError("held"), 0.0, looks=True)
    threading.Timer(0.05, looking.close).start()
    assert not is_locked(log)
    assert os.listdir(log.parent) == [log.name]


def test_a_writer_waits_for_one_who_looks(log, locks, monkeypatch):
    monkeypatch.setattr(lock_module, "TIMEOUT_S", 30.0)
    looking = RunLock(log)
    threading.Timer(0.3, looking.close).start()
    begin = time.monotonic()
    RunLock(log).close()
    assert time.monotonic() - begin > 0.2


def test_what_is_not_there_is_not_written_and_not_made(tmp_path, locks):
    assert not is_locked(tmp_path / "none" / "events.mplog")
    assert not is_locked(tmp_path / "events.mplog")
    assert os.listdir(tmp_path) == []


def test_without_locks_the_marker_is_said_and_that_of_another_machine_is_respected(log, monkeypatch):
    monkeypatch.setattr(lock_module, "lock_descriptor", no_locks)
    monkeypatch.setattr(lock_module, "TIMEOUT_S", 0.1)
    with pytest.warns(
        RuntimeWarning,
        match=r"this file system does not support locks; .*events.mplog.held names the process",
    ):
        RunLock(log).close()
    (log.parent / "events.mplog.held").write_text("4242\nanother-machine\n")
    assert is_locked(log)
    with (
        pytest.raises(LogError),
        pytest.warns(RuntimeWarning, match="on another machine and has ended, delete the file"),
    ):
        RunLock(log)
    (log.parent / "events.mplog.held").unlink()
    RunLock(log).close()


def test_with_locks_nothing_is_warned_of(log):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RunLock(log).close()


def test_looking_where_nobody_writes_makes_no_marker(log, locks):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not is_locked(log)


def test_another_failure_is_not_taken_for_a_lack_of_locks(log, monkeypatch):
    def broken(descriptor, *, blocking):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(lock_module, "lock_descriptor", broken)
    with pytest.raises(ResourceError, match="Input/output error"):
        RunLock(log)


def test_one_writer_in_a_folder(tmp_path, locks):
    with exclusive_writer(tmp_path, what="study", patience_s=0.1):
        refused = pytest.raises(ResourceError, match=r"another study is running in .* choose another --out")
        with refused, exclusive_writer(tmp_path, what="study", patience_s=0.1):
            pass
    with exclusive_writer(tmp_path, what="study", patience_s=0.1):
        pass
    assert os.listdir(tmp_path) == [".lock"]
