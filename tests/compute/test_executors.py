from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings

from gossiprec.base.errors import ResourceError, ScenarioError
from gossiprec.base.machine import ThreadPool
from gossiprec.base.ragged import Ragged
from gossiprec.compute.executors import EXECUTORS
from gossiprec.compute.local_update import TrainingSettings
from gossiprec.compute.plan.program import Program
from gossiprec.compute.store import ScoringView
from gossiprec.models import MODELS
from gossiprec.models.base.kernel_interface import ScoreQuery
from gossiprec.models.base.sequence_model import SequenceModel
from gossiprec.models.feeds import PointwiseFeed
from tests.compute.worlds import (
    EVERY,
    ON_CUDA,
    WavesBuilder,
    World,
    distance,
    make_executor,
    run_waves,
    same,
    up_to_date,
    worlds,
)
from tests.slow import slow_except_first

TOLERANCE = 1e-5
"""Of the Frobenius norm of all rows, and of all moments.

Rounding is 6e-8. A gradient is a sum of up to 114 terms, so its error is within 114 * 6e-8 = 7e-6 of its
terms and typically within 6e-7; the worlds keep Adam from enlarging it (see `worlds`). Measured over 300
worlds: 7e-7 at most.
"""

WITH_NEGATIVES = [name for name in MODELS if not issubclass(MODELS[name], SequenceModel)]
"""Those of sequences tell a positive from all items, and what drops out is drawn in each update."""
FAST = [name for name in EVERY if name != "reference"]
ADAM, SGD = TrainingSettings(), TrainingSettings(optimizer="sgd", learning_rate=0.1)
FULL_BATCH = TrainingSettings(batch_size=None)


def supporting(name, world):
    """Return the executor, or skip the test if it has no kernels for the model."""
    try:
        return make_executor(name, world.workload())
    except ScenarioError as error:
        pytest.skip(str(error))


def able(names, world):
    """Yield the names of executors that have kernels for all that the world asks for, each with its executor."""
    for name in names:
        with suppress(ScenarioError):
            yield name, make_executor(name, world.workload())


def furthest(found, expected):
    """Return the largest relative distance of rows and moments."""
    return max(
        distance(getattr(found, part), getattr(expected, part)) for part in ("rows", "first", "second")
    )


def tolerance(name):
    """Return the distance that is allowed; torch's fused Adam computes ``1 - 0.999`` on CUDA in float32, 1.3e-5 off."""
    return 5 * TOLERANCE if name in ON_CUDA else TOLERANCE


def assert_same_state(found, expected, within=TOLERANCE):
    assert found.steps.tolist() == expected.steps.tolist()
    assert furthest(found, expected) < within


def own_error(world, expected):
    """Return how far the reference comes from itself if it begins a rounding apart: at kinks and small norms, far."""
    work = world.workload()
    up = np.random.default_rng(0).random(work.arena.rows.shape) < 0.5
    work.arena.rows *= np.where(up, np.float32(1 + 6e-8), np.float32(1 - 6e-8))
    return furthest(run_waves(make_executor("reference", work), world.waves()), expected)


def state_bytes(arena):
    up_to_date(arena)
    return [part.tobytes() for part in (arena.rows, arena.first, arena.second, arena.steps)]


def one_wave(n_nodes, *tasks):
    """Return one wave; a task is (node, target, merged rows, their keeps, whether it trains)."""
    builder = WavesBuilder(n_nodes)
    for node, target, merges, keep, trains in tasks:
        builder.add(node, target, merges, keep, trains=trains)
    builder.end_wave()
    return builder.waves()


def everyone_trains(n_nodes, times=1):
    builder = WavesBuilder(n_nodes)
    for _ in range(times):
        for node in range(n_nodes):
            builder.add(node, node)
        builder.end_wave()
    return builder.waves()


