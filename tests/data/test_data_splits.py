from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_data import dataset, interactions, sets_of

from gossiprec.base.errors import DataError, ScenarioError
from gossiprec.base.ragged import Ragged
from gossiprec.data import SPLITS, load_split
from gossiprec.data.loading import check_trainable
from gossiprec.data.split import Split, first_interactions, split_by_position

ANY = dataset("synthetic")


def divide(data, name, seed=1, **options):
    rule = SPLITS[name]
    return rule(rule.Options.model_validate(options))(data, ANY, seed)


@st.composite
def worlds(draw, least=4):
    """Users with at least `least` distinct items each, some pairs repeated, in any order."""
    pairs = []
    for user in range(draw(st.integers(1, 5))):
        own = draw(st.lists(st.integers(0, 12), min_size=least, max_size=12, unique=True))
        pairs += [(user, item) for item in own + draw(st.lists(st.sampled_from(own), max_size=3))]
    pairs = draw(st.permutations(pairs))
    times = draw(st.none() | st.lists(st.integers(-1, 5), min_size=len(pairs), max_size=len(pairs)))
    return interactions(pairs, times=times, n_items=13)


@given(
    data=worlds(),
    rule=st.sampled_from(
        [("leave_last_k", 2, 1), ("leave_last_k", 1, 0), ("random", 0.3, 0.2), ("random", 0.2, 0.0)]
    ),
)
@pytest.mark.full
def test_every_user_is_trained_and_tested(data, rule):
    name, test, validation = rule
    split = divide(data, name, test=test, validation=validation)
    assert split.train.sizes.min() >= 1
    assert split.test.sizes.min() >= 1


def test_leave_last_k_takes_the_latest_then_validation_before_them():
    data = interactions([(0, 4), (0, 1), (0, 3), (0, 2)], times=[10, 40, 20, 30])
    split = divide(data, "leave_last_k", test=1, validation=2)
    assert [sets_of(part) for part in (split.train, split.validation, split.test)] == [[[4]], [[2, 3]], [[1]]]


def test_equal_times_go_by_the_order_of_the_rows():
    split = divide(interactions([(0, 2), (0, 0), (0, 1)], times=[5, 5, 5]), "leave_last_k", test=1)
    assert sets_of(split.test) == [[1]]


def test_a_repeated_pair_counts_once_at_its_earliest_time():
    data = interactions([(0, 1), (0, 2), (0, 1)], times=[30, 20, 10])
    kept = first_interactions(data)
    assert (kept.items.tolist(), kept.times.tolist()) == ([1, 2], [10, 20])
    assert sets_of(divide(data, "leave_last_k", test=1).test) == [[2]]


def test_without_times_the_seed_decides():
    data = interactions([(0, item) for item in range(30)])
    tests = {tuple(divide(data, "leave_last_k", seed, test=3).test[0].tolist()) for seed in (1, 1, 2, 3)}
    assert len(tests) == 3


@pytest.mark.parametrize("name", ["leave_last_k", "random"])
def test_another_user_does_not_shift_a_users_random_split(name):
    alone = [(0, item) for item in range(20)]
    options = {"test": 2} if name == "leave_last_k" else {}
    one = divide(interactions(alone), name, **options)
    two = divide(interactions([*alone, *((1, item) for item in range(20))]), name, **options)
    assert one.test[0].tolist() == two.test[0].tolist()


def test_random_fractions_are_rounded_with_halves_up():
    data = interactions([(user, item) for user, count in enumerate((10, 25)) for item in range(count)])
    split = divide(data, "random", test=0.2, validation=0.1)
    assert (split.test.sizes.tolist(), split.validation.sizes.tolist()) == ([2, 5], [1, 3])


@pytest.mark.parametrize(
    ("rounding", "tests", "validation"), [("down", [1, 3, 3], [1, 1, 1]), ("up", [1, 3, 4], [1, 2, 2])]
)
def test_random_fractions_are_rounded_as_public_code_does(rounding, tests, validation):
    data = interactions([(user, item) for user, count in enumerate((4, 15, 17)) for item in range(count)])
    split = divide(data, "random", test=0.2, validation=0.1, rounding=rounding)
    assert (split.test.sizes.tolist(), split.validation.sizes.tolist()) == (tests, validation)


