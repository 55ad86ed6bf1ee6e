"""Checkpoints with forged integers and right CRCs: the same bytes, or one message; never a signal, never a hang."""

from __future__ import annotations

import os
import shutil
import signal
import zlib

import numpy as np
import pytest

from gossiprec.emulation import resume, simulate
from gossiprec.errors import GossipRecError
from gossiprec.eventlog import open_run
from gossiprec.eventlog.checkpoints import read_checkpoint, write_checkpoint
from tests.emulation.ended_early import checkpoints, ended_early, often, outcome
from tests.emulation.tiny_runs import SINGLE

COALITION = {**SINGLE, "who": "coalition", "fraction": 0.25, "momentum": [0.0, 0.9]}
FEDAVG = {"name": "fedavg", "rounds": 6}
LATE = {"latency": {"law": "exponential", "mean": 0.3}, "loss": 0.1}
AWAY = {"sessions": {"online": 3.0, "offline": 1.0}}
KINDS = {
    "gossip": {"observers": [SINGLE, COALITION]},
    "late": {"network": LATE},
    "updates": {"protocol": {**FEDAVG, "client_model": "none"}, "training": {"batch_size": "full"}},
    "fedavg": {"protocol": FEDAVG},
}
SECONDS = 120


def integers(value, place=()):
    """Yield the place of every array of integers in a state."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from integers(each, (*place, key))
    elif isinstance(value, list | tuple):
        for key, each in enumerate(value):
            yield from integers(each, (*place, key))
    elif isinstance(value, np.ndarray) and value.dtype.kind in "iub" and value.size:
        yield place


def at(state, place):
    for key in place:
        state = state[key]
    return state


def extremes(values):
    """Yield what a forger might write: the largest number of the type everywhere, the smallest at one place."""
    if values.dtype != np.bool_:
        info = np.iinfo(values.dtype)
        yield np.full_like(values, info.max)
        one = values.copy()
        one.flat[-1] = info.min or info.max
        yield one


@pytest.fixture(scope="module", params=KINDS)
def early(request, tmp_path_factory):
    """Return a run that ended early, and what it would have come to."""
    folder = tmp_path_factory.mktemp(request.param)
    scenario = often(executor={"name": "fused"}, **KINDS[request.param])
    run = ended_early(folder / "early", scenario)
    return run.path, outcome(simulate(scenario, out=folder / "whole").path)


def forge(run, place, values):
    """Keep one checkpoint of a run, with other values at a place."""
    newest, *older = checkpoints(open_run(run))
    stamp, state = read_checkpoint(newest, limit_bytes=2**30)
    at(state, place)[...] = values
    for path in older:
        path.unlink()
    newest.unlink()
    with newest.open("wb", buffering=0) as file:
        write_checkpoint(file, stamp, state)


def ending(run, whole):
    """Resume in a fork; return how that ended: ``same``, ``refused``, ``other bytes``, a traceback, or a signal."""
    child = os.fork()
    if child == 0:
        code = 9
        try:
            signal.alarm(SECONDS)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            done = resume(run)
            code = 0 if outcome(done.path) == whole else 3
        except GossipRecError:
            code = 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return {0: "same", 2: "refused", 3: "other bytes"}.get(os.WEXITSTATUS(status), "traceback")


def test_no_forged_integer_ends_in_a_signal_or_in_other_bytes(early, tmp_path):
    run, whole = early
    _, state = read_checkpoint(checkpoints(open_run(run))[0], limit_bytes=2**30)
    wrong, found = [], set()
    for place in integers(state):
        for number, values in enumerate(extremes(at(state, place))):
            copy = shutil.copytree(run, tmp_path / f"{zlib.crc32(str(place).encode())}-{number}")
            forge(copy, place, values)
            end = ending(copy, whole)
            found.add(end)
            if end not in ("same", "refused"):
                wrong.append((place, number, end))
            shutil.rmtree(copy)
    assert wrong == []
    assert "refused" in found