@pytest.mark.slow
@pytest.mark.parametrize("model", list(MODELS))
@pytest.mark.cases(100)
def test_executors_agree_with_the_reference_on_any_mix_of_treatments(model):
    @settings(max_examples=settings.default.max_examples // 10, deadline=None, derandomize=True)
    @given(worlds(model))
    def agree(world):
        expected = run_waves(make_executor("reference", world.workload()), world.waves())
        finite = np.isfinite(expected.rows).all()
        assume(
            finite or not world.noise_multiplier
        )  # under much noise layers can blow up, rounding with them
        for name, executor in able(FAST, world):
            found = run_waves(executor, world.waves())
            assert found.steps.tolist() == expected.steps.tolist()
            apart = furthest(found, expected)
            assert apart < tolerance(name) or apart < 3 * own_error(world, expected)

    assert [*able(FAST, World(model=model))]
    agree()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", FAST)
def test_executor_agrees_with_the_reference_at_the_default_epsilon(name, seed):
    world = World(seed=seed, training=ADAM)
    expected = run_waves(make_executor("reference", world.workload()), world.waves())

    found = run_waves(supporting(name, world), world.waves())
    assert_same_state(found, expected, within=tolerance(name))


@pytest.mark.parametrize("user_table", [False, True])
@pytest.mark.parametrize("model", list(MODELS))
@pytest.mark.parametrize("name", FAST)
def test_scores_agree_with_the_reference(name, model, user_table):
    world = World(model=model, user_table=user_table)
    executor = supporting(name, world)
    layout, rows, row = executor.work.layout, executor.work.arena.rows, np.array([3, 0, 3, 1])
    items = (np.arange(46) * 7 % world.n_items).astype(np.int32)
    query = (layout, rows, row, layout.user_index(row), np.array([0, 5, 5, 6, 46]), items)

    found = executor.score(ScoreQuery(*query))

    expected = make_executor("reference", world.workload()).score(ScoreQuery(*query))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)  # a sum of numbers near 1 may be near 0


@pytest.mark.parametrize("n_kept", [12, 3])
@pytest.mark.parametrize("name", EVERY)
def test_scores_are_those_of_the_formula_for_whole_and_partial_rows(name, n_kept):
    executor = supporting(name, World(n_items=12))
    layout = executor.work.model.layout(n_kept)
    rows = np.random.default_rng(1).normal(size=(3, layout.row_size)).astype(np.float32)
    user, items = rows[2, layout.users], rows[2, layout.items].reshape(n_kept, -1)
    weight, bias = rows[2, layout.shared][:-1], rows[2, layout.shared][-1]

    found = executor.score(ScoreQuery(layout, rows, *everything(2, n_kept)))

    np.testing.assert_allclose(found, items @ (user * weight) + bias, rtol=1e-4, atol=1e-5)


def everything(row, n_items):
    """Return the query for the scores of all items by one row."""
    return (
        np.array([row]),
        np.array([0]),
        np.array([0, n_items]),
        np.arange(n_items, dtype=np.int32),
    )


@pytest.mark.parametrize("training", [SGD, ADAM], ids=["sgd", "adam"])
@pytest.mark.parametrize("name", EVERY)
def test_first_full_batch_step_is_the_one_computed_by_hand(name, training):
    training = TrainingSettings(
        optimizer=training.optimizer, learning_rate=0.1, epsilon=1e-3, batch_size=None, negatives=1
    )
    executor = supporting(name, World(training=training))
    work, node = executor.work, 3
    before = work.arena.rows[node].astype(np.float64)

    run_waves(executor, one_wave(5, (node, node, (), (), True)))

    gradient = gmf_gradient_by_hand(work, node, before)
    step = gradient if training.optimizer == "sgd" else gradient / (np.abs(gradient) + training.epsilon)
    np.testing.assert_allclose(work.arena.rows[node], before - 0.1 * step, atol=1e-6)


def gmf_gradient_by_hand(work, node, row):
    """Return the gradient of the mean cross-entropy over update 0, in float64."""
    layout = work.layout
    gradient = np.zeros_like(row)
    samples = work.feed.samples(node, update=0, negatives=work.training.negatives, seed=work.seed)
    items, labels = samples["items"], samples["labels"]
    user, weight = row[layout.users], row[layout.shared][:-1]
    for item, label in zip(items, labels, strict=True):
        begin = layout.items.start + item * layout.item_width
        own = slice(begin, begin + layout.item_width)
        error = 1 / (1 + np.exp(-((user * row[own]) @ weight + row[layout.shared][-1]))) - label
        gradient[layout.users] += error * row[own] * weight / len(items)
        gradient[own] += error * user * weight / len(items)
        gradient[layout.shared] += error * np.append(user * row[own], 1.0) / len(items)
    return gradient


@pytest.mark.parametrize(
    "training", slow_except_first([ADAM, SGD, FULL_BATCH]), ids=["adam", "sgd", "full-batch"]
)
@pytest.mark.parametrize("model", slow_except_first(list(MODELS)))
@pytest.mark.parametrize("name", slow_except_first(EVERY))
def test_bytes_do_not_depend_on_the_wave_size(name, model, training):
    world = World(n_nodes=7, n_items=101, model=model, training=training)
    waves = everyone_trains(7)

    one, some, everyone = (
        state_bytes(run_waves(supporting(name, world), waves, size)) for size in (1, 4, None)
    )

    assert same(name, one, everyone)
    assert same(name, some, everyone)


