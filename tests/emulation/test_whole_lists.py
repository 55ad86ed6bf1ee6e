"""Measures of whole lists: whose lists they are of, and what is masked in them."""

from dataclasses import replace

import numpy as np
import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.base.ragged import Ragged
from gossiprec.emulation import simulate
from gossiprec.emulation.scoring.utility import UtilityEvaluator, UtilityOptions, select_target_items
from gossiprec.scenario import load_scenario
from gossiprec.scenario.sections import LeastPopular
from tests.emulation.test_node_utility import (
    CURRENT,
    N_ITEMS,
    N_USERS,
    TESTLESS,
    drawn_split,
    executor_for,
    model_scores,
)
from tests.emulation.tiny_runs import tiny


def list_of(split, executor, user, *, without):
    """Return the items that the user is recommended, best first, but for those in some parts of the split."""
    masked = {item for part in without for item in getattr(split, part)[user].tolist()}
    return [j for j in np.argsort(-model_scores(executor, user)).tolist() if j not in masked]


def test_measures_of_test_items_agree_with_a_naive_ranking():
    split, k = drawn_split(), 60
    executor, found = executor_for(split), {"hit@60": [], "precision@60": [], "full_mrr@60": []}
    for user in set(range(N_USERS)) - set(TESTLESS):
        tests = set(split.test[user].tolist())
        places = [
            p for p, j in enumerate(list_of(split, executor, user, without=["train"])[:k]) if j in tests
        ]
        found["hit@60"].append(bool(places))
        found["precision@60"].append(len(places) / k)
        found["full_mrr@60"].append(1 / (1 + places[0]) if places else 0.0)
    expected = {name: pytest.approx(np.mean(values)) for name, values in found.items()}
    assert UtilityEvaluator(split, list(found), executor, 3).measure(CURRENT) == expected
    assert np.mean(found["hit@60"]) > 0


def test_validation_items_stay_in_the_lists_unless_they_are_masked():
    split, found = drawn_split(sizes=(12, 40, 4)), {}
    executor = executor_for(split)
    for mask, without in (("train", ["train"]), ("train+validation", ["train", "validation"])):
        lists = [list_of(split, executor, u, without=without) for u in range(N_USERS)]
        hits = [
            np.mean([item in shown[:40] for item in split.test[user].tolist()])
            for user, shown in enumerate(lists)
            if user not in TESTLESS
        ]
        expected = {
            "recall@40": pytest.approx(np.mean(hits)),
            "coverage@3": pytest.approx(len({j for shown in lists for j in shown[:3]}) / N_ITEMS),
        }
        utility = UtilityEvaluator(
            split, list(expected), executor, 3, UtilityOptions(baselines=["popularity"], mask=mask)
        )
        measured = utility.measure(CURRENT)
        assert {name: measured[name] for name in expected} == expected
        found[mask] = measured
    for name in ("recall@40", "recall@40[popularity]"):
        assert found["train"][name] < found["train+validation"][name]


def test_exposure_is_of_all_who_have_a_target_in_no_part_of_the_split():
    split, k = drawn_split(), 40
    targets = np.array([split.test[0][0], split.validation[1][0], split.train[3][0], split.test[6][2]])
    executor = executor_for(split)
    ratios = []
    for target in targets.tolist():
        able = [u for u in range(N_USERS) if not any(target in part[u] for part in parts(split))]
        lists = [list_of(split, executor, u, without=["train", "validation", "test"])[:k] for u in able]
        ratios.append(np.mean([target in shown for shown in lists]))
    assert UtilityEvaluator(split, ["er@40"], executor, 3, UtilityOptions(targets=targets)).measure(
        CURRENT
    ) == {"er@40": pytest.approx(np.mean(ratios))}
    assert 0 < np.mean(ratios) < 1
    assert {u for u in range(N_USERS) if any(len(np.intersect1d(targets, part[u])) for part in parts(split))}


def test_users_weigh_alike_however_many_test_items_they_have():
    even = drawn_split()
    pairs = [(user, item) for user in range(N_USERS) for item in even.test[user][: 1 + user % 4].tolist()]
    split = replace(even, test=Ragged.sets_from_pairs(*np.array(pairs).T, N_USERS))
    executor = executor_for(split)
    executor.asked.clear()
    found = UtilityEvaluator(split, ["hr@20"], executor, 3).measure(CURRENT)["hr@20"]
    (rows, asked), hits = executor.asked[-1], []
    for row, items in zip(rows, asked, strict=True):
        scores = model_scores(executor, CURRENT.tolist().index(row))
        ranks = [sum(scores[own[1:]] >= scores[own[0]]) for own in np.array(items).reshape(-1, 100)]
        hits.append(np.mean([rank < 20 for rank in ranks]))
    assert found == pytest.approx(np.mean(hits))
    assert len(set(map(len, asked))) > 2


