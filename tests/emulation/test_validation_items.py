"""Metrics of validation items: what they are ranked among, and the report that they choose."""

from dataclasses import replace

import numpy as np
import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.base.ragged import Ragged
from gossiprec.emulation import resume, simulate
from gossiprec.emulation.run_parts.best_validation import BestValidationReport
from gossiprec.emulation.scoring.utility import UtilityEvaluator, UtilityOptions
from gossiprec.scenario import load_scenario
from tests.emulation.ended_early import ended_early, often, outcome
from tests.emulation.reports import report
from tests.emulation.test_node_utility import CURRENT, N_USERS, drawn_split, executor_for
from tests.emulation.test_whole_lists import list_of
from tests.emulation.tiny_runs import tiny

ASKED = ["recall@5", "full_ndcg@5", "coverage@5"]
VALIDATED = ["val_full_ndcg@5", "val_recall@5"]


@pytest.mark.parametrize("mask", ["train", "train+validation"])
def test_validation_items_stand_among_all_but_training_items_whatever_the_mask(mask):
    split, k = drawn_split(sizes=(12, 6, 40)), 40
    executor, recalls, gains = executor_for(split), [], []
    for user in range(N_USERS):
        due = set(split.validation[user].tolist())
        shown = list_of(split, executor, user, without=["train"])[:k]
        places = [place for place, item in enumerate(shown) if item in due]
        recalls.append(len(places) / len(due))
        ideal = sum(1 / np.log2(place + 2) for place in range(len(due)))
        gains.append(sum(1 / np.log2(place + 2) for place in places) / ideal)
    found = UtilityEvaluator(
        split, ["val_recall@40", "val_full_ndcg@40"], executor, 3, UtilityOptions(mask=mask)
    ).measure(CURRENT)

    assert found == {
        "val_recall@40": pytest.approx(np.mean(recalls)),
        "val_full_ndcg@40": pytest.approx(np.mean(gains)),
    }
    assert 0 < np.mean(recalls) < 1


@pytest.mark.parametrize("mask", ["train", "train+validation"])
def test_metrics_of_test_items_are_as_without_metrics_of_validation_items(mask):
    split = drawn_split(sizes=(12, 6, 4))
    asked = ["recall@40", "full_ndcg@40", "er@40", "coverage@7", "hr@5"]

    def measured(*more):
        utility = UtilityEvaluator(
            split,
            [*asked, *more],
            executor_for(split),
            3,
            UtilityOptions(targets=np.array([7, 9]), baselines=["popularity"], mask=mask),
        )
        return utility.measure(CURRENT)

    plain, beside = measured(), measured("val_recall@60", "val_precision@3")
    assert {name: beside[name] for name in plain} == plain
    assert {name for name in beside if name not in plain} == {
        f"{name}{order}" for name in ("val_recall@60", "val_precision@3") for order in ("", "[popularity]")
    }


def test_users_with_validation_items_count_and_nobody_else():
    even = drawn_split(sizes=(12, 6, 4))
    pairs = [(user, item) for user in (1, 2, 5) for item in even.validation[user].tolist()]
    split = replace(even, validation=Ragged.sets_from_pairs(*np.array(pairs).T, N_USERS))
    executor = executor_for(split)
    recalls = [
        np.mean(
            [
                item in list_of(split, executor, user, without=["train"])[:40]
                for item in split.validation[user]
            ]
        )
        for user in (1, 2, 5)  # two of them without test items
    ]
    for metrics in (["val_recall@40"], ["recall@40", "val_recall@40"], ["val_recall@40", "coverage@3"]):
        found = UtilityEvaluator(split, metrics, executor, 3).measure(CURRENT)
        assert found["val_recall@40"] == pytest.approx(np.mean(recalls))
    testless = replace(split, test=Ragged.sets_from_pairs(np.zeros(0, int), np.zeros(0, int), N_USERS))
    assert list(UtilityEvaluator(testless, ["recall@9", "val_recall@9"], executor, 3).measure(CURRENT)) == [
        "val_recall@9"
    ]


