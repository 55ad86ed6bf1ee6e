from __future__ import annotations

from dataclasses import replace
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_data import dataset, interactions

from gossiprec.base.errors import DataError
from gossiprec.base.ragged import Ragged
from gossiprec.data import SPLITS, load_split
from gossiprec.data.check_ins import extract_check_ins, filter_active_users, published_split
from gossiprec.data.split import Split


def visits(rows, n_items):
    """Build check-ins from (user, item, minute); the items lie on a meridian, a degree apart."""
    users, items, minutes = np.array(rows, np.int64).reshape(-1, 3).T
    data = interactions(
        np.stack([users, items], 1), times=np.where(minutes < 0, -1, minutes * 60), n_items=n_items
    )
    return replace(data, coordinates=np.stack([np.arange(n_items, dtype=float), np.zeros(n_items)], 1))


def split_of(data, train, test):
    def sets(parts):
        pairs = np.array([(u, i) for u, part in enumerate(parts) for i in part], np.int64).reshape(-1, 2)
        return Ragged.sets_from_pairs(pairs[:, 0], pairs[:, 1], data.n_users)

    return Split("tiny", data.n_users, data.n_items, sets(train), sets([[]] * data.n_users), sets(test))


def moves(transitions):
    """Return (previous, item, minutes or None) of each user."""
    rows = [
        (int(p), int(i), None if np.isnan(g) else float(g))
        for p, i, g in zip(
            transitions.previous, transitions.items.values, transitions.gap_minutes, strict=True
        )
    ]
    return [rows[a:b] for a, b in pairwise(transitions.items.offsets.tolist())]


def test_moves_of_a_user_worked_by_hand():
    rows = [
        (0, 0, 10),
        (0, 1, 25),
        (0, 5, 30),
        (0, 2, 100),
        (0, 0, 160),
        (0, 0, 161),
        (0, 4, 500),
        (0, 3, -1),
    ]
    data = visits(rows, 6)
    found = extract_check_ins(data, split_of(data, [[0, 1, 2, 3]], [[4, 5]]))
    assert moves(found.train) == [
        [
            (-1, 3, None),  # when it was is not known
            (0, 1, 15.0),
            (-1, 2, None),  # came after the held-out 5, and has no other move
            (2, 0, 60.0),
            (0, 0, 1.0),
        ]
    ]
    assert moves(found.test) == [[(0, 4, 339.0), (1, 5, 5.0)]]


def test_the_first_dated_visit_to_a_test_item_counts():
    data = visits([(0, 0, 1), (0, 2, 5), (0, 1, 7), (0, 2, 9), (0, 2, -1)], 3)
    assert moves(extract_check_ins(data, split_of(data, [[0, 1]], [[2]])).test) == [[(0, 2, 4.0)]]


@pytest.mark.parametrize(
    "rows",
    [
        [(0, 0, 1), (0, 1, 2), (0, 2, -1)],  # no time
        [(0, 2, 1), (0, 0, 2), (0, 1, 3)],  # nothing before
        [(0, 0, -1), (0, 2, 1), (0, 1, 3)],  # the time of what came before is not known
        [(0, 0, 1), (0, 3, 2), (0, 2, 3), (0, 1, 4)],  # a test item before
        [(0, 0, 5), (0, 1, 6), (1, 2, 7), (1, 0, 8)],  # another user before
    ],
)
def test_a_test_item_whose_previous_place_may_not_be_known_has_none(rows):
    data = visits(rows, 4)
    test = [[2, 3]] if data.n_users == 1 else [[3], [2]]
    split = split_of(data, [[0, 1]] * data.n_users, test)
    assert (-1, 2, None) in chain(*moves(extract_check_ins(data, split).test))


def test_data_without_any_time_give_each_check_in_no_previous_place():
    data = replace(visits([(0, 0, 1), (0, 1, 2), (0, 1, 3)], 3), times=None)
    found = extract_check_ins(data, split_of(data, [[0, 1]], [[2]]))
    assert moves(found.train) == [[(-1, 0, None), (-1, 1, None), (-1, 1, None)]]


def test_items_without_coordinates_are_refused():
    data = interactions([(0, 0)], times=[1], n_items=2)
    with pytest.raises(DataError, match="has no coordinates"):
        extract_check_ins(data, split_of(data, [[0]], [[1]]))


@st.composite
def worlds(draw):
    rows = []
    for user in range(draw(st.integers(1, 4))):
        own = draw(st.lists(st.integers(0, 8), min_size=4, max_size=9, unique=True))
        again = draw(st.lists(st.sampled_from(own), max_size=8))
        rows += [(user, item, draw(st.integers(-1, 40))) for item in own + again]
    return visits(draw(st.permutations(rows)), 9)


