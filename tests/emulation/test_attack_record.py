"""Joining rankings with the truth: every column of attacks.csv, the best round and the summary, naively."""

import math
from dataclasses import replace

import numpy as np
import pytest

from gossiprec.adversaries.attacks import Ranking
from gossiprec.base.errors import PluginError, ScenarioError
from gossiprec.base.machine import ThreadPool
from gossiprec.base.ragged import Ragged
from gossiprec.data.split import Split
from gossiprec.emulation.scoring.ranking_scores import RankingScores
from gossiprec.measures.selectors import attack_key
from tests.chances import chances, expected_accuracy

N, N_ITEMS, SIZES = 13, 30, (2, 5)


def drawn_split(seed=0):
    rng = np.random.default_rng(seed)
    items = np.concatenate([rng.choice(N_ITEMS, 8, replace=False) for _ in range(N)])
    train = Ragged.sets_from_pairs(np.repeat(np.arange(N), 8), items, N)
    empty = Ragged(np.zeros(N + 1, np.int64), np.zeros(0, np.int32))
    return Split("drawn", N, N_ITEMS, train, empty, empty)


def ranking(seed, adversaries=range(N), observer="single"):
    """Return random scores on a coarse scale, with ties; a third of the victims are not met."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 5, (len(adversaries), N)).astype(np.float32)
    scores[rng.random(scores.shape) < 0.33] = np.nan
    scores[np.arange(len(adversaries)), list(adversaries)] = np.nan
    return Ranking(observer, "ndcg", 0.9, SIZES, np.array(adversaries), scores)


def community(split, user, size):
    """Return the membership of each other user."""
    sets = [set(split.train[u].tolist()) for u in range(N)]
    alike = {u: len(sets[user] & sets[u]) / len(sets[user] | sets[u]) for u in range(N) if u != user}
    return chances(alike, size)


def found_by(scores, size):
    """Return how likely each victim that was met is guessed."""
    return chances({v: scores[v] for v in range(N) if not math.isnan(scores[v])}, size)


def naive_accuracies(split, ranking, size):
    return [
        expected_accuracy(found_by(scores, size), community(split, adversary, size), size)
        for adversary, scores in zip(ranking.adversaries.tolist(), ranking.scores, strict=True)
    ]


def naive_bound(split, ranking, size):
    met = ~np.isnan(ranking.scores)
    truth = [community(split, adversary, size) for adversary in ranking.adversaries.tolist()]
    return np.mean([sum(m * met[a, v] for v, m in members.items()) / size for a, members in enumerate(truth)])


@pytest.mark.parametrize("threads", [None, ThreadPool(3)], ids=["one-thread", "three-threads"])
@pytest.mark.parametrize("adversaries", [range(N), [3, 8, 11]])
def test_a_row_is_what_the_definitions_say(adversaries, threads):
    split, now = drawn_split(), ranking(1, adversaries)
    rows = RankingScores(split, SIZES, threads=threads).score([now], time=2.5, round=2)
    assert [row["community_size"] for row in rows] == list(SIZES)
    for row, size in zip(rows, SIZES, strict=True):
        shares = naive_accuracies(split, now, size)
        best = sorted(shares)[-math.ceil(len(shares) / 10) :]
        assert row == {
            "observer": "single",
            "relevance": "ndcg",
            "momentum": 0.9,
            "community_size": size,
            "time": 2.5,
            "round": 2,
            "aac": pytest.approx(np.mean(shares)),
            "best10_min": pytest.approx(min(best)),
            "best10_mean": pytest.approx(np.mean(best)),
            "upper_bound": pytest.approx(naive_bound(split, now, size)),
            "random_bound": size / N,
        }


def test_the_best_round_is_the_first_with_the_highest_mean_and_bounds_are_the_last():
    split, rounds = drawn_split(), [ranking(seed) for seed in (3, 4, 5, 6) * 2]  # the best round comes twice
    record = RankingScores(split, SIZES)
    for number, now in enumerate(rounds):
        record.score([now], time=float(number), round=number)
    for place, size in enumerate(SIZES):
        shares = [naive_accuracies(split, now, size) for now in rounds]
        means = [np.mean(share) for share in shares]
        best = int(np.argmax(means))
        summary = record.summary()[place]
        assert len(set(means)) > 2
        assert summary["at_round"] == best
        assert summary["max_aac"] == pytest.approx(max(means))
        assert summary["last_aac"] == pytest.approx(means[-1])
        assert summary["best10_min"] == pytest.approx(min(sorted(shares[best])[-2:]))
        assert summary["best10_mean"] == pytest.approx(np.mean(sorted(shares[best])[-2:]))
        assert summary["upper_bound"] == pytest.approx(naive_bound(split, rounds[-1], size))
        assert summary["random_bound"] == size / N
        key = attack_key(observer="single", relevance="ndcg", momentum=0.9, community_size=size)
        nodes, accuracies = record.adversaries()[key]
        assert nodes.tolist() == list(range(N))
        assert accuracies.tolist() == pytest.approx(shares[best])


def test_a_round_that_is_better_by_a_rounding_error_is_not_the_best():
    """Two orders of the same adversaries have the same accuracies, whose sums differ in the last bit."""
    split, best = drawn_split(), []
    for seed in range(20):
        now = ranking(seed)
        for order in (np.arange(N), np.random.default_rng(seed).permutation(N)):
            turned = replace(now, adversaries=now.adversaries[order], scores=now.scores[order])
            best.append(RankingScores(split, SIZES).score([turned], time=0.0, round=0)[0]["aac"])
            if len(best) % 2 == 0 and best[-2] < best[-1]:
                record = RankingScores(split, SIZES[:1])
                for number, each in enumerate((now, turned)):
                    record.score([replace(each, community_sizes=SIZES[:1])], time=0.0, round=number)
                assert record.summary()[0]["at_round"] == 0
                return
    pytest.fail("found no two sums that differ")


def test_rankings_of_users_that_do_not_exist_or_come_twice_are_refused():
    for changes, words in (
        (
            {"adversaries": np.array([N])},
            "single ranks for adversary 13; expected 0 to 12",
        ),
        (
            {"adversaries": np.array([2, 2]), "scores": np.zeros((2, N))},
            "single ranks for an adversary twice",
        ),
        (
            {"scores": np.zeros((1, N - 1))},
            r"single ranks with scores of shape \(1, 12\); expected \(1, 13\)",
        ),
        ({"views": (np.zeros((2, N)),)}, r"single ranks with scores of shape \(2, 13\); expected \(1, 13\)"),
    ):
        broken = replace(ranking(1, [3]), **changes)
        with pytest.raises(PluginError, match=words):
            RankingScores(drawn_split(), SIZES).score([broken], time=1.0, round=1)


def at_best_rounds():
    """Yield the split, the record of four rounds, and for each community size the attack's key and its best round."""
    split, rounds = drawn_split(), [ranking(seed, [1, 3, 8, 11]) for seed in (3, 4, 5, 6)]
    record = RankingScores(split, SIZES)
    for number, now in enumerate(rounds):
        record.score([now], time=float(number), round=number)
    for size in SIZES:
        best = max(rounds, key=lambda now: np.mean(naive_accuracies(split, now, size)))
        key = attack_key(observer="single", relevance="ndcg", momentum=0.9, community_size=size)
        yield split, record, size, key, best


