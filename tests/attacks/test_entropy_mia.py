"""Entropy-based membership inference: what is taken for a member, who is ranked first, and what is exposed."""

import math

import numpy as np
import pytest
from pydantic import ValidationError

from gossiprec.adversaries.attacks.entropy_mia import EntropyMIA, EntropyMIAOptions
from gossiprec.base.ragged import Ragged
from gossiprec.data.split import Split
from gossiprec.emulation.scoring.attack_results import AttackResults, membership_metric_rows
from gossiprec.emulation.scoring.judges import Truth
from gossiprec.numerics.relevance import MEMBERS, count_members, entropy, get_rule, rule_code
from tests.attacks.glimpses import (
    N_USERS,
    Receptions,
    all_forms,
    closed_form,
    guess_rates,
    make_world,
    predicted,
    show,
    started,
)

THRESHOLDS = (0.2, 0.6, 1.0)
BETAS = (0.0, 0.9)
PAIRS = [(1, 0), (2, 0), (3, 1), (2, 0), (0, 1), (3, 0), (4, 1), (5, 0), (2, 1)]


def logit(p):
    return math.log(p / (1 - p))


def attack_on(world, received, **options):
    given = {"threshold": THRESHOLDS, "momentum": BETAS, "community_size": 2, **options}
    return started(EntropyMIA(EntropyMIAOptions(**given), world), world, received)


def test_the_entropy_of_a_probability_is_that_of_the_paper():
    for p in (0.01, 0.3, 0.5, 0.9, 0.999):
        assert entropy(np.array([logit(p)]))[0] == pytest.approx(-(1 - p) * math.log(p))
    assert entropy(np.array([-800.0, 800.0])).tolist() == [800.0, 0.0]


def test_members_are_counted_and_ties_go_to_the_less_surprised():
    # Entropies: p = 0.5: 0.347, 0.8: 0.0446, 0.9: 0.0105, 0.2: 1.288.
    scores = np.array(
        [[logit(p) for p in row] for row in [(0.5, 0.8, 0.2), (0.5, 0.9, 0.2), (0.5, 0.5, 0.5)]]
    )
    none = np.zeros((3, 0), np.float32)
    at_02, at_04, at_2 = (
        count_members(scores.astype(np.float32), none, threshold=rho) for rho in (0.2, 0.4, 2.0)
    )
    assert np.floor(at_02).tolist() == [1, 1, 0]
    assert np.floor(at_04).tolist() == [2, 2, 3]
    assert np.floor(at_2).tolist() == [3, 3, 3]
    assert at_02[1] > at_02[0]
    assert at_2[2] > at_2[1] > at_2[0]


def test_a_model_of_no_numbers_comes_last():
    scores = np.array([[np.nan, 1.0], [-50.0, -50.0]], np.float32)
    assert count_members(scores, scores[:, :0], threshold=0.5).tolist()[0] == -np.inf


def test_rules_are_named_after_their_threshold():
    assert rule_code("mia-0.4") == (MEMBERS, 0.4)
    scores = np.array([[0.0, 3.0]], np.float32)
    assert get_rule("mia-0.4")(scores, scores) == count_members(scores, scores, threshold=0.4)


@all_forms
def test_single_nodes_and_pools_count_members_of_momentum_models(form):
    world = make_world(form=form, coordinator=N_USERS)
    received = Receptions.drawn(PAIRS, world)
    single = attack_on(world, received, who="single")
    pool = attack_on(world, received, who="coalition", members=(0, 1))
    for attack, share in ((single, False), (pool, True)):
        rankings = show(attack, world, received)
        assert [r.relevance for r in rankings] == ["mia-0.2", "mia-0.6", "mia-1"] * 2
        for ranking in rankings:
            rule = get_rule(ranking.relevance)
            for a, adversary in enumerate(ranking.adversaries.tolist()):
                for victim in set(range(N_USERS)) - {adversary}:
                    versions = received.versions(victim, (0, 1) if share else (adversary,), len(PAIRS))
                    assert np.isnan(ranking.scores[a, victim]) == (len(versions) == 0)
                    if len(versions):
                        scores = predicted(world, closed_form(versions, ranking.momentum), victim)
                        expected = rule(scores[:, world.targets[adversary]], scores[:, :0])[0]
                        assert ranking.scores[a, victim] == pytest.approx(expected, abs=1e-4)


