"""Models of moves: what they take from the data, and what their recommendations are measured by."""

from __future__ import annotations

from dataclasses import replace

import haversine
import numpy as np
import pytest

from gossiprec.base.errors import DataError
from gossiprec.base.ragged import Ragged
from gossiprec.compute.executors import EXECUTORS, ExecutorContext
from gossiprec.compute.local_update import NodeSettings, TrainingSettings
from gossiprec.compute.store.arena import Arena
from gossiprec.data.split import CheckIns, Split
from gossiprec.data.training_data import Transitions
from gossiprec.emulation.scoring.utility import UtilityEvaluator
from gossiprec.models.base.kernel_interface import ScoreQuery
from tests.compute.worlds import make_executor, make_model

N_USERS, N_ITEMS = 6, 140
NONE = Ragged(np.zeros(N_USERS + 1, np.int64), np.zeros(0, np.int32))


def transitions(rng, own, places):
    """Draw a move to each of a user's `own` items, from `places`; one in four comes from nowhere."""
    items = np.concatenate(own)
    known = rng.random(len(items)) < 0.75
    previous = np.concatenate([rng.choice(p, len(o)) for o, p in zip(own, places, strict=True)])
    gaps = np.where(known, rng.choice([30.0, 359.0, 361.0], len(items)), np.nan)
    return Transitions(
        Ragged.from_parts(own).with_values(items.astype(np.int32)),
        np.where(known, previous, -1).astype(np.int32),
        gaps.astype(np.float32),
    )


def drawn_split(seed=0):
    """Return users who each went to nine places; two of them, and one for user 0, are test items."""
    rng = np.random.default_rng(seed)
    order = [rng.permutation(N_ITEMS)[:9] for _ in range(N_USERS)]
    train = [items[3 - (u > 0) :] for u, items in enumerate(order)]
    test = [np.sort(items[: 3 - (u > 0)]) for u, items in enumerate(order)]

    def sets(parts):
        return Ragged.sets_from_pairs(
            np.repeat(np.arange(N_USERS), [len(p) for p in parts]), np.concatenate(parts), N_USERS
        )

    visits = CheckIns(
        rng.uniform([40.5, -74.3], [41.0, -73.6], (N_ITEMS, 2)),
        transitions(rng, [rng.permutation(p) for p in train], train),
        transitions(rng, test, train),
    )
    return Split("drawn", N_USERS, N_ITEMS, sets(train), NONE, sets(test), visits)


def executor_for(split, model="prme-g", name="reference", **options):
    """Return an executor whose arena holds random models; node n's is in row ``N_USERS - 1 - n``."""
    model = make_model(model, **options).bind_to_data(split)
    layout = model.layout(split.n_items)
    arena = Arena(layout, n_nodes=N_USERS, capacity=N_USERS, moments=False)
    arena.rows[:] = np.random.default_rng(1).normal(size=arena.rows.shape)
    work = ExecutorContext(
        model,
        layout,
        TrainingSettings(optimizer="sgd"),
        model.make_feed(split),
        arena,
        0,
        NodeSettings.without_policies(N_USERS),
    )
    return make_executor(name, work)


CURRENT = N_USERS - 1 - np.arange(N_USERS)


def score_by_hand(executor, split, user, item, previous):
    """Return -D of the CDA paper's eq. 2 in float64."""
    layout, options = executor.work.layout, executor.work.model.options
    row = executor.work.arena.rows[CURRENT[user]].astype(np.float64)
    own, table = row[layout.users], row[layout.items].reshape(layout.n_items, 2, -1)
    near = ((own - table[item, 0]) ** 2).sum()
    if previous < 0:
        return -near
    places = split.check_ins.coordinates
    weight = (1 + haversine.haversine(places[item], places[previous])) ** 0.25
    step = ((table[item, 1] - table[previous, 1]) ** 2).sum()
    return -weight * (options.alpha * near + (1 - options.alpha) * step)