def test_the_first_of_the_best_reports_is_chosen_and_unknown_values_are_not():
    noted = BestValidationReport("val_recall@5")
    assert noted.summary() == {}
    for round_, value in enumerate([np.nan, 0.1, 0.4, 0.2, 0.4, np.nan], start=1):
        told = {"er@5": round_ / 10, "er@5[3]": 0.5, "recall@5[popularity]": 0.3, "val_recall@5": value}
        noted.after_utility(report(told, round_))
    assert noted.summary() == {
        "validated": {"by": "val_recall@5", "value": 0.4, "round": 3, "time": 3.0},
        "utility": {"er@5[validated]": 0.3, "er@5[3][validated]": 0.5},
    }


@pytest.mark.slow
def test_the_summary_tells_what_metrics_were_where_the_first_one_of_validation_items_was_best(tmp_path):
    evaluate = {"every": 1, "metrics": [*ASKED, *VALIDATED], "beside": ["random"]}
    run = simulate(tiny(evaluate=evaluate), out=tmp_path / "run")
    values = {
        name: run.metrics["value"][run.metrics["metric"] == name].tolist() for name in (*ASKED, *VALIDATED)
    }
    times = run.metrics["time"][run.metrics["metric"] == VALIDATED[0]]
    best = int(np.argmax(values[VALIDATED[0]]))
    assert 0 < best < len(times) - 1  # neither the first nor the last, or nothing would be shown

    chosen = run.summary["validated"]
    assert (chosen["by"], chosen["value"]) == (VALIDATED[0], values[VALIDATED[0]][best])
    assert chosen["time"] == times[best]
    utility = run.summary["utility"]
    for name in ASKED:
        assert utility[f"{name}[validated]"] == values[name][best]
        assert utility[name] == values[name][-1]
    assert set(run.metrics["metric"].tolist()).isdisjoint(f"{name}[validated]" for name in ASKED)
    asked = load_scenario(tiny(evaluate=evaluate)).evaluate.reportable_measures()
    assert set(asked) == set(utility)


@pytest.mark.slow
def test_without_such_metrics_nothing_is_told_and_nothing_else_changes(tmp_path):
    plain = simulate(tiny(evaluate={"every": 1, "metrics": ASKED}), out=tmp_path / "plain")
    asked = simulate(tiny(evaluate={"every": 1, "metrics": [*ASKED, *VALIDATED]}), out=tmp_path / "asked")
    assert "validated" not in plain.summary
    assert list(plain.summary["utility"]) == ASKED

    def lines(run):
        text = (run.path / "metrics.csv").read_text()
        return [line for line in text.splitlines() if ",val_" not in line]

    assert lines(plain) == lines(asked)


@pytest.mark.slow
@pytest.mark.full
def test_a_run_goes_on_to_the_report_that_was_chosen_before_it_stopped(tmp_path):
    scenario = often(evaluate={"every": 1, "metrics": [*ASKED, *VALIDATED]})
    whole = simulate(scenario, out=tmp_path / "whole")
    stop = whole.summary["validated"]["round"] + 3
    done = resume(ended_early(tmp_path / "broken", scenario, stop).path)
    assert outcome(done.path) == outcome(whole.path)
    assert done.summary["validated"] == whole.summary["validated"]


def test_a_split_without_validation_items_is_refused(tmp_path):
    dataset = {**tiny()["dataset"], "split": {"name": "leave_last_k", "test": 2, "validation": 0}}
    with pytest.raises(ScenarioError) as caught:
        simulate(
            tiny(dataset=dataset, evaluate={"metrics": ["recall@5", "val_recall@5"]}), out=tmp_path / "run"
        )
    assert (
        "evaluate.metrics.1: found 'val_recall@5', but the split leave_last_k has no validation items"
        in str(caught.value)
    )
    assert not (tmp_path / "run").exists()
