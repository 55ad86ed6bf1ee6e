"""Communities put into the data: the attack finds them, and nothing where there is no link to find."""

import numpy as np
import pytest

from gossiprec.adversaries.attacks import Ranking
from gossiprec.base.ragged import Ragged
from gossiprec.data.split import Split
from gossiprec.emulation.scoring.ranking_scores import RankingScores
from tests.emulation.tiny_runs import SINGLE, carried_out, tiny

GROUPS, MEMBERS, TASTES = 4, 7, 20
"""Four groups of seven users; each user has 12 of the 20 items that only its group likes."""
N = GROUPS * MEMBERS
K = MEMBERS - 1
RULES = ["mean_score", "ndcg", "standardized"]
TRUTHS = 200


@pytest.fixture(scope="module", params=["reference", "fused"])
def met(request, tmp_path_factory):
    """Return the split of a planted world and the final rankings of all its adversaries."""
    draw, lines = np.random.default_rng(0), []
    for user in range(N):
        for item in draw.choice(TASTES, 12, replace=False):
            lines.append(f"{user}\t{item + TASTES * (user % GROUPS)}\n")
    path = tmp_path_factory.mktemp("planted") / "pairs.tsv"
    path.write_text("".join(lines))
    dataset = {
        "name": "file",
        "path": str(path),
        "columns": ["user", "item"],
        "split": {"name": "leave_last_k", "test": 1, "validation": 0},
    }
    observed = {"community_size": K, "momentum": 0.9, "relevance": RULES}
    coalition = {"name": "cda", "who": "coalition", "fraction": 0.25, "reference_items": 9}
    prepared = carried_out(
        tiny(
            dataset=dataset,
            executor={"name": request.param},
            training={"batch_size": 16, "learning_rate": 0.05, "local_epochs": 2},
            protocol={"name": "rand-gossip", "fanout": 3, "view": {"size": 3}, "wakes": 25},
            observers=[{**SINGLE, **observed}, {**coalition, **observed}],
        )
    )
    rankings = [ranking for attack in prepared.attacks for ranking in attack.rankings()]
    return prepared.components.split, rankings


def accuracy(split, ranking):
    row = RankingScores(split, K).score([ranking], time=0.0, round=0)[0]
    assert row["random_bound"] == K / N
    return row["aac"]


def with_users_shuffled(split, seed):
    """Return the split in which users have one another's items."""
    order = np.random.default_rng(seed).permutation(N)
    items = np.concatenate([split.train[user] for user in order])
    train = Ragged.sets_from_pairs(np.repeat(np.arange(N), split.train.sizes[order]), items, N)
    return Split(split.name, N, split.n_items, train, split.validation, split.test)


@pytest.mark.slow
def test_the_attack_finds_planted_communities(met):
    # Of 28 users 6 are right: a guesser finds 0.22 with a standard error of 0.03 over 28 adversaries.
    split, rankings = met
    assert [ranking.observer for ranking in rankings] == ["single"] * 3 + ["coalition-25%"] * 3
    for ranking in rankings:
        assert accuracy(split, ranking) > 0.8


@pytest.mark.slow
@pytest.mark.full
def test_against_the_communities_of_shuffled_users_the_attack_guesses(met):
    """Relabelling users at random makes the truth a uniform choice of K others for every adversary.

    So the expected accuracy is exactly ``K / (N - 1)`` times the share of the K that was met. Tolerance: four
    standard errors over the draws, themselves estimated.
    """
    split, rankings = met
    truths = [with_users_shuffled(split, seed) for seed in range(TRUTHS)]
    for ranking in rankings:
        full = (~np.isnan(ranking.scores)).sum(axis=1) >= K
        assert full.all()
        found = np.array([accuracy(truth, ranking) for truth in truths])
        error = found.std() / np.sqrt(TRUTHS)
        assert error < 0.01
        assert found.mean() == pytest.approx(K / (N - 1), abs=4 * error)


@pytest.mark.slow
def test_scores_given_to_the_wrong_victims_find_nothing(met):
    split, rankings = met
    for ranking in rankings:
        turned = np.roll(ranking.scores, 1, axis=1)  # the group of a user is its id modulo the groups
        wrong = Ranking(ranking.observer, ranking.relevance, 0.9, (K,), ranking.adversaries, turned)
        assert accuracy(split, wrong) < 0.2
