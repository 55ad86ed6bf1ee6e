"""The scorer: a run's formula, and nothing of anybody."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gossiprec.compute.executors import EXECUTORS
from gossiprec.compute.plan.program import Program
from gossiprec.compute.scorer import Scorer
from gossiprec.models import MODELS
from gossiprec.models.base.kernel_interface import ScoreQuery
from tests.compute.test_executors import supporting
from tests.compute.worlds import World

every_executor = pytest.mark.parametrize("name", list(EXECUTORS))
every_model = pytest.mark.parametrize("model", list(MODELS))


def arrays_in(thing, seen):
    """Yield every array that can be reached from an object by its attributes."""
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        yield thing
    elif isinstance(thing, dict | list | tuple):
        for part in thing.values() if isinstance(thing, dict) else thing:
            yield from arrays_in(part, seen)
    elif type(thing).__module__.startswith("gossiprec"):
        yield from arrays_in(getattr(thing, "__dict__", {}), seen)


@every_model
@every_executor
def test_no_row_and_no_data_of_a_node_can_be_reached_from_it(name, model):
    executor = supporting(name, World(model=model))
    arena, feed = executor.work.arena, executor.work.feed

    held, of_run = list(arrays_in(Scorer(executor), set())), list(arrays_in(executor, set()))

    secrets = [arena.rows, arena.first, arena.second, feed.member, *arrays_in(feed, set())]
    assert not [one for one in held for other in secrets if np.shares_memory(one, other)]
    assert [one for one in of_run for other in secrets if np.shares_memory(one, other)]
    assert not np.concatenate(
        [part.ravel() for part in held if part.dtype == np.uint8] or [np.zeros(1)]
    ).any()


@every_model
@every_executor
def test_it_scores_as_the_runs_executor_does(name, model):
    executor = supporting(name, World(model=model))
    layout, rows, items = (
        executor.work.layout,
        executor.work.arena.rows,
        np.tile(np.arange(12, dtype=np.int32), 2),
    )
    query = (layout, rows, np.array([3, 1]), np.zeros(2, np.int64), np.array([0, 12, 24]), items)
    context = {column: items[::-1].copy() for column in executor.work.feed.context_columns}

    assert (
        Scorer(executor).score(ScoreQuery(*query, context)).tobytes()
        == executor.score(ScoreQuery(*query, context)).tobytes()
    )


@every_model
@every_executor
def test_it_trains_as_a_node_with_these_data_would_and_touches_nobody(name, model):
    """Node 0 of the run draws by the run's seed; trained apart by the same seed it ends at the same model."""
    executor = supporting(name, World(model=model))
    work = executor.work
    before = work.arena.rows.copy()

    found = Scorer(executor).train_like_node(work.feed.for_user(0), before[0], updates=2, seed=work.seed)

    assert work.arena.rows.tobytes() == before.tobytes()
    assert not work.arena.steps.any()
    for update in range(2):
        executor.run(
            Program.of_updates(np.zeros(1, np.int32), np.array([update], np.int32)), np.zeros(1, np.int64)
        )
    assert found.tobytes() == work.arena.rows[0].tobytes() != before[0].tobytes()


@every_executor
def test_noise_and_clipping_of_the_run_are_not_those_of_models_trained_apart(name):
    world = World(clip_norm=(0.1,), noise_multiplier=(1.0,), drift=(1.0,))
    treated, plain = (
        supporting(name, w) for w in (world, replace(world, clip_norm=(), noise_multiplier=(), drift=()))
    )
    start = plain.work.arena.rows[0]

    one, other = (
        Scorer(e).train_like_node(e.work.feed.for_user(0), start, updates=1, seed=3) for e in (treated, plain)
    )

    assert one.tobytes() == other.tobytes()
