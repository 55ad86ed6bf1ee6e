"""Rules item by item, against slow loops over items and clients that say in numpy what the page says in words."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossiprec.rules import aggregators
from gossiprec.rules.aggregators import Inbox, ModelDelta, make_aggregator
from gossiprec.rules.aggregators.deltas import add_deltas
from gossiprec.testing import check_aggregator
from tests.audit.rules import SlowMemory, farthest, krum, nearest_to_mean, slowly, slowly_added, trimmed

TOUCHED = {"over": "touched"}


def inbox_of(own, changes, weights=None):
    width = changes[0].rows.shape[1]
    models = np.tile(own, (len(changes), 1))
    for model, change in zip(models, changes, strict=True):
        end = len(own) - len(change.shared)
        model[:end].reshape(-1, width)[change.items] += change.rows
        model[end:] += change.shared
    places = np.arange(len(changes))
    return Inbox(models, places, np.ones(len(changes)) if weights is None else weights, 0.0, changes)


@st.composite
def worlds(draw, most=9):
    """Return a model and changes of it: ragged sets, many ties and zeros (multiples of 1/4, so that sums are exact)."""
    n, n_items = draw(st.integers(1, most)), draw(st.integers(1, 7))
    width, n_shared = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    spread, density = draw(st.sampled_from([1, 3, 40])), draw(st.sampled_from([0.2, 0.6, 1.0]))

    def numbers(*shape):
        return (rng.integers(-spread, spread + 1, shape) / 4).astype(np.float32)

    changes = []
    for _ in range(n):
        items = np.flatnonzero(rng.random(n_items) < density).astype(np.int32)
        changes.append(ModelDelta(items, numbers(len(items), width), numbers(n_shared)))
    return numbers(n_items * width + n_shared), changes, rng.uniform(0.5, 4.0, n)


SLOW = {
    "median": ({"name": "median"}, lambda uploads: np.median(uploads, axis=0)),
    "trimmed by one": ({"name": "trimmed-mean", "drop": 1}, trimmed(1)),
    "trimmed by two": ({"name": "trimmed-mean", "drop": 2}, trimmed(2)),
    "trimmed by none": ({"name": "trimmed-mean", "drop": 0}, trimmed(0)),
    "farthest two": ({"name": "trimmed-mean", "trim": "farthest", "drop": 2}, farthest(lambda n: 2)),
    "farthest by share": (
        {"name": "trimmed-mean", "trim": "farthest", "share": 0.4},
        farthest(lambda n: 4 * n // 10),
    ),
    "nearest": ({"name": "krum", "mode": "nearest-to-mean"}, nearest_to_mean),
    "krum": ({"name": "krum"}, krum(1, 1)),
    "multi-krum": ({"name": "krum", "byzantine": 2, "keep": 3}, krum(2, 3)),
}
RULES = {
    **{name: {**rule, **TOUCHED} for name, (rule, _) in SLOW.items()},
    "norm-bound": {"name": "norm-bound", **TOUCHED, "bound": 0.5},
    "hics": {"name": "hics", "top": 0.4},
}


@pytest.mark.parametrize("name", SLOW)
@settings(max_examples=120, deadline=None, derandomize=True)
@given(world=worlds(), rescale=st.booleans(), at_once=st.sampled_from([8, aggregators.BLOCK]))
@pytest.mark.cases(2)
def test_a_rule_is_what_a_loop_over_items_says(name, world, rescale, at_once):
    (own, changes, weights), (rule, combine) = world, SLOW[name]
    with patch.object(aggregators, "BLOCK", at_once):
        found = make_aggregator({**rule, **TOUCHED, "rescale": "n" if rescale else "none"}).aggregate(
            own, inbox_of(own, changes, weights)
        )

    np.testing.assert_allclose(found, slowly(own, changes, combine, rescale), rtol=1e-6, atol=1e-6)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    world=worlds(),
    how=st.sampled_from(["touched-mean", "mean", "sum"]),
    bound=st.sampled_from([0.5, "median"]),
    shared_bound=st.sampled_from([None, 2.0, "median"]),
)
def test_rows_are_scaled_down_to_a_norm_and_then_added(world, how, bound, shared_bound):
    own, changes, weights = world
    rule = {"name": "norm-bound", **TOUCHED, "bound": bound, "shared_bound": shared_bound, "then": how}
    found = make_aggregator(rule).aggregate(own, inbox_of(own, changes, weights))

    def number(told, rows):
        lengths = np.sqrt((np.concatenate(rows).astype(np.float64) ** 2).sum(axis=1))
        return told if told != "median" else np.median(lengths) if len(lengths) else 0.0

    of_rows = number(bound, [change.rows for change in changes])
    of_shared = number(bound if shared_bound is None else shared_bound, [c.shared[None] for c in changes])
    due = slowly_added(own, changes, weights, how, of_rows, of_shared)
    np.testing.assert_allclose(found, due, rtol=1e-5, atol=1e-5)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(world=worlds(), how=st.sampled_from(["mean", "touched-mean"]))
def test_a_mean_of_models_is_the_mean_over_all_of_their_changes(world, how):
    own, changes, weights = world
    inbox = inbox_of(own, changes, weights)
    of_models = make_aggregator("mean").aggregate(own, inbox)

    np.testing.assert_allclose(add_deltas(own, inbox, "mean"), of_models, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("top", [0.1, 0.5, 1.0])
def test_hics_lets_go_of_what_has_gathered_most(top):
    rng, n_items, width = np.random.default_rng(6), 9, 3
    own = rng.normal(size=n_items * width + 4).astype(np.float32)
    rule, slow = make_aggregator({"name": "hics", "top": top}), SlowMemory(n_items, width, top)
    for size in (1.0, 5.0, 0.2, 1.0, 1.0):
        changes = []
        for _ in range(6):
            items = np.sort(rng.choice(n_items, rng.integers(0, 6), replace=False)).astype(np.int32)
            rows = size * rng.normal(size=(len(items), width)).astype(np.float32)
            changes.append(ModelDelta(items, rows.astype(np.float32), rng.normal(size=4).astype(np.float32)))
        weights = rng.uniform(0.5, 2.0, 6)
        found, due = rule.aggregate(own, inbox_of(own, changes, weights)), slow(own, changes, weights)
        np.testing.assert_allclose(found, due, rtol=1e-5, atol=1e-5)
        own = found


def test_hics_by_hand():
    """Two items of one number; half of them are updated; c1 cuts a client's row to 2, c2 what is let go to 3."""
    options = {"name": "hics", "c1": 2.0, "c2": 3.0, "top": 0.5, "shared_bound": 1.0, "gather": "sum"}
    rule, own = make_aggregator(options), np.float32([10, 20, 30])
    one = ModelDelta(np.int32([0, 1]), np.float32([[5], [1.5]]), np.float32([-4]))
    other = ModelDelta(np.int32([0]), np.float32([[2]]), np.float32([0.5]))

    own = rule.aggregate(own, inbox_of(own, [one, other]))
    assert own.tolist() == [13, 20, 29.5]  # 2 + 2, cut to 3; the 1.5 of item 1 wait
    own = rule.aggregate(own, inbox_of(own, [ModelDelta(np.int32([0]), np.float32([[1]]), np.float32([0]))]))
    assert own.tolist() == [13, 21.5, 29.5]  # now they are more than the 1 of item 0
    own = rule.aggregate(
        own, inbox_of(own, [ModelDelta(np.int32([1]), np.float32([[0.5]]), np.float32([0]))])
    )
    assert own.tolist() == [14, 21.5, 29.5]  # what has been let go is forgotten


