"""Merging by performance: every executor finds the same worth and takes the same model."""

import dataclasses
import itertools

import numba
import numpy as np
import pytest

from gossiprec.base.errors import DataError
from gossiprec.base.ragged import Ragged
from gossiprec.compute.executors.base import Executor
from gossiprec.compute.local_update import (
    draw_validation_candidates,
    own_weight,
    performance_score,
)
from gossiprec.data.split import Split
from gossiprec.measures import MEASURES, RelevantRanks
from gossiprec.measures.ranking import CUTOFF, PADDING, candidate_ranks
from gossiprec.models.base.template_performance import numpy_order_sum
from tests.compute.worlds import EVERY, World, make_executor, run_waves, same, up_to_date

N_ITEMS = 60


def judged(world, n_lists=2, width=N_ITEMS):
    """Return a workload in which all nodes but node 0 can judge."""
    rng = np.random.default_rng(7)
    offsets = np.concatenate([[0, 0], np.arange(1, world.n_nodes) * n_lists])
    lists = np.stack([rng.choice(N_ITEMS, width, replace=False) for _ in range(offsets[-1])])
    return dataclasses.replace(world.workload(), candidates=Ragged(offsets, lists.astype(np.int32)))


def appraised(waves):
    """Return the waves with every merge by performance; tasks that merge two versions or more do not train."""
    waves.program.merge_keep[:] = -1.0
    waves.program.update[np.diff(waves.program.merge_offsets) > 1] = -1
    return waves


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in EVERY if name != "reference"])
@pytest.mark.parametrize("user_table", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_executors_agree_on_worth_refusal_and_model(name, user_table, seed):
    world = World(n_nodes=6, n_items=N_ITEMS, user_table=user_table, seed=seed)
    plain, fast = appraised(world.waves()), appraised(world.waves())

    expected = run_waves(make_executor("reference", judged(world)), plain)
    found = run_waves(make_executor(name, judged(world)), fast)

    np.testing.assert_allclose(fast.program.found, plain.program.found, rtol=1e-6)
    assert fast.program.refused.tolist() == plain.program.refused.tolist()
    np.testing.assert_allclose(found.rows, expected.rows, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("seed", range(3))
def test_weights_can_be_known_before_and_are_those_of_the_merge(name, seed):
    world = World(n_nodes=6, n_items=N_ITEMS, seed=seed)
    waves, executor = appraised(world.waves()), make_executor(name, judged(world))
    program, arena = waves.program, executor.work.arena
    program.update[:] = -1
    merged = executor.work.layout.merged
    for start, stop in itertools.pairwise(waves.starts):
        tasks = np.arange(start, stop)
        keeps = executor.with_resolved_weights(program, tasks).merge_keep
        assert (program.merge_keep[slice(*program.merge_offsets[[start, stop]])] == -1).all()
        expected = {}
        for task in tasks:
            own = up_to_date(arena).rows[program.source[task], merged].copy()
            for entry in range(*program.merge_offsets[task : task + 2]):
                own = keeps[entry] * own + (1 - keeps[entry]) * arena.rows[program.merge_row[entry], merged]
            expected[program.target[task]] = own
        executor.run(program, tasks)
        up_to_date(arena)
        for row, own in expected.items():
            np.testing.assert_allclose(arena.rows[row, merged], own, rtol=1e-5, atol=1e-6)


def test_the_worlds_hold_what_the_agreement_is_about():
    programs = []
    for seed in range(4):
        world = World(n_nodes=6, n_items=N_ITEMS, seed=seed)
        waves = appraised(world.waves())
        run_waves(make_executor("reference", judged(world)), waves)
        programs.append(waves.program)
    found = np.concatenate([program.found for program in programs])

    assert (found > 0).sum() > 10
    assert (found == 0).sum() > 3
    assert np.isnan(found).sum() > 3
    assert sum((program.refused & (program.update >= 0)).sum() for program in programs) > 1


def test_worth_is_hit_ratio_times_ndcg():
    scores = np.zeros((2, 31), np.float32)
    scores[0, 0] = 1.0  # on top of its list: hit 1, gain 1
    scores[1, 1:] = 1.0  # below 30 others

    assert performance_score(scores) == pytest.approx(0.5 * 0.5)


def test_worth_is_the_product_of_the_measures_that_scenarios_ask_for():
    scores = np.random.default_rng(0).integers(0, 60, (40, 100)).astype(np.float32)
    ranks = RelevantRanks(candidate_ranks(scores[:, 0], scores[:, 1:])[:, None])
    hr, ndcg = (MEASURES[name].compute_values(ranks, CUTOFF).mean() for name in ("hr", "ndcg"))

    assert performance_score(scores) == np.float32(hr * ndcg)
    assert 0 < hr * ndcg < 1


def test_equal_scores_are_worth_nothing():
    assert performance_score(np.zeros((3, 31), np.float32)) == 0.0


def test_weights_follow_worth_and_the_own_version_stays_if_neither_has_any():
    assert own_weight(np.float32(0.1), np.float32(0.3)) == pytest.approx(0.25)
    assert own_weight(np.float32(0.0), np.float32(0.0)) == 1.0


def split_of(train, validation, n_items=40):
    def sets(items):
        users = np.repeat(np.arange(len(items)), [len(part) for part in items])
        return Ragged.sets_from_pairs(users, np.concatenate([[], *items]).astype(np.int64), len(items))

    none = sets([[] for _ in train])
    return Split("mine", len(train), n_items, sets(train), sets(validation), none)


def test_candidates_are_unknown_items_and_fixed():
    split = split_of([[0, 1], [2], [3]], [[5, 6, 7], [8], [9, 10]])
    drawn, again = (draw_validation_candidates(split, 4, seed=3) for _ in range(2))

    assert drawn.values.tobytes() == again.values.tobytes()
    assert [len(drawn[node]) for node in range(4)] == [3, 0, 2, 0]
    assert drawn[0][:, 0].tolist() == [5, 6, 7]
    assert not set(drawn[0][:, 1:].ravel().tolist()) & {0, 1, 5, 6, 7}
    rows = [[item for item in row if item != PADDING] for row in drawn.values.tolist()]
    assert [len(row) for row in rows] == [1 + 35] * 3 + [1 + 37] * 2
    assert all(len(set(row)) == len(row) for row in rows)


def test_the_number_of_candidates_is_set_per_node():
    alone = split_of([[0, 1], [2]], [[5, 6], [8, 9]], n_items=130)
    busy = split_of([[0, 1], [2], range(100)], [[5, 6], [8, 9], [110, 111]], n_items=130)
    lists = draw_validation_candidates(busy, 3, seed=3)

    assert (lists.values >= 0).sum(axis=1).tolist() == [100] * 4 + [29] * 2
    assert lists[2][:, 29:].tolist() == [[PADDING] * 71] * 2
    assert lists.values[:4].tobytes() == draw_validation_candidates(alone, 2, seed=3).values.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("model", ["gmf", "prme-g"])
def test_padding_behind_candidates_changes_no_worth(name, model):
    world = World(n_nodes=6, n_items=N_ITEMS, model=model)
    plain, padded = appraised(world.waves()), appraised(world.waves())
    short, long = judged(world, width=25), judged(world, width=25)
    wide = np.full((len(long.candidates.values), 70), PADDING, np.int32)
    wide[:, :25] = long.candidates.values
    long = dataclasses.replace(long, candidates=long.candidates.with_values(wide))

    expected = run_waves(make_executor(name, short), plain)
    found = run_waves(make_executor(name, long), padded)

    assert (plain.program.found > 0).any()
    assert same(name, padded.program.found.tobytes(), plain.program.found.tobytes())
    assert padded.program.refused.tobytes() == plain.program.refused.tobytes()
    assert same(name, found.rows.tobytes(), expected.rows.tobytes())


def test_a_split_in_which_nobody_can_judge_is_refused():
    with pytest.raises(DataError, match=r"no user has 2 validation items.*rand-gossip"):
        draw_validation_candidates(split_of([[0], [1]], [[2], [3]]), 2, seed=1)


def test_a_user_with_everything_is_refused():
    with pytest.raises(DataError, match="user 0 has all 4 items"):
        draw_validation_candidates(split_of([[0, 1], [1]], [[2, 3], []], n_items=4), 2, seed=1)


@pytest.mark.parametrize("storage", ["float32", "float16"])
@pytest.mark.parametrize("user_table", [False, True])
def test_compiled_appraisal_of_prme_g_gives_the_bits_of_the_plain_one(storage, user_table):
    """Also of several merges in a row, where the second judges what the first has made."""
    everything = np.arange(0)
    for seed in range(6):
        world = World(
            n_nodes=6, n_items=N_ITEMS, model="prme-g", user_table=user_table, seed=seed, storage=storage
        )
        waves, executor = appraised(world.waves()), make_executor("fused", judged(world, 2 + 5 * seed, 31))
        keep = waves.program.merge_keep
        fast, plain = (dataclasses.replace(waves.program, merge_keep=keep.copy()) for _ in range(2))
        tasks = np.arange(len(fast.node))
        executor.resolve_performance_weights(fast, tasks)
        Executor.resolve_performance_weights(executor, plain, tasks)
        for name in ("merge_keep", "found", "refused"):
            assert getattr(fast, name).tobytes() == getattr(plain, name).tobytes(), name
        everything = np.append(everything, fast.merge_keep)

    assert {0.0, 0.5, 1.0} < set(everything.tolist())
    assert len(set(everything.tolist())) > 20


@pytest.mark.parametrize("n", [2, 7, 8, 9, 16, 31, 127, 128, 129, 143, 144, 257, 300])
def test_a_compiled_sum_is_numpys(n):
    draw = np.random.default_rng(n)
    for _ in range(20):
        values = draw.random(n) * 10.0 ** draw.integers(-8, 8, n)
        assert _compiled_total(values) == values.sum()


@numba.njit
def _compiled_total(values):
    return numpy_order_sum(values)