@pytest.mark.parametrize("name", slow_except_first(EVERY))
def test_bytes_do_not_depend_on_the_threads_of_torch(name):
    world, waves = World(n_nodes=203, n_items=20), everyone_trains(203)
    before, states = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            states.append(state_bytes(run_waves(supporting(name, world), waves)))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)

    assert same(name, *states)


def after_update(name, world, number):
    """Return the nodes' rows after a local update of each from their first models."""
    executor = supporting(name, world)
    nodes = np.arange(world.n_nodes, dtype=np.int32)
    executor.run(
        Program.of_updates(nodes, np.full(world.n_nodes, number, np.int32)), np.arange(world.n_nodes)
    )
    return up_to_date(executor.work.arena).rows[: world.n_nodes].tobytes()


@pytest.mark.parametrize(
    "treated", slow_except_first([{}, {"drift": (0.5,)}, {"clip_norm": (1.0,)}]), ids=str
)
@pytest.mark.parametrize("model", slow_except_first(WITH_NEGATIVES))
@pytest.mark.parametrize("name", slow_except_first(EVERY))
def test_negatives_drawn_once_are_those_of_the_first_update_for_ever(name, model, treated):
    training = replace(World(model=model).settings, batch_size=None, negatives_drawn="once")
    world = World(n_nodes=3, model=model, training=training, **treated)
    anew = replace(world, training=replace(training, negatives_drawn="each_update"))

    first = after_update(name, anew, 0)

    assert same(name, after_update(name, world, 3), first)
    assert same(name, after_update(name, world, 0), first)
    assert after_update(name, anew, 3) != first


@pytest.mark.parametrize("model", list(MODELS))
@pytest.mark.parametrize("name", EVERY)
def test_score_bytes_do_not_depend_on_the_other_queries(name, model):
    executor = supporting(name, World(n_nodes=20, n_items=45, model=model))
    layout, rows, row = executor.work.layout, executor.work.arena.rows, np.arange(20)
    offsets, items = np.arange(21) * 45, np.tile(np.arange(45, dtype=np.int32), 20)

    together = executor.score(ScoreQuery(layout, rows, row, np.zeros(20, np.int64), offsets, items))

    alone = [executor.score(ScoreQuery(layout, rows, *everything(r, 45))) for r in row]
    assert same(name, np.concatenate(alone).tobytes(), together.tobytes())


def readable(executor, nodes, *, together=False):
    """Return the nodes' models; together: the first one, for so many users of its table."""
    layout, rows = executor.work.layout, executor.work.arena.rows
    row = np.zeros_like(nodes) if together else nodes
    return ScoringView(layout, rows[:1] if together else rows, row, layout.user_index(nodes), together)


@pytest.mark.parametrize("together", [False, True], ids=["apart", "together"])
@pytest.mark.parametrize("model", list(MODELS))
@pytest.mark.parametrize("name", EVERY)
def test_scores_of_all_items_are_those_of_queries_by_any_threads(name, model, together):
    executor = supporting(name, World(n_nodes=9, n_items=45, model=model, user_table=together))
    models = readable(executor, np.arange(9), together=together)
    before = (np.arange(9) % 4 - 1).astype(np.int32)
    contexts = dict.fromkeys(executor.work.feed.context_columns, before)

    found = executor.score_all(replace(models, contexts=contexts), ThreadPool(1))

    query = np.arange(10) * 45, np.tile(np.arange(45, dtype=np.int32), 9)
    wide = {column: before.repeat(45) for column in contexts}
    expected = executor.score(ScoreQuery(models.layout, models.rows, models.row, models.user, *query, wide))
    np.testing.assert_allclose(found, expected.reshape(9, 45), rtol=1e-5, atol=1e-5)
    threaded = executor.score_all(replace(models, contexts=contexts), ThreadPool(4))
    assert same(name, threaded.tobytes(), found.tobytes())
    for place in (0, 4, 8):
        own = dict.fromkeys(contexts, before[place : place + 1])
        alone = replace(readable(executor, np.array([place]), together=together), contexts=own)
        assert same(name, executor.score_all(alone, ThreadPool(2)).tobytes(), found[place].tobytes())
    nothing = dict.fromkeys(contexts, before[:0])
    none = replace(readable(executor, np.zeros(0, np.int64), together=together), contexts=nothing)
    assert executor.score_all(none, ThreadPool(2)).shape == (0, 45)


