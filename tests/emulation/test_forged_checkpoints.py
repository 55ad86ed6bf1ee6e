"""Checkpoints with forged integers and right CRCs: an index out of range is one message, and none is a signal."""

from __future__ import annotations

import os
import shutil
import signal
import zlib
from unittest import mock

import numpy as np
import pytest

from gossiprec.base.errors import GossipRecError
from gossiprec.emulation import resume, simulate
from gossiprec.emulation.run.checkpoint_writer import CheckpointWriter
from gossiprec.runs import open_run
from gossiprec.runs.checkpoints import read_checkpoint, write_checkpoint
from tests.emulation.ended_early import checkpoints, ended_early, often, outcome
from tests.emulation.tiny_runs import SINGLE, tiny

COALITION = {**SINGLE, "who": "coalition", "fraction": 0.25, "momentum": [0.0, 0.9]}
GOSSIP = {"name": "rand-gossip", "fanout": 3, "view": {"size": 3}, "wakes": 5}
FEDAVG = {"name": "fedavg", "rounds": 5}
LATE = {"latency": {"law": "exponential", "mean": 0.3}, "loss": 0.1}
MIA = {"name": "entropy-mia", "community_size": 3, "momentum": [0.0, 0.9]}
AIA = {"name": "aia", "community_size": 3, "adversaries": 2, "models": 4, "epochs": 2}
VALIDATION = {**tiny()["dataset"], "split": {"name": "leave_last_k", "test": 2, "validation": 2}}
PERS = {"name": "pers-gossip", "view": {"size": 3}, "wakes": 5}
KINDS = {
    "gossip": {"protocol": GOSSIP, "observers": [SINGLE, COALITION]},
    "late": {"protocol": GOSSIP, "network": LATE},
    "updates": {"protocol": {**FEDAVG, "client_model": "none"}, "training": {"batch_size": "full"}},
    "fedavg": {"protocol": FEDAVG},
    "pers-gossip": {"protocol": PERS, "dataset": VALIDATION, "observers": [SINGLE, {**MIA, "who": "single"}]},
    "attacks": {"protocol": FEDAVG, "observers": [AIA, {**MIA, "who": "coordinator"}]},
}
SECONDS = 120
FUZZED = {
    "late": ("planner", "carrier", "arena", "attacks"),
    "updates": ("planner", "arena", "attacks"),
    "fedavg": ("planner", "arena", "attacks"),
    "pers-gossip": ("planner", "carrier", "attacks"),
    "attacks": ("attacks",),
}
"""The parts of a state that are forged, if not all: the other parts are as in other kinds of runs."""

INDICES = {
    "planner": ("nodes", "versions", "free", "messages"),
    "arena": ("touched", "items"),
    "carrier": ("sender",),
    "attacks": ("slot_at",),
}
"""The arrays that compiled loops use as indices, by part of the state."""


def integers(value, place=()):
    """Yield the place of all integers and arrays of integers in a state; of the best reports, those of one ranking."""
    if isinstance(value, dict):
        for key, each in list(value.items())[: 1 if place == ("record", "best") else None]:
            yield from integers(each, (*place, key))
    elif isinstance(value, list | tuple):
        for key, each in enumerate(value):
            yield from integers(each, (*place, key))
    elif type(value) is int or (isinstance(value, np.ndarray) and value.dtype.kind in "iub" and value.size):
        yield place


def at(state, place):
    for key in place:
        state = state[key]
    return state


def extremes(values):
    """Yield what a forger might write: the largest number of the type everywhere, the smallest at one place."""
    if type(values) is int:
        yield from (2**63 - 1, -(2**63))
    elif values.dtype != np.bool_:
        info = np.iinfo(values.dtype)
        yield np.full_like(values, info.max)
        one = values.copy()
        one.flat[-1] = info.min or info.max
        yield one


@pytest.fixture(scope="module", params=KINDS)
def early(request, tmp_path_factory):
    """Return a run that ended early, what it would have come to, and its kind."""
    folder = tmp_path_factory.mktemp(request.param)
    scenario = often(executor={"name": "fused"}, **KINDS[request.param])
    run = ended_early(folder / "early", scenario)
    whole = outcome(simulate(scenario, out=folder / "whole").path)
    copy = shutil.copytree(run.path, folder / "copy")
    assert outcome(resume(copy).path) == whole  # forks find imported and loaded what they need
    return run.path, whole, request.param


def forge(run, place, values):
    """Keep one checkpoint of a run, with other values at a place."""
    newest, *older = checkpoints(open_run(run))
    stamp, state = read_checkpoint(newest, limit_bytes=2**30)
    at(state, place[:-1])[place[-1]] = values
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
            with mock.patch.object(CheckpointWriter, "start_if_due"):  # what it would write is not looked at
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


def endings(early, tmp_path, *, indices):
    """Yield how a run ends after each forgery of an index table, or of another integer or array of integers."""
    run, whole, kind = early
    parts = FUZZED.get(kind)
    _, state = read_checkpoint(checkpoints(open_run(run))[0], limit_bytes=2**30)
    for place in integers({part: state[part] for part in parts or state}):
        if ({*place} & {*INDICES.get(place[0], ())} != set()) != indices:
            continue
        if type(at(state, place)) is int and kind in ("late", "updates", "fedavg"):
            continue  # the same as in gossip
        for number, values in enumerate(extremes(at(state, place))):
            copy = shutil.copytree(run, tmp_path / f"{zlib.crc32(str(place).encode())}-{number}")
            forge(copy, place, values)
            yield place, number, ending(copy, whole)
            shutil.rmtree(copy)


@pytest.mark.slow
@pytest.mark.cases(1)
def test_an_index_out_of_range_is_refused(early, tmp_path):
    found = [*endings(early, tmp_path, indices=True)]
    assert [each for each in found if each[2] != "refused"] == []


@pytest.mark.slow
@pytest.mark.full
def test_no_forged_integer_ends_in_a_signal(early, tmp_path):
    found = [*endings(early, tmp_path, indices=False)]
    assert [each for each in found if each[2].startswith("SIG")] == []
