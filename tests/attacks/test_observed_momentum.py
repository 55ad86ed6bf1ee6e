"""What observers keep and score: momentum models of what they received, and nothing else."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossiprec.adversaries.attacks.cda import CDA, CDAOptions
from gossiprec.adversaries.attacks.targets import TargetItems
from gossiprec.numerics.relevance import RELEVANCE
from tests.attacks.glimpses import (
    N_USERS,
    Receptions,
    all_forms,
    both_layouts,
    closed_form,
    make_world,
    pairs_met,
    predicted,
    show,
    started,
)

TOLERANCE = {"rtol": 1e-4, "atol": 2e-5}
"""Float32 rounding (6e-8) of a blended parameter, through eight products into a score, over a deviation of
the references that is seldom below 0.05: 1e-5 of a standardized score."""

RULES = tuple(RELEVANCE)
BETAS = (0.0, 0.5, 0.99)
COALITIONS = ((0, 1, 2, 3), (2, 5))
sequences = settings(deadline=None, derandomize=True, max_examples=12)


def attack_on(world, received, who, first_pool=0, **others):
    """Return an attack by every rule and momentum, before the first message."""
    given = {"momentum": BETAS, "relevance": RULES, "reference_items": 8, "community_size": 2, **others}
    return started(CDA(CDAOptions(who=who, **given), world), world, received, first_pool)


def naive_scores(world, seen, adversaries, beta, rule, logits):
    """Return the scores that the definition gives; `seen(adversary, victim)` is what counts, oldest first.

    `logits` remembers what the naive momentum model of some versions predicts.
    """
    targets = TargetItems.of(world.feed, adversaries, n_references=8, seed=world.seed)
    expected = np.full((len(adversaries), N_USERS), np.nan, np.float32)
    for a, adversary in enumerate(adversaries):
        own, references = targets.targets_and_references(a)
        for victim in set(range(N_USERS)) - {int(adversary)}:
            versions = seen(adversary, victim)
            if len(versions):
                known = (victim, beta, versions.tobytes())
                if known not in logits:
                    logits[known] = predicted(world, closed_form(versions, beta), victim)
                scores = logits[known]
                expected[a, victim] = RELEVANCE[rule](scores[:, own], scores[:, references])[0]
    return expected


def assert_as_defined(world, rankings, seen, logits=None):
    assert len(rankings) == len(BETAS) * len(RULES)
    logits = {} if logits is None else logits
    for ranking in rankings:
        expected = naive_scores(world, seen, ranking.adversaries, ranking.momentum, ranking.relevance, logits)
        np.testing.assert_allclose(ranking.scores, expected, **TOLERANCE)


@pytest.mark.slow
@both_layouts
@all_forms
@sequences
@given(pairs=pairs_met())
@pytest.mark.full
def test_after_each_reception_a_single_node_scores_the_closed_form_of_momentum(form, user_table, pairs):
    world = make_world(form=form, user_table=user_table)
    received = Receptions.drawn(pairs, world)
    attack, logits = attack_on(world, received, "single"), {}
    for m in range(len(pairs)):
        assert_as_defined(
            world,
            show(attack, world, received, first=m, upto=m + 1),
            lambda adversary, victim, n=m + 1: received.versions(victim, [adversary], n),
            logits,
        )


@pytest.mark.slow
@both_layouts
@all_forms
@sequences
@given(pairs=pairs_met())
@pytest.mark.full
def test_after_each_reception_a_coalition_scores_the_closed_form_of_momentum(form, user_table, pairs):
    world = make_world(form=form, user_table=user_table)
    received = Receptions.drawn(pairs, world)
    attacks = [
        attack_on(world, received, "coalition", first_pool, members=members)
        for first_pool, members in enumerate(COALITIONS)
    ]
    pool_deliveries, logits = received.pool_deliveries(COALITIONS), {}
    for m in range(len(pairs)):
        first, last = np.searchsorted(pool_deliveries.message, [m, m + 1])
        for attack, members in zip(attacks, COALITIONS, strict=True):
            attack.observe_pools(received.rows, pool_deliveries, first, last)
            assert_as_defined(
                world,
                attack.attack.rankings(),
                lambda _, victim, n=m + 1, members=members: received.versions(victim, members, n),
                logits,
            )


@all_forms
def test_several_receptions_of_one_task_count_in_their_order(form):
    world = make_world(form=form)
    received = Receptions.drawn([(1, 0), (2, 0), (1, 0), (1, 0)], world)
    at_once = replace(received.program, node=np.int32([0]), merge_offsets=np.array([0, 4]))
    attack = attack_on(world, received, "single")

    attack.observe(received.rows, at_once, np.array([0]))

    assert_as_defined(
        world, attack.attack.rankings(), lambda adversary, victim: received.versions(victim, [adversary], 4)
    )


@all_forms
@pytest.mark.full
def test_rows_of_float16_take_half_of_the_memory_and_are_rounded_to_the_nearest(form):
    world = make_world(form=form)
    received = Receptions.drawn([(1, 0), (2, 0), (1, 0), (2, 3), (1, 0), (2, 0)], world)
    whole, half = (
        attack_on(world, received, "single", storage=storage) for storage in ("float32", "float16")
    )
    scores = [np.array([r.scores for r in show(attack, world, received)]) for attack in (whole, half)]
    kept, rounded = (attack.attack._observers.memory for attack in (whole, half))

    assert rounded.dtype == np.float16
    assert 2 * rounded.nbytes == kept.nbytes > 0
    np.testing.assert_allclose(rounded.astype(np.float32), kept, atol=2e-3)  # half a place, twice
    assert not np.array_equal(*scores, equal_nan=True)
    np.testing.assert_allclose(*scores, rtol=0.02, atol=0.01)


def test_rows_of_float16_belong_to_single_adversaries():
    with pytest.raises(ValueError, match=r"storage: float16 belongs to who: single, found who: coalition"):
        CDAOptions(who="coalition", fraction=0.5, storage="float16")


@pytest.mark.slow
@all_forms
@sequences
@given(pairs=pairs_met(), seed=st.integers(0, 9))
def test_an_observer_among_many_finds_what_it_finds_alone(form, pairs, seed):
    world = make_world(form=form, seed=seed)
    received = Receptions.drawn(pairs, world)

    def scores(chosen, betas, rules):
        attack = attack_on(world, received, "single", nodes=chosen, momentum=betas, relevance=rules)
        return {
            (r.relevance, r.momentum, a): row.tobytes()
            for r in show(attack, world, received)
            for a, row in zip(r.adversaries.tolist(), r.scores, strict=True)
        }

    together = scores("all", BETAS, RULES)
    assert len(together) == N_USERS * len(BETAS) * len(RULES)
    for number, (rule, beta) in enumerate(itertools.product(RULES, BETAS)):
        adversary = (number + seed) % N_USERS
        alone = scores((adversary,), beta, rule)
        assert alone[rule, beta, adversary] == together[rule, beta, adversary]


@all_forms
def test_the_unmet_and_the_adversary_itself_get_no_score(form):
    world = make_world(form=form)
    received = Receptions.drawn([(1, 0), (0, 1), (0, 1)], world)
    pair = attack_on(world, received, "coalition", members=(0, 1))

    for attack in (attack_on(world, received, "single"), pair):
        for ranking in show(attack, world, received):
            scored = [tuple(place) for place in np.argwhere(~np.isnan(ranking.scores)).tolist()]
            assert scored == [(0, 1), (1, 0)]


@both_layouts
@pytest.mark.parametrize("hidden", [(), (2, 3)], ids=["open", "hidden"])
def test_forms_agree_on_rows_in_float16(hidden, user_table):
    """There are no kernels of GMF for these, so they are stacked where they are many."""
    pairs, found = [(1, 0), (2, 0), (3, 1), (2, 0), (0, 1), (3, 0), (2, 1), (4, 0), (3, 0)], []
    for form in ("plain", "stacked"):
        world = make_world(form=form, storage="float16", hidden=hidden, user_table=user_table)
        received = Receptions.drawn(pairs, world)
        single, pool = (
            attack_on(world, received, who, **more)
            for who, more in (("single", {}), ("coalition", {"members": (0, 1)}))
        )
        found.append([r.scores for attack in (single, pool) for r in show(attack, world, received)])
    for plain, stacked in zip(*found, strict=True):
        assert np.isfinite(plain[:2, 2:4]).any()
        np.testing.assert_allclose(stacked, plain, rtol=2e-4, atol=1e-4)


@all_forms
def test_a_victim_that_diverged_is_met_and_comes_last(form):
    world = make_world(form=form)
    received = Receptions.drawn([(1, 0), (2, 0), (3, 0)], world)
    received.rows[1] = np.nan
    single, pool = (
        attack_on(world, received, "single"),
        attack_on(world, received, "coalition", members=(0, 4)),
    )

    for ranking in show(single, world, received) + show(pool, world, received):
        broken, *others = ranking.scores[0, [2, 1, 3]]
        assert not np.isnan(broken)
        assert broken < min(others) or ranking.relevance == "ndcg"
        assert broken <= min(others)


@all_forms
def test_a_coordinator_is_nobodys_victim(form):
    world = make_world(form=form, coordinator=N_USERS)
    received = Receptions.drawn([(N_USERS, 0), (N_USERS, 1), (1, 0), (N_USERS, 0)], world)
    single, pool = (
        attack_on(world, received, "single"),
        attack_on(world, received, "coalition", members=(0, 1)),
    )

    for ranking in show(single, world, received) + show(pool, world, received):
        assert np.argwhere(~np.isnan(ranking.scores)).tolist() == [[0, 1]]


@all_forms
def test_the_coordinator_scores_for_every_user(form):
    world = make_world(form=form, coordinator=N_USERS)
    received = Receptions.drawn([(user, N_USERS) for user in (0, 1, 2, 1)], world)
    attack = attack_on(world, received, "coordinator")
    rankings = show(attack, world, received)

    assert_as_defined(world, rankings, lambda _, victim: received.versions(victim, [N_USERS], 4))


@all_forms
def test_a_ranking_is_the_same_whenever_rankings_were_asked_for_before(form):
    world = make_world(form=form)
    received = Receptions.drawn([(1, 0), (2, 3), (1, 3), (4, 0), (1, 0)], world)
    found = []
    for stops in [(5,), (1, 2, 5), (2, 3, 4, 5)]:
        attack = attack_on(world, received, "coalition", members=(0, 3))
        for first, last in zip((0, *stops), stops, strict=False):
            rankings = show(attack, world, received, first=first, upto=last)
        found.append([ranking.scores.tobytes() for ranking in rankings])

    assert found[0] == found[1] == found[2]


@all_forms
@given(pairs=pairs_met())
@sequences
def test_kept_memory_is_what_the_meetings_need(form, pairs):
    world = make_world(form=form)
    received = Receptions.drawn(pairs, world)
    attack = attack_on(world, received, "single").attack
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
    received = Receptions.drawn([(1, 0)], world)
    attack = attack_on(world, received, "coalition", fraction=(0.5, 1.0)).attack
    row_bytes = world.own.strides[0]
    scores = len(BETAS) * len(RULES) * (3 + 6) * N_USERS

    assert attack.state_bytes == len(BETAS) * 2 * N_USERS * row_bytes + 4 * scores