def test_validation_may_be_a_fraction_of_what_test_leaves():
    data = interactions([(user, item) for user, size in enumerate([10, 12, 13, 25]) for item in range(size)])
    split = divide(data, "random", test=0.2, validation=0.1, validation_of="train")
    assert split.test.sizes.tolist() == [2, 2, 3, 5]
    assert split.validation.sizes.tolist() == [1, 1, 1, 2]  # of 8, 10, 10 and 20
    assert divide(data, "random", test=0.5, validation=0.6, validation_of="train").train.sizes.tolist() == [
        2,
        2,
        2,
        5,
    ]


def test_a_split_with_a_seed_of_its_own_is_that_of_every_run():
    data = interactions([(user, item) for user in range(4) for item in range(30)])
    fixed = [
        sets_of(SPLITS["random"](SPLITS["random"].Options(seed=7))(data, ANY, run).test) for run in (1, 2)
    ]
    assert fixed[0] == fixed[1] == sets_of(divide(data, "random", 7).test)
    assert fixed[0] != sets_of(divide(data, "random", 1).test)


@pytest.mark.parametrize(("name", "options"), [("leave_last_k", {"test": 2}), ("random", {})])
def test_a_user_with_too_few_items_is_named_with_what_is_needed(name, options):
    data = interactions([(0, 0), (0, 1), (0, 2), (1, 0), (1, 2)])
    with pytest.raises(DataError, match="user 1 has 2 items, but the split needs 3 of this user"):
        divide(data, name, **options)


def test_published_is_refused_where_there_is_none():
    data = interactions([(0, 0), (0, 1)])
    rule = SPLITS["published"]
    with pytest.raises(DataError, match="no published split; use split leave_last_k"):
        rule(rule.Options())(data, dataset("file", path="a.tsv"), 1)


def split_with_training(pairs, n_users, n_items):
    pairs = np.array(pairs)
    train = Ragged.sets_from_pairs(pairs[:, 0], pairs[:, 1], n_users)
    none = Ragged(np.zeros(n_users + 1, np.int64), np.empty(0, np.int32))
    return Split("tiny", n_users, n_items, train, none, none)


def test_a_user_without_training_items_is_named():
    with pytest.raises(DataError, match="user 1 has no training item"):
        check_trainable(split_with_training([(0, 0), (2, 1)], 3, 3))


def test_a_user_with_every_item_is_named():
    with pytest.raises(DataError, match="user 1 has all 2 items"):
        check_trainable(split_with_training([(0, 0), (1, 0), (1, 1)], 2, 2))


TINY = {"users": 8, "items": 20, "interactions": 64}


def test_limit_users_keeps_the_first_users_unchanged():
    whole = load_split("synthetic", TINY, "published", {}, 1)
    cut = load_split("synthetic", TINY, "published", {}, 1, limit_users=3)
    assert (cut.n_users, cut.n_items) == (3, 20)
    for part in ("train", "validation", "test"):
        assert sets_of(getattr(cut, part)) == sets_of(getattr(whole, part))[:3]


@pytest.mark.parametrize("count", [0, -1, 9])
def test_limit_users_out_of_range_is_refused(count):
    with pytest.raises(DataError, match="expected 1 to 8"):
        load_split("synthetic", TINY, "published", {}, 1, limit_users=count)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("synthetik", {}, "published", {}), "unknown dataset 'synthetik'"),
        (("synthetic", {}, "publish", {}), "unknown split 'publish'"),
        (("synthetic", {"user": 3}, "published", {}), "dataset synthetic: user: "),
        (("synthetic", TINY, "random", {"test": 2}), "split random: test: "),
        (("synthetic", TINY, "random", {"test": 0.5, "validation": 0.5}), "expected less than 1"),
        (("movielens-100k", {}, "published", {}), "path: Field required"),
    ],
)
def test_a_wrong_name_or_option_is_a_scenario_error(arguments, words):
    with pytest.raises(ScenarioError) as caught:
        load_split(*arguments, seed=1)
    assert words in str(caught.value)


def test_the_count_of_users_with_too_few_items_is_by_the_need_of_each():
    pairs = interactions([(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2), (2, 3), (2, 4)])
    with pytest.raises(DataError) as caught:
        split_by_position(
            pairs, np.arange(10), n_test=np.array([2, 3, 1]), n_validation=np.zeros(3, np.int64)
        )
    assert (
        "user 0 has 2 items, but the split needs 3 of this user (in all, 2 users have fewer than the split"
        in str(caught.value)
    )
