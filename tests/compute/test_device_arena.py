"""An arena on a device against one on the host: the same rows, whoever writes them and whoever reads them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gossiprec.base.errors import ResourceError
from gossiprec.compute.executors import batched
from gossiprec.compute.executors.batched import BatchedExecutor
from gossiprec.compute.executors.tensors import HostRows
from gossiprec.compute.plan.program import PoolDeliveries, Program
from gossiprec.compute.store import device_arena
from gossiprec.compute.store.arena import RESERVE, Arena
from gossiprec.compute.store.device_arena import DeviceArena
from tests.compute.worlds import make_model, up_to_date

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
LAYOUT = make_model("gmf", dim=2).layout(5)
N_NODES = 4
TRAINING = np.array([0, 2, 3])


def both(**about):
    """Return an arena on the host and one on a device, with nothing but zeros."""
    about = {"n_nodes": N_NODES, "capacity": 2 * N_NODES, "moments": True, **about}
    return Arena(LAYOUT, **about), DeviceArena(LAYOUT, **about, device=DEVICE)


def values(seed, n):
    return np.random.default_rng(seed).normal(size=(n, LAYOUT.row_size)).astype(np.float32)


def dealt(rng, capacity):
    """Return the first rows and the last one in any order: few, so that what one step writes another reads."""
    return rng.permutation(np.append(np.arange(5), capacity - 1))


def merging(rng, capacity):
    """Return a program in which two nodes merge up to three versions each into rows of nobody else."""
    rows, n_merges = dealt(rng, capacity).astype(np.int32), rng.integers(0, 4, 2)
    offsets = np.concatenate([[0], np.cumsum(n_merges)])
    return Program(
        node=np.array([0, 1], np.int32),
        source=rows[2:4],
        target=rows[:2],
        update=np.full(2, -1, np.int32),
        merge_offsets=offsets,
        merge_row=rng.choice(rows[2:], offsets[-1]).astype(np.int32),
        merge_keep=rng.choice(np.array([0, 0.25, 1], np.float32), offsets[-1]),
        merge_message=np.arange(offsets[-1], dtype=np.int32),
    )


def train(arena, nodes, targets, seed):
    """Change rows and moments as training does, in the tensors of an arena."""
    stored = arena if isinstance(arena, DeviceArena) else HostRows(arena, DEVICE)
    step = torch.from_numpy(values(seed, len(nodes)))[:, : LAYOUT.size].to(DEVICE)
    rows, moments = stored.take(targets), stored.take_moments(nodes)
    rows[:, : LAYOUT.size] += step
    for part in moments:
        part[:, : LAYOUT.size] += 2 * step
    stored.put(targets, rows, None)
    stored.put_moments(nodes, moments)
    arena.steps[nodes] += 1


def kept(arena, needed):
    """Return what a checkpoint would hold, in arrays of its own, as the process that writes it sees it."""
    state = arena.state(needed)
    rows = np.zeros_like(state["rows"].array)
    rows[needed] = state["rows"].array[needed]
    moments = {name: state[name].copy() for name in ("first", "second")}
    return {"needed": needed, "rows": rows, **moments, "steps": state["steps"].copy()}


def write(what, rng, arena):
    """Change an arena in one way or another."""
    seed, capacity = int(rng.integers(2**32)), len(arena.rows)
    some = dealt(rng, capacity)[: rng.integers(1, 6)]
    if what == "store":
        arena.store(some, values(seed, len(some)), None)
    if what == "store merged":
        arena.store_merged(int(some[0]), int(some[-1]), values(seed, 1)[0, LAYOUT.merged], None)
    if what == "train":
        train(arena, rng.permutation(TRAINING)[:2], dealt(rng, capacity)[:2], seed)
    if what == "merge":
        arena.merge(merging(rng, capacity), np.arange(2), 0)
    if what == "grow":
        arena.grow(capacity + 1)
    if what == "outgrow" and capacity < N_NODES * RESERVE:
        arena.grow(2 * N_NODES * RESERVE + 1)
    if what == "go on":
        state, others = kept(arena, np.sort(some)), np.setdiff1d(np.arange(capacity), some)
        train(arena, TRAINING, np.arange(3), seed)
        arena.restore(state)
        arena.store(others, values(seed, len(others)), None)


def read(what, rng, arena):
    """Return what somebody on the host finds who reads some rows."""
    capacity = len(arena.rows)
    some = dealt(rng, capacity)[: rng.integers(1, 6)]
    current, one, program = np.arange(capacity), np.ones(len(some)), merging(rng, capacity)
    received = program.merge_row[: program.merge_offsets[1]]
    pool_deliveries = PoolDeliveries(*(some.astype(np.int32) for _ in range(4)))
    readers = {
        "load": lambda: arena.load(some),
        "models": lambda: arena.models(current, some),
        "scoring_view": lambda: arena.scoring_view(current, some).rows[some],
        "inbox": lambda: arena.inbox(some, one, 1.0).rows[some],
        "merged": lambda: arena.merged_columns(int(some[0])),
        "rows_of_tasks": lambda: arena.rows_of_tasks(program, np.zeros(1, int))[
            [program.source[0], *received]
        ],
        "iter_pool_rows": lambda: next(
            rows[some[1:]] for rows, *_ in arena.iter_pool_rows(pool_deliveries, 1, len(some))
        ),
        "checkpoint": lambda: np.concatenate([part.ravel() for part in kept(arena, np.sort(some)).values()]),
    }
    return readers[what]().tobytes()


WRITES = ["store", "store merged", "train", "merge", "grow", "outgrow", "go on"]
READS = ["load", "models", "scoring_view", "inbox", "merged", "rows_of_tasks", "iter_pool_rows", "checkpoint"]


@pytest.mark.slow
@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.sampled_from(WRITES + READS), st.integers(0, 2**32 - 1)), min_size=4, max_size=16)
)
@pytest.mark.full
def test_whatever_is_done_to_it_an_arena_on_a_device_holds_what_one_on_the_host_does(steps):
    arenas = both()
    for what, seed in steps:
        if what in READS:
            host, device = (read(what, np.random.default_rng(seed), arena) for arena in arenas)
            assert device == host, what
        else:
            for arena in arenas:
                write(what, np.random.default_rng(seed), arena)

    host, device = (up_to_date(arena) for arena in arenas)
    for name in ("rows", "first", "second", "steps"):
        assert getattr(device, name).tobytes() == getattr(host, name).tobytes(), name


@pytest.mark.parametrize("what", READS)
def test_whoever_reads_finds_what_was_trained_last(what):
    for seed in range(20):
        arenas = both()
        for arena, low in itertools.product(arenas, range(0, 2 * N_NODES, 2)):
            train(arena, TRAINING[:2], np.array([low, low + 1]), seed)
        host, device = (read(what, np.random.default_rng(seed), arena) for arena in arenas)
        assert device == host


def test_rows_are_copied_once_and_those_alone_that_are_newer_elsewhere():
    _, arena = both()
    train(arena, np.array([0, 1]), np.array([2, 5]), seed=1)
    assert (arena.n_brought, arena.n_fetched) == (2 + 2 * 2, 0)

    arena.load(np.array([2, 5, 5, 6]))
    arena.load(np.array([5, 2]))
    assert arena.n_fetched == 2

    arena.store(np.array([5]), values(1, 1), None)
    arena.take(np.array([2, 5, 2]))
    assert (arena.n_brought, arena.n_fetched) == (6 + 1, 2)


def test_what_is_written_on_the_device_is_there_without_a_copy():
    _, arena = both()
    arena.put(np.array([6, 1]), torch.from_numpy(values(2, 2)).to(DEVICE))

    assert arena.take(np.array([1, 6])).cpu().numpy().tobytes() == values(2, 2)[::-1].tobytes()
    assert (arena.n_brought, arena.n_fetched) == (0, 0)


@pytest.mark.parametrize("rows_at_once", [1, 3])
def test_a_copy_in_pieces_is_the_same(rows_at_once, monkeypatch):
    monkeypatch.setattr(device_arena, "AT_ONCE", rows_at_once * 4 * LAYOUT.row_size)
    _, arena = both()
    written, handles = values(3, 7), np.array([6, 1, 0, 5, 2, 7, 3])
    arena.store(handles, written, None)

    assert arena.take(handles).cpu().numpy().tobytes() == written.tobytes()
    arena.put(handles, torch.from_numpy(2 * written).to(DEVICE))
    assert arena.load(handles).tobytes() == (2 * written).tobytes()


def test_room_on_the_device_is_taken_up_to_the_last_row_needed_there():
    _, arena = both(capacity=10**6)
    arena.put(np.array([2]), torch.ones(1, LAYOUT.row_size, device=DEVICE))
    arena.put(np.array([9]), torch.ones(1, LAYOUT.row_size, device=DEVICE))

    assert len(arena._both._tensor) == 10
    assert arena.load(np.array([2, 9, 3]))[:, 0].tolist() == [1, 1, 0]


def test_a_device_without_room_is_told_with_what_to_change(monkeypatch):
    def full(*shape, device):
        raise torch.OutOfMemoryError

    _, arena = both()
    monkeypatch.setattr(torch, "zeros", full)

    with pytest.raises(
        ResourceError, match=r"executor.device: .* not enough memory .* set it to cpu, or lower"
    ):
        arena.take(np.array([3]))


def test_half_floats_and_shards_keep_models_on_the_host(monkeypatch):
    monkeypatch.setattr(batched, "choose_device", lambda name: torch.device("meta"))
    kinds = [
        type(BatchedExecutor.make_arena(
            LAYOUT, n_nodes=2, moments=False, storage=storage, divided=divided, device="cuda"
        ))
        for storage, divided in [("float32", False), ("float32", True), ("float16", False)]
    ]  # fmt: skip

    assert kinds == [DeviceArena, Arena, Arena]