@all_forms
@pytest.mark.parametrize("hidden", [(), (2, 3)])
def test_rates_are_those_of_all_pairs_of_a_victim_and_an_adversarys_item(form, hidden):
    world = make_world(form=form, hidden=hidden)
    received = Receptions.drawn(PAIRS, world)
    pool = attack_on(world, received, who="coalition", members=(0, 1), fictive_user="own_embedding")
    show(pool, world, received)
    layout = world.layout
    shown = list(pool.attack.guesses())
    assert [guess.momentum for guess in shown] == list(BETAS)
    for guesses in shown:
        rows = guess_rates(world.targets, layout.n_items, guesses)
        for row, rho in zip(rows, THRESHOLDS, strict=True):
            table = np.zeros((2, 2), int)  # guessed, true
            for adversary in (0, 1):
                for victim in set(range(N_USERS)) - {adversary}:
                    model = closed_form(received.versions(victim, (0, 1), len(PAIRS)), guesses.momentum)
                    if victim in hidden:
                        model[layout.users], model[layout.shared] = (
                            world.own[adversary, part] for part in (layout.users, layout.shared)
                        )
                    entropies = entropy(predicted(world, model, victim))[0]
                    for item in world.targets[adversary]:
                        table[int(entropies[item] < rho), int(item in world.targets[victim])] += 1
            assert row["threshold"] == rho
            assert row["relevance"] == f"mia-{rho:g}"
            assert row["accuracy"] == pytest.approx((table[0, 0] + table[1, 1]) / table.sum())
            assert row["precision"] == pytest.approx(table[1, 1] / table[1].sum())
            assert row["recall"] == pytest.approx(table[1, 1] / table[:, 1].sum())


def test_rates_of_a_hand_worked_example():
    """Adversary 0 has items 0, 1, 2; victim 1 has items 1, 2, 3; victim 2 has item 0.

    Guessed below 0.5: of victim 1 items 0 and 1, of victim 2 items 0 and 2. Four guesses, two right; three true
    pairs, (1, 1), (1, 2) and (2, 0), of which two are guessed; of six pairs, (1, 1), (2, 0) and (2, 1) are right.
    """
    from gossiprec.adversaries.attacks import MembershipGuesses

    train = Ragged.sets_from_pairs(np.array([0, 0, 0, 1, 1, 1, 2]), np.array([0, 1, 2, 1, 2, 3, 0]), 3)
    guesses = MembershipGuesses(
        observer="coordinator",
        momentum=0.99,
        thresholds=(0.5, 0.01),
        adversaries=np.array([0]),
        offsets=np.array([0, 3]),
        items=np.array([0, 1, 2], np.int32),
        victims=np.array([0, 1, 2]),
        entropies=np.array([[0.1, 0.1, 0.1, 0.1], [0.1, 0.2, 0.9, 0.1], [0.1, 0.9, 0.1, 0.1]], np.float32),
        hidden=np.zeros(0, np.int64),
        hidden_entropies=lambda a: np.zeros((0, 3), np.float32),
    )
    high, low = guess_rates(train, 4, guesses)
    assert (high["accuracy"], high["precision"], high["recall"]) == (3 / 6, 2 / 4, 2 / 3)
    assert (low["accuracy"], low["precision"], low["recall"]) == (3 / 6, None, 0.0)
    split = Split("drawn", 3, 4, train, train, train)
    findings = AttackResults(Truth(split)).note([("entropy-mia", guesses)], time=1.0, round=1)
    assert [row["labels"]["relevance"] for row in findings] == 3 * ["mia-0.5"] + 3 * ["mia-0.01"]
    assert dict(membership_metric_rows(findings)) == {
        "mia_accuracy[coordinator,b0.99,0.5]": 3 / 6,
        "mia_precision[coordinator,b0.99,0.5]": 2 / 4,
        "mia_recall[coordinator,b0.99,0.5]": 2 / 3,
        "mia_accuracy[coordinator,b0.99,0.01]": 3 / 6,
        "mia_recall[coordinator,b0.99,0.01]": 0.0,
    }


def test_a_coordinator_may_guess_itself():
    """The coordinator, node 3, guesses at all items: of victim 1 items 0, 1, 3, of victim 2 items 0, 2, 3."""
    from gossiprec.adversaries.attacks import MembershipGuesses

    train = Ragged.sets_from_pairs(np.array([0, 0, 0, 1, 1, 1, 2]), np.array([0, 1, 2, 1, 2, 3, 0]), 3)
    guesses = MembershipGuesses(
        observer="coordinator",
        momentum=0.0,
        thresholds=(0.5,),
        adversaries=np.array([3]),
        offsets=np.array([0, 4]),
        items=np.arange(4, dtype=np.int32),
        victims=np.array([1, 2]),
        entropies=np.array([[0.1, 0.2, 0.9, 0.1], [0.1, 0.9, 0.1, 0.1]], np.float32),
    )
    (row,) = guess_rates(train, 4, guesses)
    assert (row["accuracy"], row["precision"], row["recall"]) == (4 / 8, 3 / 6, 3 / 4)


def test_single_adversaries_expose_no_guesses():
    world = make_world()
    received = Receptions.drawn(PAIRS, world)
    single = attack_on(world, received, who="single")
    show(single, world, received)
    assert list(single.attack.guesses()) == []


@pytest.mark.parametrize(
    ("message", "options"),
    [
        ("greater than 0", {"who": "single", "threshold": 0}),
        ("greater than 0", {"who": "single", "threshold": (0.2, -0.4)}),
        ("at least 1 item", {"who": "single", "threshold": ()}),
        ("Extra inputs are not permitted", {"who": "single", "relevance": "ndcg"}),
        ("less than 1", {"who": "single", "momentum": 1.0}),
        ("a coalition requires either fraction or members", {"who": "coalition"}),
    ],
)
def test_what_does_not_fit_is_refused(message, options):
    with pytest.raises(ValidationError, match=message):
        EntropyMIAOptions(**options)
