"""What a run says of its own utility: ties, candidates fewer than K, and orders that no model has learnt."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.ragged import Ragged
from gossiprec.cli import summary_text
from gossiprec.emulation import simulate
from gossiprec.emulation.scoring.remarks import Remarks, count_nodes_with_few_candidates
from gossiprec.emulation.scoring.utility import UtilityEvaluator, UtilityOptions
from gossiprec.report.page import write_report
from tests.emulation.sharded import Threads, divided
from tests.emulation.test_node_utility import (
    CURRENT,
    N_ITEMS,
    N_USERS,
    TESTLESS,
    drawn_split,
    executor_for,
    with_busy_user,
)
from tests.emulation.tiny_runs import tiny

STILL = {
    "model": {"name": "mf", "dim": 4, "init_std": 1e-30},
    "training": {"optimizer": "sgd", "learning_rate": 1e-30},
    "observers": [],
}
"""Models whose scores are all zero."""
METRICS = {"every": 2, "metrics": ["hr@5", "recall@5"]}
TESTED = [user for user in range(N_USERS) if user not in TESTLESS]


@pytest.mark.parametrize("metric", ["hr@5", "recall@5", "full_ndcg@10"])
def test_users_of_whom_all_scores_are_equal_are_counted(metric):
    split = drawn_split()
    executor = executor_for(split)
    utility = UtilityEvaluator(split, [metric], executor, 3)
    utility.measure(CURRENT)
    assert not len(utility.users_with_tied_scores)

    rows, shared = executor.work.arena.rows, executor.work.layout.shared
    for user in (1, 4):
        rows[CURRENT[user], shared.start : shared.stop - 1] = 0.0  # logits are the bias alone
    utility.measure(CURRENT)
    assert utility.users_with_tied_scores.tolist() == [1, 4]
    looks = [utility.metric_inputs(CURRENT, np.array(some)) for some in ([0, 1, 2], [3, 4, 5, 6])]
    assert [look.tied.tolist() for look in looks] == [[1], [4]]
    utility.measure(CURRENT, looks)
    assert utility.users_with_tied_scores.tolist() == [1, 4]


def test_one_score_that_differs_is_no_tie():
    split = drawn_split()
    executor = executor_for(split)
    layout, rows = executor.work.layout, executor.work.arena.rows
    items = rows[CURRENT[3], layout.items].reshape(N_ITEMS, -1)
    items[:] = 1.0
    items[N_ITEMS // 2] = 2.0
    utility = UtilityEvaluator(split, ["recall@5"], executor, 3)
    utility.measure(CURRENT)
    assert not len(utility.users_with_tied_scores)


def test_users_with_no_more_candidates_than_k_are_counted_per_metric():
    split = with_busy_user(drawn_split(), n_left=7)
    metrics = ["hr@6", "hr@7", "hr@99", "recall@10", "recall@11", "coverage@5"]
    utility = UtilityEvaluator(split, metrics, executor_for(split), 3)
    left = N_ITEMS - len(split.train[6])  # in whole lists test items are candidates, too
    assert left == 7 + len(split.test[6]) == 11
    assert utility.count_users_with_few_candidates() == {"hr@7": 1, "hr@99": len(TESTED), "recall@11": 1}


def test_baselines_are_the_metrics_of_orders_as_asked_for():
    split, metrics = drawn_split(), ["hr@5", "recall@40", "coverage@5"]
    asked = UtilityEvaluator(
        split, metrics, executor_for(split), 3, UtilityOptions(baselines=["popularity", "random"])
    )
    found = asked.measure(CURRENT)
    expected = {
        order: {name: found[f"{name}[{order}]"] for name in metrics[:2]} for order in ("popularity", "random")
    }
    assert asked.baseline_metrics() == expected
    assert UtilityEvaluator(split, metrics, executor_for(split), 3).baseline_metrics() == expected
    assert UtilityEvaluator(split, ["coverage@5"], executor_for(split), 3).baseline_metrics() == {}


def test_utility_that_only_equals_an_order_is_not_above_it():
    orders = {"popularity": {"hr@5": 0.3, "ndcg@5": 0.1}, "random": {"hr@5": 0.1, "ndcg@5": 0.2}}
    remarks = Remarks(10, {"hr@5": 0.3, "ndcg@5": 0.15}, orders, {})
    assert remarks.metrics_not_above_baselines == {"popularity": ["hr@5"], "random": ["ndcg@5"]}
    assert [*remarks.notes()] == [
        "utility is not above popularity: hr@5 30.0 % against 30.0 %",
        "utility is not above random: ndcg@5 15.0 % against 20.0 %",
    ]


def test_nodes_that_judge_by_few_candidates_are_counted():
    lists = np.full((5, 31), -1, np.int32)
    for row, size in enumerate([31, 22, 21, 21, 3]):
        lists[row, :size] = 0
    assert count_nodes_with_few_candidates(Ragged(np.array([0, 1, 2, 4, 5]), lists)) == 2
    assert count_nodes_with_few_candidates(None) == 0


@pytest.mark.parametrize("n_shards", [1, 2])
def test_a_run_that_recommends_nothing_says_so_everywhere(tmp_path, n_shards):
    scenario = tiny(**STILL, evaluate=METRICS)
    if n_shards == 1:
        run = simulate(scenario, out=tmp_path / "run")
    else:
        run = simulate(divided(scenario, n_shards), out=tmp_path / "run", make_shard_group=Threads)
    summary = run.summary

    assert summary["tied_users"] == 12
    assert summary["not_above"]["popularity"] == ["hr@5", "recall@5"]
    assert set(summary["baselines"]) == {"popularity", "random"}
    assert "hr@5[popularity]" not in summary["utility"]
    notes = summary["notes"]
    assert any(note.startswith("utility is not above popularity: hr@5 0.0 % against") for note in notes)
    assert any("all scores of 12 of 12 users are equal" in note for note in notes)
    printed = summary_text.format_notes(summary).splitlines()
    assert [line.split(maxsplit=1) for line in printed] == [["note", note] for note in notes]
    write_report([run.path], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert all(note.partition(":")[0] in page for note in notes)


@pytest.mark.slow
@pytest.mark.full
def test_a_run_that_learns_has_no_such_note(tmp_path):
    split = {"name": "leave_last_k", "test": 1}
    dataset = {**tiny()["dataset"], "users": 40, "items": 120, "interactions": 1200, "split": split}
    looks = {"evaluate": {"every": 40, "metrics": ["hr@20"]}, "observers": []}
    scenario = tiny(dataset=dataset, protocol={"name": "central", "epochs": 80}, **looks)
    run = simulate(scenario, out=tmp_path / "run")
    assert run.summary["tied_users"] == 0
    assert run.summary["not_above"] == {"popularity": [], "random": []}
    assert run.summary["few_candidates"] == {}
    assert "notes" not in run.summary
