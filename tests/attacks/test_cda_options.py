"""The options of the attack: who observes, under which name, and what is refused."""

import itertools

import numpy as np
import pytest
from pydantic import ValidationError

from gossiprec.adversaries.attacks.cda import CDA, CDAOptions
from gossiprec.adversaries.attacks.targets import TargetItems
from gossiprec.base.errors import ScenarioError
from tests.attacks.glimpses import N_ITEMS, N_USERS, Receptions, make_world, started

REFUSED = {
    "a coalition requires either fraction or members": [
        {"who": "coalition"},
        {"who": "coalition", "fraction": 0.5, "members": (0, 1)},
    ],
    "fraction and members belong to who: coalition, found who: single": [
        {"who": "single", "fraction": 0.5},
        {"who": "single", "members": (0,)},
    ],
    "fraction and members belong to who: coalition, found who: coordinator": [
        {"who": "coordinator", "fraction": 0.5},
    ],
    "placement: degree belongs to a coalition with a fraction": [
        {"who": "coalition", "members": (0, 1), "placement": "degree"},
        {"who": "single", "placement": ("random", "degree")},
        {"who": "coordinator", "placement": "degree"},
    ],
    "victim is required with placement: eclipse, and not allowed with other placements": [
        {"who": "coalition", "fraction": 0.5, "placement": ("degree", "eclipse")},
        {"who": "coalition", "fraction": 0.5, "placement": "degree", "victim": 1},
        {"who": "coalition", "fraction": 0.5, "victim": 1},
        {"who": "single", "victim": 1},
    ],
    "placement_until belongs to a placement other than random": [
        {"who": "coalition", "fraction": 0.5, "placement_until": 3.0},
    ],
    "Input should be 'random', 'degree', 'betweenness'": [
        {"who": "coalition", "fraction": 0.5, "placement": "nearest"},
    ],
    "nodes belongs to who: single, coordinator or heads, found who: coalition": [
        {"who": "coalition", "fraction": 0.5, "nodes": (0,)},
    ],
    "Input should be 'single', 'coalition', 'coordinator' or 'heads'": [{"who": "everybody"}],
    "less than 1": [{"who": "single", "momentum": 1.0}, {"who": "single", "momentum": (0.5, 1.0)}],
    "greater than 0": [{"who": "coalition", "fraction": 0.0}, {"who": "single", "nodes": {"fraction": 0}}],
    "less than or equal to 1": [{"who": "coalition", "fraction": (0.5, 1.5)}],
    "greater than or equal to 1": [{"who": "single", "community_size": 0}],
    "greater than or equal to 0": [{"who": "single", "nodes": (-1,)}, {"who": "single", "momentum": -0.1}],
    "greater than or equal to 2": [{"who": "single", "reference_items": 1}],
    "Input should be 'mean_score', 'ndcg' or 'standardized'": [{"who": "single", "relevance": "auc"}],
    "at least 1 item": [
        {"who": "single", "nodes": ()},
        {"who": "coalition", "members": ()},
        {"who": "coalition", "fraction": ()},
        {"who": "single", "momentum": ()},
        {"who": "single", "relevance": ()},
        {"who": "single", "community_size": ()},
    ],
    "Extra inputs are not permitted": [{"who": "single", "betas": 0.5}],
}


def attack(*, coordinator=None, **options):
    world = make_world(coordinator=coordinator)
    made = CDA(CDAOptions(**{"reference_items": 8, "community_size": 2, **options}), world)
    started(made, world, Receptions.drawn([], world))
    return made


def observers(made):
    """Return (name, adversaries) of every observer."""
    return {ranking.observer: ranking.adversaries.tolist() for ranking in made.rankings()}


@pytest.mark.parametrize(
    ("message", "options"),
    [(message, options) for message, cases in REFUSED.items() for options in cases],
)
def test_what_does_not_fit_is_refused(message, options):
    with pytest.raises(ValidationError, match=message):
        CDAOptions(**options)