@pytest.mark.parametrize("name", list(EXECUTORS))
def test_scores_after_visits_are_those_of_the_formula(name):
    split = drawn_split()
    executor = executor_for(split, name=name, dim=7)
    rng = np.random.default_rng(2)
    items, contexts = rng.integers(0, N_ITEMS, (2, 40)).astype(np.int32)
    contexts[::3] = -1

    found = executor.score(ScoreQuery(
        executor.work.layout, executor.work.arena.rows, CURRENT[:2], np.zeros(2, np.int64), np.array([0, 25, 40]),
        items, {"previous": contexts},
    ))  # fmt: skip

    users = [0] * 25 + [1] * 15
    expected = [
        score_by_hand(executor, split, u, i, j) for u, i, j in zip(users, items, contexts, strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=2e-5)


@pytest.mark.parametrize("name", list(EXECUTORS))
def test_a_small_model_of_a_few_items_scores_as_the_whole_one_does(name):
    """As the models that observers keep: items in another numbering, with their places."""
    split = drawn_split()
    executor = executor_for(split, name=name, dim=7)
    work, kept = executor.work, np.array([77, 3, 12, 130])
    layout = work.model.layout(len(kept))
    small = np.zeros((1, layout.row_size), np.float32)
    small[0, layout.users] = work.arena.rows[CURRENT[2], work.layout.users]
    table = work.arena.rows[CURRENT[2], work.layout.items].reshape(N_ITEMS, -1)
    small[0, layout.items] = table[kept].ravel()
    items, contexts = np.array([0, 1, 2, 3, 3], np.int32), np.array([3, -1, 0, 2, 3], np.int32)
    one, ends = np.zeros(1, np.int64), np.array([0, 5])

    known = {"places": work.model.constants["places"][kept]}
    found = executor.score(ScoreQuery(layout, small, one, one, ends, items, {"previous": contexts}, known))

    whole = np.where(contexts < 0, -1, kept[contexts]).astype(np.int32)
    expected = executor.score(
        ScoreQuery(
            work.layout,
            work.arena.rows,
            CURRENT[2:3],
            one,
            ends,
            kept[items].astype(np.int32),
            {"previous": whole},
        )
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_other_models_do_not_look_at_visits():
    executor = executor_for(drawn_split(), "gmf")
    query = (executor.work.layout, executor.work.arena.rows, np.zeros(1, np.int64), np.zeros(1, np.int64))
    items = np.arange(9, dtype=np.int32)

    found = executor.score(ScoreQuery(*query, np.array([0, 9]), items, {"previous": items[::-1].copy()}))

    assert found.tolist() == executor.score(ScoreQuery(*query, np.array([0, 9]), items)).tolist()


def test_f1_is_the_harmonic_mean_of_a_list_made_at_the_users_last_training_place():
    split = drawn_split()
    executor, visits, found = executor_for(split, init_std=1.0), split.check_ins.train, []
    for user in range(N_USERS):
        last = visits.items[user][-1]
        scores = [score_by_hand(executor, split, user, item, last) for item in range(N_ITEMS)]
        ranked = [item for item in np.argsort(scores)[::-1] if item not in split.train[user]]
        tests = set(split.test[user].tolist())
        hits = len(tests & set(ranked[:40]))
        precision, recall = hits / 40, hits / len(tests)
        found.append(2 * precision * recall / (precision + recall) if hits else 0.0)

    measured = UtilityEvaluator(split, ["f1@40"], executor, 3).measure(CURRENT)

    assert measured == pytest.approx({"f1@40": np.mean(found)})
    assert len(set(found)) > 2


def test_f1_of_a_model_without_moves_needs_no_places():
    split = replace(drawn_split(), check_ins=None)
    executor = executor_for(split, "gmf")

    measured = UtilityEvaluator(split, ["f1@30", "recall@30"], executor, 3).measure(CURRENT)

    assert 0 < measured["f1@30"] < measured["recall@30"] < 1


def test_a_test_item_is_ranked_after_the_visit_before_it_if_that_was_within_the_window():
    split = drawn_split()
    executor, asked = executor_for(split), []
    real = executor.score
    executor.score = lambda query: asked.append(query) or real(query)

    UtilityEvaluator(split, ["hr@10"], executor, 3).measure(CURRENT)

    offsets, items, contexts = asked[0].offsets, asked[0].items, asked[0].contexts["previous"]
    visits = split.check_ins.test
    recent = np.where(visits.gap_minutes <= 360, visits.previous, -1)
    assert items[::100].tolist() == split.test.values.tolist() == visits.items.values.tolist()
    assert contexts.tolist() == recent.repeat(100).tolist()
    assert set(recent.tolist()) != {-1}
    assert offsets[-1] == len(contexts)


def test_moves_are_those_within_the_models_window():
    split = drawn_split()
    short, long = (make_model("prme-g", window_hours=h).make_feed(split) for h in (1, 24))

    gaps = split.check_ins.train.gap_minutes
    assert (short.previous >= 0).tolist() == (gaps <= 60).tolist()
    assert long.previous.tolist() == split.check_ins.train.previous.tolist()


def test_data_without_places_name_those_that_have_them():
    with pytest.raises(DataError, match=r"drawn has neither places nor times; .*foursquare-nyc, gowalla"):
        make_model("prme-g").bind_to_data(replace(drawn_split(), check_ins=None))


def test_data_without_times_are_refused():
    split = drawn_split()
    visits = split.check_ins
    timeless = replace(visits.train, gap_minutes=np.full(len(visits.train.previous), np.nan, np.float32))

    with pytest.raises(DataError, match=r"drawn has places without times; .*foursquare-nyc"):
        make_model("prme-g").bind_to_data(replace(split, check_ins=replace(visits, train=timeless)))


def test_a_sample_costs_fewer_merges_where_rows_are_larger():
    small, large = executor_for(drawn_split(), dim=60).work, executor_for(drawn_split(), dim=60).work
    large = replace(large, layout=replace(large.layout, n_items=38_333))

    assert large.model.sample_cost(large.layout) < small.model.sample_cost(small.layout) / 200
    assert make_model("gmf").sample_cost(small.layout) == 0.01
