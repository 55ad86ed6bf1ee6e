"""Attacks on told vectors: what they find is there, and noise hides it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from gossiprec.adversaries.attacks import uploads
from gossiprec.adversaries.attacks.uploads import (
    UserVectorOptions,
    UserVectors,
    reidentification_rates,
)
from gossiprec.base.ragged import Ragged
from gossiprec.data.split import Split
from gossiprec.emulation.scoring.upload_leakage import (
    community_accuracies,
    true_vector_ranks,
    true_vectors,
    vector_leakage,
)
from gossiprec.federated.user_vectors import clip_l1, compute_user_vectors
from gossiprec.measures.communities import Communities
from gossiprec.models import MODELS

N, DIM = 300, 16
EVERYBODY = np.arange(N)


def vectors(seed=0):
    """Return users' vectors of L1 norm 1 around a common one."""
    draw = np.random.default_rng(seed)
    rows = draw.normal(0, 1, (N, DIM)) + draw.normal(0, 1, DIM)
    return (rows / np.abs(rows).sum(axis=1, keepdims=True)).astype(np.float32)


def noisy(rows, epsilon, seed):
    return (rows + np.random.default_rng(seed).laplace(0, 2 / epsilon, rows.shape)).astype(np.float32)


def test_without_noise_everybody_is_found():
    rows = vectors()
    assert true_vector_ranks(rows, rows, EVERYBODY)["nearest"] == {"own_first": 1.0, "own_rank": 0.0}
    assert reidentification_rates(rows, rows, 1)["nearest"] == {"reidentified": 1.0}


def test_in_much_noise_nobody_is():
    rows, told, before = vectors(), noisy(vectors(), 0.01, 1), noisy(vectors(), 0.01, 2)
    for how in ("nearest", "likeliest"):
        found = true_vector_ranks(rows, told, EVERYBODY)[how]
        assert found["own_first"] <= 4 / N  # of 300, 1 is expected
        assert found["own_rank"] == pytest.approx(0.5, abs=0.06)  # 3.6 standard errors of 0.289 / sqrt(300)
        assert reidentification_rates(told, before, 1)[how]["reidentified"] <= 4 / N


def test_likelihoods_find_more_than_distances_where_noise_is_large():
    found = true_vector_ranks(vectors(), noisy(vectors(), 20, 1), EVERYBODY)
    assert found["likeliest"]["own_rank"] < 0.6 * found["nearest"]["own_rank"]


def test_what_is_told_often_hides_less():
    told = [noisy(vectors(), 20, seed) for seed in range(16)]
    once, often = (
        true_vector_ranks(vectors(), rows, EVERYBODY)["likeliest"]
        for rows in (told[0], np.mean(told, axis=0))
    )
    assert often["own_rank"] < once["own_rank"] / 3


def test_of_equal_vectors_none_is_told_from_another():
    equal = np.zeros((5, 2), np.float32)
    for how in ("nearest", "likeliest"):
        found = true_vector_ranks(equal, equal, np.arange(5))[how]
        assert found == {"own_first": pytest.approx(1 / 5), "own_rank": 0.5}
        assert reidentification_rates(equal, equal, 1)[how] == {"reidentified": pytest.approx(1 / 5)}
        truth = community_of(
            [[u for u in range(5) if u % 2 == user % 2 and u != user][:1] for user in range(5)]
        )
        assert community_accuracies(equal, equal, np.arange(5), truth)[how] == {"cda": pytest.approx(1 / 4)}


def community_of(members, n_users=None):
    """Return communities of these users, without ties."""
    similarity = np.zeros((len(members), n_users or len(members)))
    for row, some in enumerate(members):
        similarity[row, some] = 1.0
    return Communities.nearest(similarity, len(members[0]))


def test_who_told_nothing_is_neither_looked_for_nor_found():
    rows, told = vectors(), vectors()
    told[::3] = np.nan
    assert true_vector_ranks(rows, told, EVERYBODY)["nearest"] == {"own_first": 1.0, "own_rank": 0.0}
    nobody = np.full_like(told, np.nan)
    assert np.isnan(true_vector_ranks(rows, nobody, EVERYBODY)["likeliest"]["own_rank"])
    assert np.isnan(reidentification_rates(told, nobody, 1)["nearest"]["reidentified"])


