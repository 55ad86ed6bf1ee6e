"""Attribute inference: which gradients the coordinator sees, and what it makes of them."""

import numpy as np
import pytest
from pydantic import ValidationError

from gossiprec.adversaries.attacks import aia
from gossiprec.adversaries.attacks.aia import (
    AIA,
    AIAOptions,
    classifier_logits,
    normalise_rows,
    shadow_features,
    train_update_classifier,
)
from gossiprec.adversaries.attacks.observations import KnownDeliveries, MessageIndex
from gossiprec.base.errors import ScenarioError
from gossiprec.base.ragged import Ragged
from gossiprec.compute.plan.program import Program
from gossiprec.emulation.assembly.attack_hook import AttackHook
from tests.attacks.glimpses import N_ITEMS, N_USERS, all_forms, both_layouts, make_world, world_of

FEW = {"community_size": 2, "models": 6, "epochs": 4}
SENT, ANSWERS = 0, range(1, 1 + 2 * N_USERS)
"""Rows: the models the coordinator sends in two rounds are 0 and 20; each client answers once a round, in order."""
SECOND = 20


def drawn_rows(world):
    layout = world.layout
    rows = np.zeros((SECOND + 1, layout.row_size), np.float32)
    rows[:, : layout.size] = np.random.default_rng(3).normal(size=(SECOND + 1, layout.size))
    return rows


def pooling(source, answers, *, first):
    """Return the coordinator's task that pools some answers; `first`: the round begins with it."""
    keep = np.full(len(answers), 0.5, np.float32)
    keep[0] = 0.0 if first else 0.5
    node, rows = np.int32([N_USERS]), np.array(answers, np.int32)
    return Program(
        node=node,
        source=np.int32([source]),
        target=np.int32([source]),
        update=np.int32([-1]),
        merge_offsets=np.array([0, len(answers)]),
        merge_row=rows,
        merge_keep=keep,
        merge_message=rows,
    )


def shown(world, rows, programs, **options):
    attack = AIA(AIAOptions(**{**FEW, **options}), world)
    message = np.arange(SECOND, dtype=np.int32)
    sender = np.where(message > 0, (message - 1) % N_USERS, N_USERS).astype(np.int32)
    receiver = np.full(len(message), N_USERS, np.int32)
    meetings = KnownDeliveries(message, sender, receiver, message.astype(float), len(message))
    deliveries = MessageIndex(len(message))
    deliveries.note_deliveries(meetings)
    meter = AttackHook(attack, world.layout, world.hides_user, deliveries, 0)
    attack.allocate(meter.deliveries_to_own_nodes(meetings))
    for program in programs:
        meter.observe(rows, program, np.array([0]))
    return attack


def rounds():
    return [
        pooling(SENT, list(range(1, 1 + N_USERS)), first=True),
        pooling(SECOND, list(range(1 + N_USERS, 1 + N_USERS + 3)), first=True),
        pooling(9, list(range(1 + N_USERS + 3, 1 + 2 * N_USERS)), first=False),  # pooling in two parts
    ]


@pytest.mark.slow
@all_forms
def test_gradients_are_taken_from_the_model_that_was_sent_in_the_round(form):
    world = make_world(form=form, coordinator=N_USERS)
    rows, items = drawn_rows(world), world.layout.items
    attack = shown(world, rows, rounds())
    second_answers = rows[1 + N_USERS : 1 + 2 * N_USERS, items]
    np.testing.assert_array_equal(attack._features, second_answers - rows[SECOND, items])


@all_forms
@both_layouts
def test_user_rows_are_not_read(form, user_table):
    world = make_world(form=form, user_table=user_table, coordinator=N_USERS)
    rows = drawn_rows(world)
    blanked = rows.copy()
    blanked[:, world.layout.users] = np.nan
    (seen,), (blind,) = (shown(world, given, rounds()).rankings() for given in (rows, blanked))
    assert seen.scores.tobytes() == blind.scores.tobytes()
    assert np.isnan(seen.scores).sum() == 1
    assert len(np.unique(seen.scores)) > 3