@pytest.mark.parametrize("batch_size", [7, None])
@pytest.mark.parametrize("name", EVERY)
def test_a_node_steps_once_per_batch_of_its_own(name, batch_size):
    training = TrainingSettings(batch_size=batch_size, local_epochs=2)
    executor = supporting(name, World(training=training))

    run_waves(executor, everyone_trains(5, times=3))

    samples = executor.work.feed.n_samples(training.negatives)
    batches = -(-samples // (batch_size or samples))
    assert executor.work.arena.steps.tolist() == (3 * 2 * batches).tolist()


@pytest.mark.parametrize("name", EVERY)
def test_a_node_without_positives_takes_no_step(name):
    work = World(training=FULL_BATCH).workload()
    nobody = Ragged(np.zeros(6, np.int64), np.zeros(0, np.int32))
    executor = make_executor(name, replace(work, feed=PointwiseFeed(nobody, 12)))
    before = work.arena.rows.tobytes()

    run_waves(executor, everyone_trains(5))

    assert not work.arena.steps.any()
    assert work.arena.rows.tobytes() == before


@pytest.mark.parametrize("training", [SGD, ADAM], ids=["sgd", "adam"])
@pytest.mark.parametrize("name", EVERY)
def test_a_new_executor_continues_from_the_arena(name, training):
    world, waves = World(training=training), everyone_trains(5, times=2)
    straight = run_waves(supporting(name, world), waves)
    interrupted = supporting(name, world)
    interrupted.run(waves.program, np.arange(5))

    make_executor(name, interrupted.work).run(waves.program, np.arange(5, 10))

    assert same(name, state_bytes(interrupted.work.arena), state_bytes(straight))


@pytest.mark.parametrize("model", list(MODELS))
@pytest.mark.parametrize("name", EVERY)
def test_a_node_that_refused_what_it_received_does_not_train(name, model):
    executor = supporting(name, World(model=model))
    waves, before = everyone_trains(5), executor.work.arena.rows.copy()
    waves.program.refused[2] = True

    rows = run_waves(executor, waves).rows

    assert (rows[:5] == before[:5]).all(axis=1).tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("name", EVERY)
def test_merging_leaves_the_receivers_own_user_row(name):
    executor = supporting(name, World())
    rows, layout = executor.work.arena.rows, executor.work.layout
    before = rows.copy()

    run_waves(executor, one_wave(5, (0, 0, [1], [0.25], False)))

    assert rows[0, layout.users].tobytes() == before[0, layout.users].tobytes()
    expected = 0.25 * before[0, layout.merged] + 0.75 * before[1, layout.merged]
    np.testing.assert_allclose(rows[0, layout.merged], expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", EVERY)
def test_merging_user_tables_averages_every_user(name):
    executor = supporting(name, World(user_table=True))
    rows, layout = executor.work.arena.rows, executor.work.layout
    before = rows.copy()

    run_waves(executor, one_wave(5, (0, 0, [1], [0.25], False)))

    expected = 0.25 * before[0, layout.users] + 0.75 * before[1, layout.users]
    np.testing.assert_allclose(rows[0, layout.users], expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", EVERY)
def test_versions_merge_in_the_order_of_delivery(name):
    executor = supporting(name, World())
    rows, merged = executor.work.arena.rows, executor.work.layout.merged
    own, one, two = rows[:3, merged].copy()

    run_waves(executor, one_wave(5, (0, 0, [1, 2], [0.5, 0.25], False)))

    np.testing.assert_allclose(rows[0, merged], 0.125 * own + 0.125 * one + 0.75 * two, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", EVERY)
def test_keeping_nothing_adopts_the_received_version_whatever_the_own_one(name):
    executor = supporting(name, World())
    rows, merged = executor.work.arena.rows, executor.work.layout.merged
    rows[0, merged] = np.nan

    run_waves(executor, one_wave(5, (0, 0, [1], [0.0], False)))

    assert rows[0, merged].tobytes() == rows[1, merged].tobytes()


@pytest.mark.parametrize("name", EVERY)
def test_a_version_that_others_need_is_not_overwritten(name):
    executor = supporting(name, World())
    rows = executor.work.arena.rows
    before = rows.copy()

    run_waves(executor, one_wave(5, (0, 5, [1], [0.5], True)))

    assert rows[:5].tobytes() == before[:5].tobytes()
    assert rows[5].any()


@pytest.mark.parametrize("name", EVERY)
def test_merging_alone_touches_neither_moments_nor_steps(name):
    executor = supporting(name, World())
    run_waves(executor, everyone_trains(5))
    arena = executor.work.arena
    before = [arena.first.copy(), arena.second.copy(), arena.steps.copy()]

    run_waves(executor, one_wave(5, (0, 0, [1, 2], [0.5, 0.5], False)))

    for now, then in zip((arena.first, arena.second, arena.steps), before, strict=True):
        assert now.tobytes() == then.tobytes()


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch sees a CUDA device")
def test_asking_for_cuda_without_a_device_says_what_to_use_instead():
    with pytest.raises(ResourceError, match="use 'cpu' or 'auto'"):
        EXECUTORS["batched"](World().workload(), "cuda")
