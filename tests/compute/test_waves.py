from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gossiprec.base.machine import ThreadPool
from gossiprec.compute.waves import DeliveryHook, WaveOptions, WaveRunner
from gossiprec.testing.tapes import make_test_planner, make_test_protocol, record_tape, waves


class FakeExecutor:
    """Writes down which tasks it ran, in which call."""

    parallel, threads_internally = True, False

    def __init__(self):
        rows = np.zeros((1, 1), np.float32)
        self.store = SimpleNamespace(
            iter_pool_rows=lambda *pool_deliveries: [(rows, *pool_deliveries)],
            rows_of_tasks=lambda program, tasks: rows,
        )
        self.work = SimpleNamespace(arena=None, node_settings=SimpleNamespace(update_clip=np.zeros(1)))
        self.calls = []

    def run(self, program, tasks):
        self.calls.append((threading.get_ident(), tasks.tolist()))


class Notebook(DeliveryHook):
    """Writes down what it is shown."""

    def __init__(self, executor):
        self._executor = executor
        self.observed = []
        self.sighted = []
        self.run_before = []  # of what is observed
        self.ran_at_sight = []  # with the number of each pool delivery

    def observe(self, rows, program, tasks):
        self.observed += tasks.tolist()
        self.run_before += [t for _, ran in self._executor.calls for t in ran if t in tasks]

    def observe_pools(self, rows, pool_deliveries, first, last):
        self.sighted += range(first, last)
        ran = {t for _, tasks in list(self._executor.calls) for t in tasks}
        self.ran_at_sight += [(number, ran) for number in range(first, last)]


@pytest.fixture
def plan():
    control = make_test_protocol("rand-gossip", 8, wakes=4)
    segments, inline = record_tape(control)
    return make_test_planner(control, inline=inline, pools=[{0, 1, 2}]).plan(segments[0])


@pytest.fixture(params=[1, 2, 3])
def threads(request):
    return ThreadPool(request.param)


@pytest.mark.parametrize("wave_size", [None, 1, 3])
def test_every_task_and_pool_delivery_is_carried_out_once_wave_after_wave(plan, threads, wave_size):
    executor = FakeExecutor()
    notebook = Notebook(executor)
    WaveRunner(executor, [notebook], WaveOptions(threads=threads, wave_size=wave_size)).run(plan)

    ran = [t for _, tasks in executor.calls for t in tasks]
    wave_of = {int(t): number for number, (tasks, _) in enumerate(waves(plan)) for t in tasks}
    assert sorted(ran) == list(range(len(plan.order)))
    assert [wave_of[t] for t in ran] == sorted(wave_of.values())
    assert sorted(notebook.observed) == sorted(ran)
    assert sorted(notebook.sighted) == list(range(len(plan.pool_deliveries.row)))


def test_what_is_seen_is_shown_where_nothing_is_run(plan, threads):
    executor = FakeExecutor()
    notebook = Notebook(executor)
    idle = replace(plan, order=plan.order[:0], task_offsets=np.zeros_like(plan.task_offsets))
    WaveRunner(executor, [notebook], WaveOptions(threads=threads, wave_size=None)).run(idle)

    assert executor.calls == []
    assert sorted(notebook.sighted) == list(range(len(plan.pool_deliveries.row)))


def test_watchers_see_before_the_executor_overwrites(plan, threads):
    """Tasks of the wave itself may have run: they write no row that is shown in it (tests/properties/test_plans.py)."""
    executor = FakeExecutor()
    notebook = Notebook(executor)
    WaveRunner(executor, [notebook], WaveOptions(threads=threads, wave_size=None)).run(plan)

    assert notebook.run_before == []
    for number, ran in notebook.ran_at_sight:
        wave = next(w for w, (_, seen) in enumerate(waves(plan)) if number in seen)
        earlier, later = (
            {int(t) for tasks, _ in some for t in tasks}
            for some in (waves(plan)[:wave], waves(plan)[wave + 1 :])
        )
        assert earlier <= ran
        assert not ran & later


@pytest.mark.parametrize("divides", [False, True])
def test_a_wave_calls_other_threads_once_for_what_is_seen_and_what_is_run(plan, divides):
    class Counted(ThreadPool):
        calls = 0

        def run(self, job, parts=None):
            self.calls += 1
            super().run(job, parts)

    executor, threads = FakeExecutor(), Counted(2)
    executor.threads_internally = divides
    notebook = Notebook(executor)
    WaveRunner(executor, [notebook], WaveOptions(threads=threads, wave_size=None)).run(plan)

    apart = sum(1 for tasks, seen in waves(plan) if len(tasks) and len(seen)) if divides else 0
    assert threads.calls == len(waves(plan)) + apart > 1
    assert sorted(notebook.sighted) == list(range(len(plan.pool_deliveries.row)))


@pytest.mark.parametrize("wave_size", [1, 3])
def test_no_call_holds_more_tasks_than_the_wave_size(plan, threads, wave_size):
    executor = FakeExecutor()
    WaveRunner(executor, [], WaveOptions(threads=threads, wave_size=wave_size)).run(plan)

    assert max(len(tasks) for _, tasks in executor.calls) <= wave_size


def test_an_executor_that_is_not_parallel_is_called_by_one_thread(plan):
    executor = FakeExecutor()
    executor.parallel = False
    WaveRunner(executor, [], WaveOptions(threads=ThreadPool(3), wave_size=None)).run(plan)

    assert {thread for thread, _ in executor.calls} == {threading.get_ident()}


def test_an_executor_that_divides_its_work_is_handed_whole_waves(plan):
    executor = FakeExecutor()
    executor.threads_internally = True
    WaveRunner(executor, [], WaveOptions(threads=ThreadPool(3), wave_size=None)).run(plan)

    due = [(threading.get_ident(), tasks.tolist()) for tasks, _ in waves(plan)]
    assert executor.calls == due


def test_a_failure_in_any_thread_stops_the_run(plan):
    class Broken(FakeExecutor):
        def run(self, program, tasks):
            if threading.current_thread() is not threading.main_thread():
                raise ArithmeticError("broken")

    with pytest.raises(ArithmeticError, match="broken"):
        WaveRunner(Broken(), [], WaveOptions(threads=ThreadPool(2), wave_size=None)).run(plan)