def test_an_adversarys_ranking_does_not_depend_on_the_others():
    world = make_world(coordinator=N_USERS)
    rows = drawn_rows(world)
    (both,) = shown(world, rows, rounds(), adversaries=(1, 4)).rankings()
    (alone,) = shown(world, rows, rounds(), adversaries=(4,)).rankings()
    assert both.adversaries.tolist() == [1, 4]
    assert both.scores[1].tobytes() == alone.scores[0].tobytes()
    assert both.scores[0].tobytes() != both.scores[1].tobytes()


def test_each_adversary_has_random_draws_of_its_own(monkeypatch):
    drawn, features = [], aia.shadow_features

    def noted(*arguments, draw, **options):
        drawn.append(draw.bit_generator.state["state"])
        return features(*arguments, draw=draw, **options)

    monkeypatch.setattr(aia, "shadow_features", noted)
    world = make_world(coordinator=N_USERS)
    shown(world, drawn_rows(world), rounds(), adversaries=(1, 4))
    one, other = map(str, drawn)
    assert one != other


def test_drawn_adversaries_depend_on_the_seed_and_a_client_not_heard_of_has_no_score():
    drawn = set()
    for seed in range(6):
        world = make_world(seed=seed, coordinator=N_USERS)
        attack = shown(world, drawn_rows(world), [pooling(SENT, [1, 2], first=True)])
        (ranking,) = attack.rankings()
        drawn.add(int(ranking.adversaries[0]))
        assert set(np.flatnonzero(~np.isnan(ranking.scores[0]))) == {0, 1} - set(ranking.adversaries)
    assert len(drawn) > 2


@pytest.mark.slow
@pytest.mark.full
def test_the_classifier_tells_samples_of_one_set_from_those_of_another():
    world = make_world(coordinator=N_USERS)
    layout, draw = world.layout, np.random.default_rng(5)
    start = world.scorer.model.initial_rows(layout, 1, 0)[0]
    common, own = start[layout.items.start : layout.size], np.arange(8, dtype=np.int32)
    sets = (world.feed, common, own, np.arange(8, N_ITEMS, dtype=np.int32))
    features, labels = shadow_features(world.scorer, *sets, models=100, draw=draw)
    assert features.shape == (200, N_ITEMS * 8)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1.0, rtol=1e-5)
    fresh, truth = shadow_features(world.scorer, *sets, models=50, draw=draw)
    network = train_update_classifier(features, labels, epochs=50, draw=draw)
    right = (classifier_logits(network, fresh) > 0) == truth
    assert right.mean() > 0.7  # guessing: 0.5, with a standard error of 0.05


def test_rows_of_norm_zero_stay_and_a_diverged_client_comes_last():
    assert normalise_rows(np.zeros((1, 3), np.float32)).tolist() == [[0, 0, 0]]
    draw = np.random.default_rng(0)
    network = train_update_classifier(
        np.eye(4, dtype=np.float32), np.float32([1, 0, 1, 0]), epochs=1, draw=draw
    )
    assert classifier_logits(network, np.full((1, 4), np.nan, np.float32)).tolist() == [-np.inf]


def test_users_with_too_few_items_to_train_on_are_refused():
    targets = Ragged.sets_from_pairs(np.array([0, 1, 1]), np.array([3, 3, 4]), 2)
    with pytest.raises(ScenarioError, match="user 0 has 1 of 24 items"):
        AIA(AIAOptions(adversaries=(0,)), world_of(targets, N_ITEMS, coordinator=2))


@pytest.mark.parametrize(
    ("message", "options"),
    [
        ("greater than or equal to 1", {"adversaries": 0}),
        ("greater than or equal to 0", {"adversaries": (-1,)}),
        ("at least 1 item", {"adversaries": ()}),
        ("greater than or equal to 2", {"models": 1}),
        ("greater than or equal to 1", {"epochs": 0}),
        ("Extra inputs are not permitted", {"momentum": 0.9}),
    ],
)
def test_what_does_not_fit_is_refused(message, options):
    with pytest.raises(ValidationError, match=message):
        AIAOptions(**options)
