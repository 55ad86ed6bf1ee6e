"""Colluders placed by who meets whom: their names, who they are, and what is refused."""

import itertools

import numpy as np
import pytest

from gossiprec.adversaries.attacks.cda import CDA, CDAOptions
from gossiprec.adversaries.attacks.entropy_mia import EntropyMIA, EntropyMIAOptions
from gossiprec.adversaries.attacks.observations import KnownDeliveries
from gossiprec.base.errors import ScenarioError
from gossiprec.base.rng import generator
from gossiprec.network.graphs.centrality import PLACEMENTS
from tests.attacks.glimpses import N_USERS, make_world

# (time, sender, receiver): node 4 hears from three others, 2 from two of them often, 5 from 4 most
DELIVERIES = [
    (0.5, 0, 2), (0.6, 0, 2), (0.7, 1, 2), (1.0, 4, 5), (1.1, 4, 5), (1.2, 4, 1), (2.0, 0, 4), (2.1, 1, 4), (2.2, 3, 4),
]  # fmt: skip


def meetings(deliveries=DELIVERIES, *, complete=True):
    time, sender, receiver = zip(*deliveries, strict=True) if deliveries else ((), (), ())
    n = len(time)
    ends = (np.array(sender, np.int32), np.array(receiver, np.int32))
    return KnownDeliveries(np.arange(n, dtype=np.int32), *ends, np.array(time, float), n, complete=complete)


def coalitions(*, attack=CDA, met=None, coordinator=None, seed=0, **options):
    """Return (name, members) of every coalition."""
    world = make_world(deliveries=met or meetings(), coordinator=coordinator, seed=seed)
    made = attack(attack.Options(**{"who": "coalition", "community_size": 2, **options}), world)
    return dict(zip(made._names, map(np.ndarray.tolist, made.pools), strict=True))


def one(**options):
    (members,) = coalitions(reference_items=8, **options).values()
    return members


def test_contacts_count_deliveries_between_users_up_to_a_time():
    world = make_world(deliveries=meetings([*DELIVERIES, (0.1, N_USERS, 3), (0.2, 3, N_USERS)]))
    assert world.contacts().toarray().sum() == len(DELIVERIES)
    assert world.contacts()[0, 2] == world.contacts()[4, 5] == 2
    assert world.contacts(until=1.0).toarray().sum() == 4
    assert world.contacts(until=0.4).nnz == 0


def test_colluders_sit_where_their_placement_says():
    assert one(fraction=0.17, placement="degree") == [4]
    assert one(fraction=0.34, placement="degree") == [2, 4]
    assert one(fraction=0.17, placement="greedy-cover") == [4]
    assert one(fraction=0.17, placement="eclipse", victim=4) == [5]
    assert one(fraction=0.34, placement="eclipse", victim=4) == [1, 5]
    assert one(fraction=0.5, placement="eclipse", victim=4) == [0, 1, 5]


def test_who_knows_only_the_beginning_places_by_it():
    assert one(fraction=0.17, placement="degree", placement_until=1.5) == [2]


def test_random_is_what_it_was_before_placements():
    order = generator(7, "observers").permutation(N_USERS)
    assert one(fraction=0.5, seed=7) == one(fraction=0.5, placement="random", seed=7) == sorted(order[:3])


def test_there_is_one_coalition_for_each_combination_and_random_keeps_its_name():
    found = coalitions(
        fraction=(0.17, 0.5), placement=("random", "degree", "eclipse"), victim=(0, 3), reference_items=8
    )
    assert list(found) == [
        f"coalition-{share}%{where}"
        for share, where in itertools.product((17, 50), ("", "-degree", "-eclipse-0", "-eclipse-3"))
    ]
    assert [len(members) for members in found.values()] == [1] * 4 + [3] * 4
    assert found["coalition-50%"] == one(fraction=0.5)
    assert found["coalition-17%-degree"] == one(fraction=0.17, placement="degree")
    known = coalitions(fraction=0.17, placement=("random", "degree"), placement_until=1.5, reference_items=8)
    assert list(known) == ["coalition-17%", "coalition-17%-degree-until-1.5"]


@pytest.mark.parametrize("how", PLACEMENTS)
def test_every_placement_has_its_option_and_larger_coalitions_contain_smaller_ones(how):
    more = {"victim": 4} if how == "eclipse" else {}
    small, large = coalitions(fraction=(0.34, 0.67), placement=how, reference_items=8, **more).values()
    assert (len(small), len(large)) == (2, 4)
    assert set(small) < set(large)


def test_centres_of_clusters_come_from_the_runs_seed():
    ring = meetings([(1.0, u, (u + 1) % N_USERS) for u in range(N_USERS)])
    centres = [tuple(one(fraction=0.17, placement="clustered", met=ring, seed=seed)) for seed in range(12)]
    assert centres[3] == tuple(one(fraction=0.17, placement="clustered", met=ring, seed=3))
    assert len(set(centres)) > 2


def test_other_attacks_by_coalitions_place_them_too():
    found = coalitions(attack=EntropyMIA, fraction=0.17, placement=("random", "degree"))
    assert found["coalition-17%-degree"] == [4]
    assert EntropyMIAOptions(who="coalition", fraction=0.5).placement == "random"


@pytest.mark.parametrize(
    ("world", "message"),
    [
        (
            {"coordinator": N_USERS},
            "with a coordinator nodes receive models only from it; use placement: random",
        ),
        ({"met": meetings([], complete=False)}, "they depend on model performance; use placement: random"),
        (
            {"met": meetings([])},
            "no message arrives in this run, so there are no contacts to place colluders by",
        ),
    ],
)
def test_where_contacts_are_not_known_only_random_is_possible(world, message):
    with pytest.raises(ScenarioError, match=message):
        one(fraction=0.5, placement=("random", "degree"), **world)
    assert len(one(fraction=0.5, placement="random", **world)) == 3


def test_a_time_before_the_first_meeting_is_refused():
    message = r"no message arrives by placement_until: 0.3, so there are no contacts .*; raise it"
    with pytest.raises(ScenarioError, match=message):
        one(fraction=0.5, placement="degree", placement_until=0.3)


def test_options_of_the_two_attacks_know_the_same_placements():
    for options in (CDAOptions, EntropyMIAOptions):
        for how in PLACEMENTS:
            more = {"victim": 0} if how == "eclipse" else {}
            assert options(who="coalition", fraction=0.5, placement=how, **more).placement == how