def test_observers_are_named_after_who_they_are():
    everyone = list(range(N_USERS))
    assert observers(attack(who="single")) == {"single": everyone}
    assert observers(attack(who="single", nodes=(4, 1, 4))) == {"single-2-nodes": [1, 4]}
    assert list(observers(attack(who="single", nodes={"fraction": 0.5}))) == ["single-50%"]
    assert list(observers(attack(who="coalition", fraction=0.05))) == ["coalition-5%"]
    assert list(observers(attack(who="coalition", fraction=(0.125, 1.0)))) == [
        "coalition-12.5%",
        "coalition-100%",
    ]
    assert observers(attack(who="coalition", members=(5, 2, 2))) == {"coalition-2-nodes": [2, 5]}
    assert observers(attack(who="coordinator", coordinator=N_USERS)) == {"coordinator": everyone}


def test_pools_are_the_coalitions_and_the_coordinator_and_no_single_node():
    assert list(attack(who="single").pools) == []
    assert [pool.tolist() for pool in attack(who="coalition", members=(5, 2)).pools] == [[2, 5]]
    assert [pool.tolist() for pool in attack(who="coordinator", coordinator=N_USERS).pools] == [[N_USERS]]


def test_a_larger_coalition_contains_the_smaller_and_every_fraction_has_a_member():
    fractions = (0.01, 0.34, 0.5, 1.0)
    pools = [set(pool.tolist()) for pool in attack(who="coalition", fraction=fractions).pools]

    assert [len(pool) for pool in pools] == [1, 2, 3, N_USERS]
    assert all(small < large for small, large in itertools.pairwise(pools))


def test_drawn_nodes_depend_on_the_seed_and_are_no_prefix():
    def drawn(seed):
        world = make_world(seed=seed)
        options = CDAOptions(who="coalition", fraction=0.5, reference_items=8)
        return tuple(CDA(options, world).pools[0].tolist())

    assert drawn(3) == drawn(3)
    assert len({drawn(seed) for seed in range(8)}) > 3


def test_there_is_one_ranking_for_each_combination_and_a_value_written_twice_counts_once():
    made = attack(
        who="coalition",
        fraction=(0.5, 1.0, 0.5),
        momentum=(0.99, 0.0, 0.99),
        relevance=("ndcg", "mean_score", "ndcg"),
        community_size=(2, 3, 2),
    )
    found = [(r.observer, r.momentum, r.relevance) for r in made.rankings()]

    assert len(found) == len(set(found)) == 2 * 2 * 2
    assert {momentum for _, momentum, _ in found} == {0.99, 0.0}
    assert {ranking.community_sizes for ranking in made.rankings()} == {(2, 3)}


def test_a_coordinator_is_needed_to_observe_as_one():
    with pytest.raises(ScenarioError, match="requires a protocol with a coordinator, such as fedavg"):
        attack(who="coordinator")


def test_reference_items_are_distinct_and_outside_the_targets():
    world = make_world()
    chosen = TargetItems.of(world.feed, np.arange(N_USERS), n_references=8, seed=0)
    for user in range(N_USERS):
        own, references = chosen.targets_and_references(user)
        assert own.tolist() == world.targets[user].tolist()
        assert len(set(references.tolist())) == 8
        assert not set(references.tolist()) & set(own.tolist())
        assert references.max() < N_ITEMS


def test_a_users_reference_items_do_not_depend_on_the_other_adversaries():
    world = make_world()
    together = TargetItems.of(world.feed, np.arange(N_USERS), n_references=8, seed=0)
    alone = TargetItems.of(world.feed_of_nodes(np.array([4])), np.array([4]), n_references=8, seed=0)

    assert alone.targets_and_references(0)[1].tolist() == together.targets_and_references(4)[1].tolist()
    assert together.targets_and_references(3)[1].tolist() != together.targets_and_references(4)[1].tolist()


def test_all_reference_items_are_all_the_others():
    world = make_world()
    chosen = TargetItems.of(world.feed, np.array([5, 2]), n_references="all", seed=0)
    for place, user in enumerate((5, 2)):
        own, references = chosen.targets_and_references(place)
        assert own.tolist() == world.targets[user].tolist()
        assert sorted([*own.tolist(), *references.tolist()]) == list(range(N_ITEMS))


def test_more_reference_items_than_a_user_leaves_are_refused_with_a_way_out():
    with pytest.raises(ScenarioError, match=r"reference_items is 23, but user \d has only \d+ items"):
        attack(who="single", reference_items=N_ITEMS - 1)