def world_of_normals(n=40, n_items=30, width=1, seed=2):
    rng = np.random.default_rng(seed)
    changes = []
    for _ in range(n):
        items = np.flatnonzero(rng.random(n_items) < rng.uniform(0.05, 0.95)).astype(np.int32)
        rows = rng.normal(size=(len(items), width)).astype(np.float32)
        changes.append(ModelDelta(items, rows, rng.normal(size=1).astype(np.float32)))
    return np.zeros(n_items * width + 1, np.float32), changes


@pytest.mark.parametrize("name", [name for name in RULES if name != "hics"])
@pytest.mark.parametrize("width", [1, 3])
def test_an_item_ends_as_the_same_bytes_whatever_else_was_touched(name, width):
    own, changes = world_of_normals(width=width)
    n_items = len(own) // width
    together = make_aggregator(RULES[name]).aggregate(own, inbox_of(own, changes))
    with patch.object(aggregators, "BLOCK", 200):
        in_blocks = make_aggregator(RULES[name]).aggregate(own, inbox_of(own, changes))
    assert in_blocks.tobytes() == together.tobytes()
    for item in range(n_items):
        alone = [
            ModelDelta(c.items[c.items == item], c.rows[c.items == item], c.shared)
            for c in changes
        ]  # fmt: skip
        found = make_aggregator(RULES[name]).aggregate(own, inbox_of(own, alone))
        columns = slice(item * width, (item + 1) * width)
        assert found[columns].tobytes() == together[columns].tobytes()