def expected(data, split):
    """Return what the moves are by their definition, one user and one check-in after the other."""
    minutes = np.where(data.times < 0, -1, data.times // 60)
    train, test = [], []
    for user in range(data.n_users):
        mine = np.flatnonzero(data.users == user)
        mine = sorted(((int(minutes[r]), int(data.items[r])) for r in mine), key=lambda visit: visit[0])
        known, found, told = set(split.train[user].tolist()), [], {}
        for k, (when, item) in enumerate(mine):
            before = mine[k - 1] if k and mine[k - 1][0] >= 0 <= when else None
            usable = before is not None and before[1] in known
            move = (before[1], item, float(when - before[0])) if usable else (-1, item, None)
            if item in known and (usable or when < 0):
                found.append((k, move))
            if when >= 0:
                told.setdefault(item, move)
        for item in known - {move[1] for _, move in found}:
            found.append((min(k for k, (_, i) in enumerate(mine) if i == item), (-1, item, None)))
        train.append([move for _, move in sorted(found)])
        test.append([told.get(item, (-1, item, None)) for item in split.test[user].tolist()])
    return train, test


def divided(data, name, seed):
    if name == "published":
        return published_split(data)
    rule = SPLITS[name]
    options = {"leave_last_k": {"test": 1, "validation": 1}}.get(name, {})
    return rule(rule.Options.model_validate(options))(data, dataset("synthetic"), seed)


RULES = st.sampled_from(["published", "random", "leave_last_k"])


@given(data=worlds(), rule=RULES, seed=st.integers(0, 3))
@pytest.mark.full
def test_moves_are_their_definition(data, rule, seed):
    split = divided(data, rule, seed)
    found = extract_check_ins(data, split)
    assert (moves(found.train), moves(found.test)) == expected(data, split)


@given(data=worlds(), rule=RULES, seed=st.integers(0, 3))
@pytest.mark.slow
def test_no_held_out_place_leaks_and_each_training_place_has_a_move(data, rule, seed):
    split = divided(data, rule, seed)
    found = extract_check_ins(data, split)
    for user, (train, test) in enumerate(zip(moves(found.train), moves(found.test), strict=True)):
        known = set(split.train[user].tolist())
        assert {item for _, item, _ in train} == known
        assert {previous for previous, _, _ in train + test} <= known | {-1}
        assert all((previous < 0) == (gap is None) for previous, _, gap in train + test)
        assert all(gap is None or gap >= 0 for _, _, gap in train + test)
        assert [item for _, item, _ in test] == split.test[user].tolist()


@given(data=worlds(), rule=RULES, seed=st.integers(0, 3), order=st.randoms(use_true_random=False))
@pytest.mark.full
def test_the_order_of_rows_does_not_change_the_moves_unless_times_are_equal(data, rule, seed, order):
    rows = list(range(len(data.users)))
    data = replace(data, times=60 * np.array(rows)[::-1])
    order.shuffle(rows)
    other = replace(data, users=data.users[rows], items=data.items[rows], times=data.times[rows])
    one, two = (extract_check_ins(world, divided(world, rule, seed)) for world in (data, other))
    assert moves(one.train) == moves(two.train)
    assert moves(one.test) == moves(two.test)


@pytest.mark.parametrize(("n", "sizes"), [(3, (2, 0, 1)), (9, (7, 1, 1)), (20, (16, 2, 2)), (25, (20, 2, 3))])
def test_the_published_split_cuts_a_user_where_the_published_code_does(n, sizes):
    split = published_split(visits([(0, item, item) for item in range(n)], n))
    assert tuple(len(part[0]) for part in (split.train, split.validation, split.test)) == sizes
    assert sizes == (int(n * 0.8), int(n * 0.9) - int(n * 0.8), n - int(n * 0.9))


def test_the_published_split_of_a_user_depends_on_no_other_user():
    alone = [(0, item, item) for item in range(30)]
    one = published_split(visits(alone, 30))
    two = published_split(visits([*alone, *((1, item, item) for item in range(30))], 30))
    assert one.test[0].tolist() == two.test[0].tolist() != two.test[1].tolist()


def test_users_with_too_few_places_go_and_the_others_keep_their_order():
    rows = [(0, 0, 1), (0, 0, 2), (0, 0, 3), (1, 0, 1), (1, 1, 2), (1, 2, 3), (2, 2, 1), (2, 1, 1), (2, 0, 5)]
    kept = filter_active_users(visits(rows, 3), check_ins=3, items=3)
    assert (kept.n_users, kept.n_items) == (2, 3)
    assert kept.users.tolist() == [0, 0, 0, 1, 1, 1]
    assert kept.items.tolist() == [0, 1, 2, 2, 1, 0]
    with pytest.raises(DataError, match="no user has 4 check-ins at 3 different places"):
        filter_active_users(visits(rows, 3), check_ins=4, items=3)


TINY = {"users": 8, "items": 40, "checkins": 200}


def test_limit_users_cuts_the_moves_too():
    whole = load_split("synthetic-checkins", TINY, "published", {}, 1).check_ins
    cut = load_split("synthetic-checkins", TINY, "published", {}, 1, limit_users=3).check_ins
    assert moves(cut.train) == moves(whole.train)[:3]
    assert moves(cut.test) == moves(whole.test)[:3]
    assert np.array_equal(cut.coordinates, whole.coordinates)


@pytest.mark.parametrize("rule", ["published", "random", "leave_last_k"])
def test_every_split_rule_gives_check_in_data_their_moves(rule):
    options = {"test": 1} if rule == "leave_last_k" else {}
    split = load_split("synthetic-checkins", TINY, rule, options, 1)
    assert len(split.check_ins.train.items) == len(split.check_ins.test.items) == 8
    assert (
        load_split("synthetic", {"users": 9, "items": 20, "interactions": 60}, rule, options, 1).check_ins
        is None
    )
