"""What every registered executor keeps to, beyond agreement (tests/compute/test_executors.py)."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from gossiprec.compute.executors import EXECUTORS, Executor
from gossiprec.models.base.kernel_interface import ScoreQuery
from tests.compute.worlds import EVERY, World, make_executor, run_waves, same


@pytest.fixture(params=EVERY)
def name(request):
    return request.param


@pytest.fixture
def executor(name):
    return make_executor(name, World().workload())


def test_it_is_an_executor_that_says_whether_threads_may_share_it(executor):
    assert isinstance(executor, Executor)
    assert isinstance(executor.parallel, bool)


def test_it_takes_a_workload_and_a_device(executor):
    assert list(inspect.signature(type(executor)).parameters)[:2] == ["work", "device"]


def test_warming_up_changes_nothing(executor):
    arena = executor.work.arena
    before = [part.tobytes() for part in (arena.rows, arena.first, arena.second, arena.steps)]

    executor.warm_up()

    assert [part.tobytes() for part in (arena.rows, arena.first, arena.second, arena.steps)] == before


def test_running_no_task_changes_nothing(executor):
    before = executor.work.arena.rows.tobytes()

    executor.run(World().waves().program, np.zeros(0, np.int64))

    assert executor.work.arena.rows.tobytes() == before


def test_scoring_changes_no_model(executor):
    work = executor.work
    before = work.arena.rows.tobytes()
    items = np.arange(5, dtype=np.int32)

    executor.score(
        ScoreQuery(work.layout, work.arena.rows, np.array([0]), np.array([0]), np.array([0, 5]), items)
    )

    assert work.arena.rows.tobytes() == before


def test_the_same_work_gives_the_same_bytes(name, executor):
    other = make_executor(next(n for n in EXECUTORS if EXECUTORS[n] is type(executor)), World().workload())

    found, expected = (run_waves(e, World().waves()) for e in (executor, other))

    assert same(name, found.rows.tobytes(), expected.rows.tobytes())
    assert found.rows.tobytes() != World().workload().arena.rows.tobytes()