def test_of_changes_that_are_as_near_the_first_to_arrive_is_taken():
    one, other = (ModelDelta(np.int32([0]), np.float32([[x, 1]]), np.float32([x])) for x in (3, 5))
    rule, own = (
        make_aggregator({"name": "krum", **TOUCHED, "mode": "nearest-to-mean"}),
        np.zeros(3, np.float32),
    )

    assert rule.aggregate(own, inbox_of(own, [one, other])).tolist() == [3, 1, 3]
    assert rule.aggregate(own, inbox_of(own, [other, one])).tolist() == [5, 1, 5]


@pytest.mark.parametrize("name", RULES)
def test_a_change_that_is_not_finite_is_left_out(name):
    own, changes = world_of_normals(n=9, width=2)
    evil = ModelDelta(
        np.arange(30, dtype=np.int32), np.full((30, 2), np.nan, np.float32), np.float32([np.inf])
    )
    without = make_aggregator(RULES[name]).aggregate(own, inbox_of(own, changes))
    found = make_aggregator(RULES[name]).aggregate(own, inbox_of(own, [*changes[:4], evil, *changes[4:]]))

    assert found.tobytes() == without.tobytes()
    assert make_aggregator(RULES[name]).aggregate(own, inbox_of(own, [evil])).tobytes() == own.tobytes()


NO_DEFENCE = {"trimmed by none", "multi-krum"}
"""By their options: nothing is dropped, and of three that touched an item three are kept."""


@pytest.mark.parametrize("name", sorted(set(RULES) - NO_DEFENCE))
@pytest.mark.cases(3)
def test_a_rule_item_by_item_keeps_the_contract(name):
    rule = make_aggregator(RULES[name])
    options = {key: value for key, value in RULES[name].items() if key != "name"}
    if name != "nearest":
        check_aggregator(type(rule), options)
        return
    with pytest.raises(AssertionError) as told:  # the first to arrive is taken of two: the one claim not kept
        check_aggregator(type(rule), options)
    claims = [line for line in str(told.value).splitlines() if line.startswith("- ")]
    assert len(claims) == 1
    assert "the same model whatever the order of arrival" in claims[0]


@pytest.mark.parametrize(
    ("rule", "least"),
    [
        ({"name": "median", **TOUCHED}, 1),
        ({"name": "trimmed-mean", "drop": 2}, 5),
        ({"name": "trimmed-mean", "trim": "farthest", "drop": 2}, 3),
        ({"name": "trimmed-mean", "share": 0.4}, 1),
        ({"name": "krum", **TOUCHED, "byzantine": 4}, 7),
        ({"name": "krum", **TOUCHED, "mode": "nearest-to-mean"}, 1),
        ({"name": "krum", "byzantine": 4}, 7),
        ({"name": "krum", "byzantine": 1, "keep": 9}, 9),
        ({"name": "krum", **TOUCHED, "mode": "nearest-to-mean", "keep": 2}, 2),
    ],
)
def test_how_many_models_a_rule_takes(rule, least):
    assert make_aggregator(rule).min_models == least


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"name": "median", "rescale": "n"}, "^median: rescale n multiplies deltas; set over to touched"),
        ({"name": "krum", "mode": "nearest-to-mean"}, "works item by item; set over to touched, or mode"),
        ({"name": "norm-bound", "then": "sum"}, "then requires deltas; set over to touched"),
        ({"name": "norm-bound", "shared_bound": 1.0}, "shared_bound requires deltas"),
        ({"name": "median", "over": "touchd"}, "over: found 'touchd', input should be 'all' or 'touched'"),
        ({"name": "hics", "top": 0}, "top: found 0"),
    ],
)
def test_options_that_do_not_go_together_are_refused(rule, message):
    with pytest.raises(ValueError, match=message):
        make_aggregator(rule)


@pytest.mark.parametrize("values", [[1, 2, 30], [1, 2, 4, 100], [5, 7], [5], [3, 3, 3, 9, 9]])
@pytest.mark.parametrize("drop", [0, 1, 2])
def test_the_trimmed_mean_of_whole_models_drops_as_many(values, drop):
    models = np.float32(values)[:, None]
    inbox = Inbox(models, np.arange(len(models)), np.ones(len(models)))
    for trim, slow in (("ends", trimmed(drop)), ("farthest", farthest(lambda n: drop))):
        rule = make_aggregator({"name": "trimmed-mean", "drop": drop, "trim": trim})
        assert rule.aggregate(np.float32([0]), inbox) == pytest.approx(slow(models.astype(np.float64)))
