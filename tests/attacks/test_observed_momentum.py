"""What observers keep and score: momentum models of what they received, and nothing else."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossiprec.attacks.cda import CDA, CDAOptions
from gossiprec.attacks.relevance import RELEVANCE
from gossiprec.attacks.targets import TargetItems
from tests.attacks.glimpses import N_USERS, Receptions, closed_form, make_world, pairs_met, predicted

TOLERANCE = {"rtol": 1e-4, "atol": 2e-5}
"""Float32 rounding (6e-8) of a blended parameter, through eight products into a score, over a deviation of
the references that is seldom below 0.05: 1e-5 of a standardized score."""

RULES = tuple(RELEVANCE)
BETAS = (0.0, 0.5, 0.99)
COALITIONS = ((0, 1, 2, 3), (2, 5))
both_forms = pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
both_layouts = pytest.mark.parametrize("user_table", [False, True], ids=["own-row", "user-table"])
sequences = settings(deadline=None, derandomize=True, max_examples=25)


def options(who, **others):
    return CDAOptions(who=who, momentum=BETAS, relevance=RULES, reference_items=8, community_size=2, **others)


def naive_scores(world, seen, adversaries, beta, rule):
    """Return the scores that the definition gives; `seen(adversary, victim)` is what counts, oldest first."""
    targets = TargetItems.of(world.targets, adversaries, n_references=8, world=world)
    expected = np.full((len(adversaries), N_USERS), np.nan, np.float32)
    for a, adversary in enumerate(adversaries):
        own, references = targets[a]
        for victim in set(range(N_USERS)) - {int(adversary)}:
            versions = seen(adversary, victim)
            if len(versions):
                scores = predicted(world, closed_form(versions, beta), victim)
                expected[a, victim] = RELEVANCE[rule](scores[:, own], scores[:, references])[0]
    return expected


def assert_as_defined(world, rankings, seen):
    assert len(rankings) == len(BETAS) * len(RULES)
    for ranking in rankings:
        expected = naive_scores(world, seen, ranking.adversaries, ranking.momentum, ranking.relevance)
        np.testing.assert_allclose(ranking.scores, expected, **TOLERANCE)


@both_layouts
@both_forms
@sequences
@given(pairs=pairs_met())
def test_after_each_reception_a_single_node_scores_the_closed_form_of_momentum(compiled, user_table, pairs):
    world = make_world(compiled=compiled, user_table=user_table)
    received = Receptions.drawn(pairs, world)
    attack = CDA(options("single"), world)
    attack.foresee(received.meetings, 0)
    for m in range(len(pairs)):
        attack.observe(received.rows, received.program, np.array([m]))
        assert_as_defined(
            world,
            attack.rankings(),
            lambda adversary, victim, n=m + 1: received.versions(victim, [adversary], n),
        )


@both_layouts
@both_forms
@sequences
@given(pairs=pairs_met())
def test_after_each_reception_a_coalition_scores_the_closed_form_of_momentum(compiled, user_table, pairs):
    world = make_world(compiled=compiled, user_table=user_table)
    received = Receptions.drawn(pairs, world)
    attacks = [CDA(options("coalition", members=members), world) for members in COALITIONS]
    sightings = received.sightings(COALITIONS)
    for first_pool, attack in enumerate(attacks):
        attack.foresee(received.meetings, first_pool)
    for m in range(len(pairs)):
        first, last = np.searchsorted(sightings.message, [m, m + 1])
        for attack, members in zip(attacks, COALITIONS, strict=True):
            attack.sight(received.rows, sightings, first, last)
            assert_as_defined(
                world,
                attack.rankings(),
                lambda _, victim, n=m + 1, members=members: received.versions(victim, members, n),
            )


@both_forms
def test_several_receptions_of_one_task_count_in_their_order(compiled):
    world = make_world(compiled=compiled)
    received = Receptions.drawn([(1, 0), (2, 0), (1, 0), (1, 0)], world)
    at_once = replace(received.program, node=np.int32([0]), merge_offsets=np.array([0, 4]))
    attack = CDA(options("single"), world)
    attack.foresee(received.meetings, 0)

    attack.observe(received.rows, at_once, np.array([0]))

    assert_as_defined(
        world, attack.rankings(), lambda adversary, victim: received.versions(victim, [adversary], 4)
    )


@both_forms
@sequences
@given(pairs=pairs_met(), seed=st.integers(0, 9))
def test_an_observer_among_many_finds_what_it_finds_alone(compiled, pairs, seed):
    world = make_world(compiled=compiled, seed=seed)
    received = Receptions.drawn(pairs, world)

    def scores(chosen, betas, rules):
        attack = CDA(
            CDAOptions(who="single", nodes=chosen, momentum=betas, relevance=rules, reference_items=8), world
        )
        attack.foresee(received.meetings, 0)
        attack.observe(received.rows, received.program, np.arange(len(pairs)))
        return {
            (r.relevance, r.momentum, a): row.tobytes()
            for r in attack.rankings()
            for a, row in zip(r.adversaries.tolist(), r.scores, strict=True)
        }

    together = scores("all", BETAS, RULES)
    assert len(together) == N_USERS * len(BETAS) * len(RULES)
    for rule, beta, adversary in together:
        alone = scores((adversary,), beta, rule)
        assert alone[rule, beta, adversary] == together[rule, beta, adversary]


@both_forms
def test_the_unmet_and_the_adversary_itself_get_no_score(compiled):
    world = make_world(compiled=compiled)
    received = Receptions.drawn([(1, 0), (0, 1), (0, 1)], world)
    single, pair = CDA(options("single"), world), CDA(options("coalition", members=(0, 1)), world)
    for attack in (single, pair):
        attack.foresee(received.meetings, 0)
    single.observe(received.rows, received.program, np.arange(3))
    pair.sight(received.rows, received.sightings([(0, 1)]), 0, 3)

    for attack in (single, pair):
        for ranking in attack.rankings():
            scored = [tuple(place) for place in np.argwhere(~np.isnan(ranking.scores)).tolist()]
            assert scored == [(0, 1), (1, 0)]


@both_forms
def test_a_victim_that_diverged_is_met_and_comes_last(compiled):
    world = make_world(compiled=compiled)
    received = Receptions.drawn([(1, 0), (2, 0), (3, 0)], world)
    received.rows[1] = np.nan
    single, pool = CDA(options("single"), world), CDA(options("coalition", members=(0, 4)), world)
    for attack in (single, pool):
        attack.foresee(received.meetings, 0)
    single.observe(received.rows, received.program, np.arange(3))
    pool.sight(received.rows, received.sightings([(0, 4)]), 0, 3)

    for ranking in single.rankings() + pool.rankings():
        broken, *others = ranking.scores[0, [2, 1, 3]]
        assert not np.isnan(broken)
        assert broken < min(others) or ranking.relevance == "ndcg"
        assert broken <= min(others)


@both_forms
def test_a_coordinator_is_nobodys_victim(compiled):
    world = make_world(compiled=compiled, coordinator=N_USERS)
    received = Receptions.drawn([(N_USERS, 0), (N_USERS, 1), (1, 0), (N_USERS, 0)], world)
    single, pool = CDA(options("single"), world), CDA(options("coalition", members=(0, 1)), world)
    for attack in (single, pool):
        attack.foresee(received.meetings, 0)
    single.observe(received.rows, received.program, np.arange(4))
    pool.sight(received.rows, received.sightings([(0, 1)]), 0, 4)

    for ranking in single.rankings() + pool.rankings():
        assert np.argwhere(~np.isnan(ranking.scores)).tolist() == [[0, 1]]


@both_forms
def test_the_coordinator_scores_for_every_user(compiled):
    world = make_world(compiled=compiled, coordinator=N_USERS)
    received = Receptions.drawn([(user, N_USERS) for user in (0, 1, 2, 1)], world)
    attack = CDA(options("coordinator"), world)
    attack.foresee(received.meetings, 0)
    attack.sight(received.rows, received.sightings([(N_USERS,)]), 0, 4)

    assert_as_defined(world, attack.rankings(), lambda _, victim: received.versions(victim, [N_USERS], 4))


@both_forms
def test_a_ranking_is_the_same_whenever_rankings_were_asked_for_before(compiled):
    world = make_world(compiled=compiled)
    received = Receptions.drawn([(1, 0), (2, 3), (1, 3), (4, 0), (1, 0)], world)
    found = []
    for stops in [(5,), (1, 2, 5), (2, 3, 4, 5)]:
        attack = CDA(options("coalition", members=(0, 3)), world)
        attack.foresee(received.meetings, 0)
        for first, last in zip((0, *stops), stops, strict=False):
            attack.sight(received.rows, received.sightings([(0, 3)]), first, last)
            rankings = attack.rankings()
        found.append([ranking.scores.tobytes() for ranking in rankings])

    assert found[0] == found[1] == found[2]


@both_forms
@given(pairs=pairs_met())
@sequences
def test_kept_memory_is_what_the_meetings_need(compiled, pairs):
    world = make_world(compiled=compiled)
    received = Receptions.drawn(pairs, world)
    attack = CDA(options("single"), world)
    attack.foresee(received.meetings, 0)
    width = 8 * (1 + world.targets.sizes + 8) + 9  # d numbers of the user, each kept item and h; the bias
    rows = -(-width // 16) * 16
    live = [most_pairs_at_once(pairs, adversary) for adversary in range(N_USERS)]
    latest = len(BETAS) * len(RULES) * N_USERS * N_USERS

    assert attack.state_bytes == 4 * (latest + np.count_nonzero(BETAS) * int((live * rows).sum()))


def most_pairs_at_once(pairs, adversary):
    """Return how many victims an adversary is at most between the first and the last of several meetings with."""
    times = {
        victim: [t for t, pair in enumerate(pairs) if pair == (victim, adversary)]
        for victim in range(N_USERS)
    }
    spans = [(t[0], t[-1]) for t in times.values() if len(t) > 1]
    return max((sum(first <= t <= last for first, last in spans) for t in range(len(pairs))), default=0)


def test_pools_keep_a_whole_model_per_momentum_and_victim():
    world = make_world()
    attack = CDA(options("coalition", fraction=(0.5, 1.0)), world)
    attack.foresee(Receptions.drawn([(1, 0)], world).meetings, 0)
    row_bytes = world.executor.work.arena.rows.strides[0]
    scores = len(BETAS) * len(RULES) * (3 + 6) * N_USERS

    assert attack.state_bytes == len(BETAS) * 2 * N_USERS * row_bytes + 4 * scores