def test_coverage_is_of_the_lists_of_all_users_also_of_those_without_test_items():
    split = drawn_split()
    executor = executor_for(split)
    shown = {j for u in range(N_USERS) for j in list_of(split, executor, u, without=["train"])[:10]}
    found = UtilityEvaluator(split, ["recall@20", "coverage@10", "coverage@20"], executor, 3).measure(CURRENT)
    assert found["coverage@10"] == pytest.approx(len(shown) / N_ITEMS)
    assert found["coverage@20"] > found["coverage@10"]
    assert (
        found["recall@20"]
        == UtilityEvaluator(split, ["recall@20"], executor, 3).measure(CURRENT)["recall@20"]
    )


def test_blocks_of_users_do_not_show(monkeypatch):
    split = drawn_split()
    measure = UtilityEvaluator(
        split,
        ["er@20", "coverage@5", "f1@9"],
        executor_for(split),
        3,
        UtilityOptions(targets=np.array([1, 2])),
    ).measure
    whole = measure(CURRENT)
    monkeypatch.setattr("gossiprec.emulation.scoring.utility.MAX_BLOCK", 2)
    assert measure(CURRENT) == whole


def test_exposure_needs_nobodys_test_items():
    split = drawn_split(sizes=(12, 3, 0))
    found = UtilityEvaluator(
        split, ["hr@5", "er@20", "recall@5"], executor_for(split), 3, UtilityOptions(targets=np.array([7]))
    ).measure(CURRENT)
    assert list(found) == ["er@20"]


def test_targets_are_named_or_those_that_fewest_have_trained_on():
    split = drawn_split()
    trained = np.bincount(split.train.values, minlength=N_ITEMS)
    assert np.bincount(trained)[0] > 60
    found = select_target_items(LeastPopular(least_popular=70), split)
    assert found.tolist() == sorted(sorted(range(N_ITEMS), key=lambda item: (trained[item], item))[:70])
    assert select_target_items((9, 3, 9), split).tolist() == [3, 9]
    assert select_target_items(None, split).tolist() == []


def test_a_run_measures_exposure_and_keeps_its_targets(tmp_path):
    evaluate = {"every": 2, "metrics": ["er@5", "coverage@5"], "targets": {"least_popular": 3}}
    run = simulate(tiny(evaluate=evaluate), out=tmp_path / "run")
    assert set(run.metrics["metric"]) >= {"er@5", "coverage@5"}
    assert ((run.metrics["value"] >= 0) & (run.metrics["value"] <= 1)).all()
    assert run.scenario["evaluate"]["targets"] == {"least_popular": 3}


@pytest.mark.parametrize(
    ("evaluate", "message"),
    [
        (
            {"metrics": ["er@5"]},
            "evaluate: er@5 measures how often target items are shown; set targets",
        ),
        ({"metrics": ["hr@5"], "targets": [1]}, "evaluate: targets requires a metric of target items"),
        ({"metrics": ["er@5"], "targets": []}, "evaluate.targets: "),
        ({"metrics": ["er@5"], "targets": [-1]}, "evaluate.targets.0: found -1"),
        ({"metrics": ["full_er@5"], "targets": [1]}, "but er always ranks all items; write er@5"),
    ],
)
def test_targets_that_do_not_fit_are_refused(evaluate, message):
    with pytest.raises(ScenarioError) as caught:
        load_scenario(tiny(evaluate=evaluate))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ([39, 40], "evaluate.targets.1: found item 40, but item ids range from 0 to 39"),
        ({"least_popular": 41}, "evaluate.targets.least_popular: found 41, but there are only 40 items"),
    ],
)
def test_targets_that_the_data_do_not_have_are_refused(targets, message, tmp_path):
    with pytest.raises(ScenarioError) as caught:
        simulate(tiny(evaluate={"metrics": ["er@5"], "targets": targets}), out=tmp_path / "run")
    assert message in str(caught.value)


def parts(split):
    return split.train, split.validation, split.test