def test_exposure_is_the_share_of_the_interested_that_found_a_user_at_the_best_round():
    for split, record, size, key, best in at_best_rounds():
        (exposure,) = (values for name, _, values in record.values_per_node() if name == f"found[{key}]")
        for user in range(N):
            interested = [community(split, a, size).get(user, 0) for a in best.adversaries.tolist()]
            found = [found_by(scores, size).get(user, 0) for scores in best.scores]
            credit = sum(m * f for m, f in zip(interested, found, strict=True))
            expected = float(credit / sum(interested)) if sum(interested) else math.nan
            assert exposure[user] == pytest.approx(expected, nan_ok=True)
            assert not math.isnan(exposure[user]) or not any(interested)


def test_hits_are_the_pairs_that_no_tie_decides():
    n_hits = 0
    for split, record, size, key, best in at_best_rounds():
        expected = {
            (adversary, user)
            for place, adversary in enumerate(best.adversaries.tolist())
            for user, chance in found_by(best.scores[place], size).items()
            if chance == community(split, adversary, size)[user] == 1
        }
        hits = [tuple(pair) for pair in record.hits()[key].tolist()]
        assert set(hits) == expected
        assert len(hits) == len(expected)
        n_hits += len(hits)
    assert n_hits


def test_the_summary_names_the_share_of_the_communities_that_ties_decide():
    for split, record, size, _, best in at_best_rounds():
        shares = [
            sum(m for m in community(split, a, size).values() if m < 1) / size
            for a in best.adversaries.tolist()
        ]
        [row] = [row for row in record.summary() if row["community_size"] == size]
        assert row["tied_share"] == pytest.approx(float(np.mean(shares)))
        assert row["tied_share"] > 0


def test_an_attack_that_scores_all_alike_finds_what_guessing_finds():
    split = drawn_split()
    equal = np.ones((N, N), np.float32)
    np.fill_diagonal(equal, np.nan)
    now = Ranking("single", "ndcg", 0.9, SIZES, np.arange(N), equal)
    for row, size in zip(RankingScores(split, SIZES).score([now], time=1.0, round=1), SIZES, strict=True):
        assert row["aac"] == row["best10_min"] == pytest.approx(size / (N - 1))
        assert row["upper_bound"] == pytest.approx(1.0)


def test_attacks_are_kept_apart():
    split = drawn_split()
    record = RankingScores(split, SIZES)
    record.score([ranking(1), ranking(2, [3, 8], "coalition-20%")], time=1.0, round=1)

    assert len(record.summary()) == len(record.adversaries()) == 4
    assert {row["observer"] for row in record.summary()} == {"single", "coalition-20%"}


def test_two_observers_of_one_name_are_refused():
    record = RankingScores(drawn_split(), SIZES)
    with pytest.raises(ScenarioError, match=r"two entries have the same key single.*; change the fraction"):
        record.score([ranking(1), ranking(2)], time=1.0, round=1)


def test_a_run_without_attacks_has_nothing_to_say():
    record = RankingScores(drawn_split())
    assert record.score([], time=1.0, round=1) == record.summary() == []
    assert record.adversaries() == {}
