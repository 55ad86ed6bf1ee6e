"""What recommendations are compared with: the same metrics, under the same masks, of orders that nobody learnt."""

import numpy as np
import pytest

from gossiprec.emulation import simulate
from gossiprec.emulation.scoring.orders import ORDERS
from gossiprec.emulation.scoring.utility import Utility
from gossiprec.errors import ScenarioError
from gossiprec.ragged import Ragged
from gossiprec.scenario import load_scenario
from tests.emulation.test_node_utility import (
    CURRENT,
    N_ITEMS,
    N_USERS,
    TESTLESS,
    drawn_split,
    executor_for,
)
from tests.emulation.tiny_runs import tiny

ASKED = ["recall@40", "full_ndcg@40"]


def best_first(split):
    """Return the items by how many users have trained on them, of equals those of lower id, by a slow loop."""
    counts = [sum(item in split.train[user] for user in range(N_USERS)) for item in range(N_ITEMS)]
    return sorted(range(N_ITEMS), key=lambda item: (-counts[item], item))


def test_popularity_agrees_with_a_slow_loop():
    split, recalls, gains = drawn_split(), [], []
    for user in set(range(N_USERS)) - set(TESTLESS):
        tests, seen = set(split.test[user].tolist()), set(split.train[user].tolist())
        shown = [item for item in best_first(split) if item not in seen][:40]
        places = [place for place, item in enumerate(shown) if item in tests]
        recalls.append(len(places) / len(tests))
        ideal = sum(1 / np.log2(place + 2) for place in range(len(tests)))
        gains.append(sum(1 / np.log2(place + 2) for place in places) / ideal)
    found = Utility(split, ASKED, executor_for(split), 3, beside=["popularity"]).measure(CURRENT)
    assert found["recall@40[popularity]"] == pytest.approx(np.mean(recalls))
    assert found["full_ndcg@40[popularity]"] == pytest.approx(np.mean(gains))
    assert 0 < np.mean(recalls) < 1
    assert list(found) == [*ASKED, *(f"{name}[popularity]" for name in ASKED)]


def test_sampled_metrics_rank_the_same_candidates_by_popularity():
    split = drawn_split()
    executor, place = executor_for(split), {item: at for at, item in enumerate(best_first(split))}
    executor.asked.clear()
    found = Utility(split, ["hr@20"], executor, 3, beside=["popularity"]).measure(CURRENT)
    (_, asked), hits = executor.asked[-1], []
    for items in asked:
        ranks = [sum(place[j] < place[row[0]] for j in row[1:]) for row in np.array(items).reshape(-1, 100)]
        hits.append(np.mean([rank < 20 for rank in ranks]))
    assert found["hr@20[popularity]"] == pytest.approx(np.mean(hits))
    assert 0 < np.mean(hits) < 1


def test_a_random_order_is_each_users_own_and_follows_from_the_seed():
    split = drawn_split()
    one, again, other = (ORDERS["random"](split, seed).of_all(np.arange(N_USERS)) for seed in (3, 3, 4))
    assert (one == again).all()
    assert len({tuple(row) for row in np.concatenate([one, other]).tolist()}) == 2 * N_USERS
    assert (np.sort(one, axis=1) == np.arange(N_ITEMS)).all()
    recalls = [
        Utility(split, ASKED, executor_for(split), seed, beside=["random"]).measure(CURRENT)[
            "recall@40[random]"
        ]
        for seed in range(200)
    ]
    # 20 test items of 5 users, each among the first 40 of 138 with this probability: 200 draws of their mean
    share, n = 40 / (N_ITEMS - 12), 200 * 20
    assert abs(np.mean(recalls) - share) < 4 * np.sqrt(share * (1 - share) / n)


def test_candidates_are_scored_as_in_whole_lists():
    split = drawn_split()
    candidates = Ragged.from_parts([np.array(some, np.int32) for some in ([3, 9], [9], [0, 149, 3])])
    for order in ORDERS.values():
        made = order(split, 5)
        whole = made.of_all(np.array([1, 4, 6]))
        assert (
            made.of_candidates(np.array([1, 4, 6]), candidates).tolist()
            == whole[[0, 0, 1, 2, 2, 2], candidates.values].tolist()
        )


def test_a_run_tells_them_at_every_report_and_at_the_end(tmp_path):
    evaluate = {
        "every": 2,
        "metrics": ["hr@5", "er@5"],
        "targets": [1, 2],
        "beside": ["popularity", "random"],
    }
    run = simulate(tiny(evaluate=evaluate), out=tmp_path / "run")
    names = [f"{name}[{order}]" for order in evaluate["beside"] for name in evaluate["metrics"]]
    for name in names:
        values = run.metrics["value"][run.metrics["metric"] == name]
        assert len(values) > 1
        assert set(values) == {run.summary["utility"][name]}
    plain = simulate(tiny(evaluate={**evaluate, "beside": []}), out=tmp_path / "plain")
    assert plain.summary["utility"] == {name: run.summary["utility"][name] for name in evaluate["metrics"]}


def test_an_order_is_named_once_and_known():
    for beside, message in (
        (["popularity"] * 2, "name each order once"),
        (["popular"], "evaluate.beside.0"),
    ):
        with pytest.raises(ScenarioError, match=message):
            load_scenario(tiny(evaluate={"beside": beside}))
