"""What the coordinator learns from contributed sets: all of it without perturbation, and chance with nothing else."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from contributing import alike, drawn_at_random, users_with

from gossiprec.adversaries.attacks.uploads import ContributionGuesses, membership_evidence
from gossiprec.base.errors import ScenarioError
from gossiprec.base.ragged import Ragged
from gossiprec.emulation.scoring.upload_leakage import N_SAMPLED, sampled_pairs, score_membership
from gossiprec.federated.pdc_frs.contribution import perturb_items
from gossiprec.measures.attack_accuracy import overlap_fractions
from gossiprec.measures.communities import jaccard_communities

N_USERS, N_ITEMS, K = 120, 60, 10
TRAIN = users_with([12] * N_USERS, N_ITEMS)
POPULARITY = np.bincount(TRAIN.values, minlength=N_ITEMS)


def contribution(epsilon, train=TRAIN, similarity=None):
    return perturb_items(train, similarity or drawn_at_random(N_ITEMS), epsilon=epsilon, seed=2)


def guesses(given, popularity=POPULARITY, k=K):
    """Return what an attack guesses that sees no auxiliary model."""
    released = given.released
    return ContributionGuesses(
        released.sets,
        jaccard_communities(released.sets, n_items=len(popularity), k=k),
        popularity,
        functools.partial(membership_evidence, released, popularity),
        lambda: iter(()),
    )


def membership(epsilon, popularity=POPULARITY):
    return score_membership(guesses(contribution(epsilon), popularity), TRAIN, n_sampled=N_SAMPLED, seed=3)


def community(given):
    true = jaccard_communities(TRAIN, n_items=N_ITEMS, k=K)
    return float(overlap_fractions(true, guesses(given).communities).mean())


def test_sets_that_are_not_perturbed_tell_everything():
    bare = contribution(1e5)
    members = jaccard_communities(TRAIN, n_items=N_ITEMS, k=K).membership_matrix()
    known = float((members**2).sum() / members.sum())  # of users tied at the border, a guess at random
    assert 0.5 < known < 1
    assert community(bare) == pytest.approx(known)
    leak = membership(1e5)
    assert [leak[name] for name in ("mia_precision", "mia_recall", "mia_f1", "mia_auc")] == [1, 1, 1, 1]


def test_sets_that_are_noise_tell_no_more_than_a_guess():
    """Of n independent shares p the mean has a deviation of sqrt(p (1 - p) / n); five of them. Sizes are all alike."""
    bound = K / (N_USERS - 1)
    assert community(contribution(1e-9)) == pytest.approx(
        bound, abs=5 * math.sqrt(bound / (N_USERS * K)) + 0.01
    )

    found = membership(1e-9)
    share = 12 / N_ITEMS
    assert found["mia_precision"] == pytest.approx(share, abs=5 * math.sqrt(share / (N_USERS * 12)))
    assert found["mia_auc"] == pytest.approx(0.5, abs=5 * math.sqrt(0.25 / (N_USERS * 12)))
    assert found["mia_auc_popularity"] == pytest.approx(0.5, abs=5 * math.sqrt(0.25 / (N_USERS * 12)))


def test_with_noise_alone_the_posterior_is_the_prior():
    popularity = 2 * (POPULARITY * N_ITEMS + np.arange(N_ITEMS))  # no ties, with or without the user
    found = membership(1e-9, popularity=popularity)
    assert found["mia_auc"] == found["mia_auc_popularity"] > 0.5


def test_the_user_itself_is_no_part_of_the_popularity_of_its_items():
    users, members, others = sampled_pairs(TRAIN, N_ITEMS, N_SAMPLED, 3)
    has = np.array([np.isin(np.arange(N_ITEMS), TRAIN[user]) for user in range(N_USERS)])
    of_others = np.stack([has.sum(axis=0)[item] - has[users, item] for item in (members, others)], axis=1)
    above, tied = of_others[:, 0] > of_others[:, 1], of_others[:, 0] == of_others[:, 1]
    found = membership(1e-9)
    assert found["mia_auc_popularity"] == pytest.approx(above.mean() + tied.mean() / 2)
    assert found["mia_auc"] == pytest.approx(found["mia_auc_popularity"], abs=0.005), (
        "0.55 if the user counts"
    )


def test_an_item_that_no_other_user_has_is_found():
    train = Ragged.from_parts([np.array([0, 1], np.int32), np.array([1, 2], np.int32)])
    given = contribution(1e5, train, drawn_at_random(5))
    found = guesses(given, np.bincount(train.values, minlength=5), k=1)
    assert score_membership(found, train, n_sampled=N_SAMPLED, seed=1)["mia_auc"] == 1


def test_more_budget_leaks_more():
    found = [membership(epsilon) for epsilon in (1.0, 8.0, 14.0, 40.0)]
    for name in ("mia_precision", "mia_recall", "mia_f1", "mia_auc"):
        values = [leak[name] for leak in found]
        assert values == sorted(values)
        assert len(set(values)) == len(values)


def test_the_simple_guess_is_counted_pair_by_pair():
    train = users_with([3, 5, 8], 12)
    given = contribution(6.0, train, alike(12))
    true, guessed = (
        {(user, item) for user in range(3) for item in sets[user].tolist()} for sets in (train, given.sets)
    )
    found = guesses(given, np.bincount(train.values, minlength=12), k=2)
    leak = score_membership(found, train, n_sampled=N_SAMPLED, seed=1)
    both = len(true & guessed)
    precision, recall = leak["mia_precision"], leak["mia_recall"]
    assert (precision, recall) == (both / len(guessed), both / len(true))
    assert leak["mia_f1"] == pytest.approx(2 / (1 / precision + 1 / recall))
    assert 0 < both < len(true)


def test_the_posterior_is_that_of_bayes():
    train, similarity = Ragged.from_parts([np.array([2], np.int32)]), drawn_at_random(5)
    popularity = np.array([5, 1, 3, 2, 0])
    given = contribution(4.0, train, similarity)
    weights = np.exp(similarity.table.astype(float) * 2)
    chances = (weights / weights.sum(axis=1, keepdims=True))[:, given.drawn[0]]
    for own in (np.zeros(5, np.int64), np.array([0, 1, 0, 0, 0])):
        score = membership_evidence(
            given.released, popularity, np.zeros(5, np.int64), np.arange(5), popularity - own
        )
        joint = chances * (popularity - own + 1)
        assert 1 - np.exp(-score) == pytest.approx(joint / (chances * (popularity + 1)).sum())


def test_a_sample_is_of_items_and_of_others_of_the_same_user():
    train = users_with([1, 59, 30], N_ITEMS)
    for seed in range(5):
        users, members, others = sampled_pairs(train, N_ITEMS, 50, seed)
        assert len(users) == 50
        for user, member, other in zip(users, members, others, strict=True):
            assert member in train[user]
            assert 0 <= other < N_ITEMS
            assert other not in train[user]
    assert len(sampled_pairs(train, N_ITEMS, 1000, 0)[0]) == 90


def test_a_community_of_more_than_all_others_is_refused():
    with pytest.raises(ScenarioError, match="community_size is 120"):
        guesses(contribution(5.0), k=N_USERS)