def test_communities_are_those_nearest_but_for_the_user_itself():
    rows = np.repeat(np.eye(4, 3), 5, axis=0)  # five users alike each, four times
    told = (rows + np.arange(20)[:, None] * 1e-3).astype(np.float32)
    alike = np.array([[u for u in range(20) if u // 5 == user // 5 and u != user] for user in range(20)])
    found = community_accuracies(rows.astype(np.float32), told, np.arange(20), community_of(alike))
    assert found["nearest"] == {"cda": 1.0}
    told[1] = np.nan
    some = np.array([0, 6])
    found = community_accuracies(rows[some].astype(np.float32), told, some, community_of(alike[some], 20))
    assert found["nearest"]["cda"] == (0.75 + 1.0) / 2


def test_how_many_are_looked_at_together_changes_nothing(monkeypatch):
    rows, told = vectors(), noisy(vectors(), 40, 1)
    expected = true_vector_ranks(rows, told, EVERYBODY), reidentification_rates(told, rows, 1)
    monkeypatch.setattr(uploads, "AT_ONCE", 7)
    assert (true_vector_ranks(rows, told, EVERYBODY), reidentification_rates(told, rows, 1)) == expected


def test_only_some_are_looked_for_among_all(monkeypatch):
    monkeypatch.setattr(uploads, "MOST", 40)
    some = uploads.sample_users(N, 3)
    assert len(some) == 40
    assert (np.diff(some) > 0).all()
    assert some.tolist() != uploads.sample_users(N, 4).tolist()
    assert reidentification_rates(vectors(), vectors(), 3)["nearest"] == {"reidentified": 1.0}


def world(name):
    """Return a model, its layout, a version, a split of users in two camps, and rows of these."""
    model = MODELS[name](MODELS[name].Options(dim=DIM, loss="sampled"))
    layout, draw = model.layout(40), np.random.default_rng(2)
    items = draw.normal(0, 1, (40, DIM)) + np.repeat(np.eye(2, DIM), 20, axis=0) * 6
    shared = draw.normal(0, 0.3, layout.n_shared)
    sets = [20 * (user % 2) + draw.choice(20, 6, replace=False) for user in range(N)]
    train = Ragged.from_parts([np.sort(part).astype(np.int32) for part in sets])
    ordered = Ragged.from_parts([np.asarray(part, np.int32) for part in sets])
    nothing = Ragged.from_sizes(np.zeros(N, np.int64), np.zeros(0, np.int32))
    split = Split("two camps", N, 40, train, nothing, nothing, sequences=ordered)
    own = (
        np.array([items[part].mean(axis=0) for part in sets], np.float32)
        if layout.user_width
        else np.zeros((N, 0), np.float32)
    )
    return model, layout, np.concatenate([items.ravel(), shared]).astype(np.float32), split, own


def attack_on(model, layout, version, split):
    """Return the attack of a coordinator, node N, with a version."""
    row = np.zeros((1, layout.row_size), np.float32)
    row[0, layout.merged] = version
    world = SimpleNamespace(
        scorer=SimpleNamespace(model=model, layout=layout), n_users=N, seed=5, coordinator=N,
        feed_of_nodes=model.make_feed(split.training_data()).restricted_to, models_of_nodes=lambda nodes: row,
    )  # fmt: skip
    return UserVectors(UserVectorOptions(community_size=10, clip=1.0), world)


def upload(attack, senders, rows):
    attack.observe(SimpleNamespace(user_uploads=lambda: rows, senders=np.asarray(senders)))


def leakage(told, model, layout, version, split, own):
    """Return the figures of the attack after some uploads of all users, the last of them last."""
    attack = attack_on(model, layout, version, split)
    for rows in told:
        upload(attack, EVERYBODY, rows)
    vectors = true_vectors(model, layout, version, split.training_data(), own)
    return vector_leakage(attack.upload_guesses(), clip_l1(vectors, 1.0).astype(np.float32), split, k=10)


def test_the_attack_keeps_the_last_two_vectors_of_each_user_and_the_mean():
    attack = attack_on(*world("gru4rec")[:4])
    nothing, one, two, three = (np.full(DIM, value, np.float32) for value in (np.nan, 1, 2, 6))
    upload(attack, [1, 2], np.stack([one, two]))
    upload(attack, [1, 4, 1, N + 1], np.stack([two, nothing, three, one]))  # one client twice, and a poisoner
    found = attack.upload_guesses()
    assert found.latest[[1, 2]].tolist() == [three.tolist(), two.tolist()]
    assert found.before[1].tolist() == two.tolist()
    assert found.means[[1, 2], 0].tolist() == [3, 2]
    assert np.isnan(found.before[2]).all()
    assert np.isnan(found.latest[4]).all()
    assert np.isnan(found.means[4]).all()
    assert np.count_nonzero(np.isfinite(found.latest).all(axis=1)) == 2


@pytest.mark.parametrize("name", ["gru4rec", "two-tower"])
def test_exact_vectors_give_users_away_and_noisy_ones_do_not(name):
    model, layout, version, split, own = world(name)
    true = clip_l1(
        compute_user_vectors(model, layout, version, [split.sequences[u] for u in range(N)], own), 1.0
    )
    found = {}
    for epsilon in (1e6, 0.1):
        told = [noisy(true, epsilon, seed) for seed in range(3)]
        found[epsilon] = leakage(told, model, layout, version, split, own)
    exact, hidden = found[1e6], found[0.1]
    assert exact["nearest"]["own_first"] > 0.95
    assert exact["nearest"]["own_rank_of_means"] < 0.01
    assert exact["nearest"]["reidentified"] > 0.95
    assert exact["nearest"]["cda"] == pytest.approx(exact["exact"]["cda"], abs=0.02)
    assert exact["exact"]["cda"] > 2 * exact["random"]["cda"]  # who is in the same camp
    assert hidden["likeliest"]["own_rank"] == pytest.approx(0.5, abs=0.07)
    assert hidden["likeliest"]["cda"] == pytest.approx(hidden["random"]["cda"], abs=0.03)
    assert hidden["random"] == {
        "reidentified": 1 / N,
        "own_first": 1 / N,
        "own_rank": 0.5,
        "cda": 10 / (N - 1),
    }
    assert set(hidden["nearest"]) == set(hidden["likeliest"]) == {
        "reidentified", "own_first", "own_rank", "own_first_of_means", "own_rank_of_means", "cda", "cda_of_means"
    }  # fmt: skip


def test_whoever_attacks_rows_of_users_has_items_alone_to_look_with():
    model, layout, version, split, own = world("two-tower")
    turned = np.roll(own, 5, axis=1)  # users alike have rows alike, which say nothing of items
    told = clip_l1(turned, 1.0).astype(np.float32)
    found = leakage([told], model, layout, version, split, turned)
    assert found["nearest"]["own_first"] > 0.95
    assert found["exact"]["cda"] < 1.5 * found["random"]["cda"]
