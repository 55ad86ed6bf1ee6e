"""Quality by activity: who is in which group, and what the summary says of each."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import yaml

from gossiprec.base.errors import ScenarioError
from gossiprec.base.ragged import Ragged
from gossiprec.emulation import resume, simulate
from gossiprec.emulation.assembly.user_groups import split_into_groups
from gossiprec.emulation.run_parts.activity_groups import ActivityGroupMetrics
from gossiprec.emulation.scoring.utility import UtilityEvaluator
from gossiprec.measures import MEASURES, Measure
from gossiprec.scenario import load_scenario
from tests.cli.calls import invoke
from tests.emulation.ended_early import OFTEN, Patient, ended_early, often, outcome
from tests.emulation.reports import report
from tests.emulation.test_node_utility import CURRENT, N_USERS, TESTLESS, drawn_split, executor_for
from tests.emulation.tiny_runs import tiny

TESTED = ["hr@5", "ndcg@5", "recall@5", "full_ndcg@5"]
OTHERS = ["coverage@5", "val_recall@5"]


def uneven_split():
    """Return a split whose user u has ``sizes[u]`` training items; users 2 and 5 have no test items."""
    even, sizes = drawn_split(), [3, 9, 1, 9, 4, 2, 3]
    pairs = [(user, item) for user, size in enumerate(sizes) for item in even.train[user][:size].tolist()]
    return replace(even, train=Ragged.sets_from_pairs(*np.array(pairs).T, N_USERS))


def evaluating(**more):
    return {"every": 1, "metrics": [*TESTED, *OTHERS], "activity_groups": 5, **more}


def chosen_report(run):
    """Return the number of the report that validation items chose, from 1."""
    return int(np.searchsorted(np.unique(run.metrics["time"]), run.summary["validated"]["time"])) + 1


def test_groups_ascend_by_size_and_equals_stand_in_the_order_of_their_ids():
    groups = split_into_groups(np.array([5, 2, 2, 9, 2, 5, 0, 7]), 3)
    assert [group.tolist() for group in groups] == [[6, 1, 2], [4, 0, 5], [7, 3]]


@pytest.mark.parametrize("n_users", [2, 3, 7, 20, 101])
def test_no_two_groups_differ_by_more_than_one_user_and_everybody_is_in_one(n_users):
    sizes = np.random.default_rng(n_users).integers(1, 6, n_users)
    for n_groups in range(2, min(n_users, 12) + 1):
        groups = split_into_groups(sizes, n_groups)
        lengths = [len(group) for group in groups]
        assert len(groups) == n_groups
        assert max(lengths) - min(lengths) <= 1 <= min(lengths)
        assert sorted(np.concatenate(groups).tolist()) == list(range(n_users))
        assert (np.diff(sizes[np.concatenate(groups)]) >= 0).all()


def test_a_group_has_the_mean_of_its_own_users_by_their_training_items():
    """With a utility of one user at a time as the yardstick."""
    split, executor = uneven_split(), executor_for(drawn_split())

    def alone(user):
        pairs = [(user, item) for item in split.test[user].tolist()]
        only = replace(split, test=Ragged.sets_from_pairs(*np.array(pairs).T, N_USERS))
        return UtilityEvaluator(only, TESTED[2:], executor, 3).measure(CURRENT)

    utility = UtilityEvaluator(split, [*TESTED[2:], *OTHERS], executor, 3)
    utility.measure(CURRENT)
    activity = ActivityGroupMetrics(split, 3, utility)
    activity.after_attacks(report({}))
    groups = activity.summary()["by_activity"]

    assert [(g["users"], g["train_min"], g["train_max"]) for g in groups] == [(2, 3, 3), (2, 4, 9), (1, 9, 9)]
    for group, users in zip(
        groups, [(0, 6), (4, 1), (3,)], strict=True
    ):  # of 1 and 3, both with 9, the lower id first
        assert list(group["last"]) == TESTED[2:]
        for name, value in group["last"].items():
            assert value == pytest.approx(np.mean([alone(user)[name] for user in users]))
        assert "validated" not in group
    assert not set(TESTLESS) & {0, 6, 4, 1, 3}


def test_sampled_metrics_are_kept_user_by_user_in_the_order_of_ids():
    """Where one user's model ranks its test items first: nobody else's value moves."""
    split, executor = uneven_split(), executor_for(drawn_split())
    utility = UtilityEvaluator(split, TESTED, executor, 3)
    before = utility.measure(CURRENT)
    kept = {name: values.copy() for name, values in utility.values_of_tested_users.items()}
    assert {name: values.mean() for name, values in kept.items()} == pytest.approx(before)

    arena, user = executor.work.arena, 4
    row = arena.rows[CURRENT[user]]
    layout = arena.layout
    row[layout.users] = row[layout.shared][:-1] = 1.0
    items = row[layout.items].reshape(layout.n_items, -1)
    items[:] = 0.0
    items[split.test[user]] = 1.0
    utility.measure(CURRENT)
    place = [0, 1, 3, 4, 6].index(user)
    for name, values in utility.values_of_tested_users.items():
        assert values[place] == 1.0 != kept[name][place]
        assert np.delete(values, place).tolist() == np.delete(kept[name], place).tolist()


@pytest.mark.slow
def test_weighted_by_their_users_groups_have_the_metrics_of_the_run(tmp_path):
    run = simulate(tiny(evaluate=evaluating()), out=tmp_path / "run")
    groups, utility = run.summary["by_activity"], run.summary["utility"]
    users = np.array([group["users"] for group in groups])

    assert users.tolist() == [3, 3, 2, 2, 2]
    for name in TESTED:
        for when, told in (("last", name), ("validated", f"{name}[validated]")):
            values = [group[when][name] for group in groups]
            assert len(set(values)) > 1  # or any grouping would do
            assert np.average(values, weights=users) == pytest.approx(utility[told])
    assert all(list(group["last"]) == list(group["validated"]) == TESTED for group in groups)
    lows, highs = ([group[key] for group in groups] for key in ("train_min", "train_max"))
    assert lows[0] < highs[-1]
    assert all(low <= high for low, high in zip(lows, highs, strict=True))
    assert all(high <= low for high, low in zip(highs[:-1], lows[1:], strict=True))


@pytest.mark.slow
def test_the_chosen_report_is_told_as_a_run_tells_it_that_was_stopped_there(tmp_path):
    whole = simulate(often(evaluate=evaluating()), out=tmp_path / "whole")
    stop, groups = chosen_report(whole), whole.summary["by_activity"]
    stopped = simulate(
        often(evaluate=evaluating(), checkpoint=OFTEN), out=tmp_path / "stopped", progress=Patient(stop)
    )

    assert stop > 1
    assert [group["validated"] for group in groups] == [
        group["last"] for group in stopped.summary["by_activity"]
    ]
    assert [group["validated"] for group in groups] != [group["last"] for group in groups]


@pytest.mark.slow
def test_without_validation_items_there_is_no_chosen_report(tmp_path):
    run = simulate(tiny(evaluate=evaluating(metrics=["recall@5"])), out=tmp_path / "run")
    assert all(
        list(group) == ["users", "train_min", "train_max", "last"] for group in run.summary["by_activity"]
    )


@pytest.mark.slow
def test_off_changes_nothing_and_on_nothing_else(tmp_path):
    plain = simulate(tiny(evaluate={"every": 1, "metrics": TESTED}), out=tmp_path / "plain")
    off = simulate(
        tiny(evaluate={"every": 1, "metrics": TESTED, "activity_groups": None}), out=tmp_path / "off"
    )
    on = simulate(tiny(evaluate={"every": 1, "metrics": TESTED, "activity_groups": 2}), out=tmp_path / "on")

    written = [(run.path / "scenario.yaml").read_text() for run in (plain, off, on)]
    assert written[0] == written[1]
    assert yaml.safe_load(written[0])["evaluate"]["activity_groups"] is None
    assert yaml.safe_load(written[2])["evaluate"]["activity_groups"] == 2
    assert outcome(plain.path) == outcome(off.path)
    assert "by_activity" not in plain.summary
    found = outcome(on.path)
    assert len(found["summary"].pop("by_activity")) == 2
    assert found == outcome(plain.path)


@pytest.mark.slow
@pytest.mark.full
def test_a_run_that_goes_on_ends_with_the_same_groups(tmp_path):
    scenario = often(evaluate=evaluating())
    whole = simulate(scenario, out=tmp_path / "whole")
    stop = chosen_report(whole) + 2  # the chosen report lies before the checkpoint
    done = resume(ended_early(tmp_path / "broken", scenario, stop).path)

    assert outcome(done.path) == outcome(whole.path)
    assert done.summary["by_activity"] == whole.summary["by_activity"]


@pytest.mark.parametrize("groups", [13, 100])
def test_more_groups_than_users_with_test_items_are_refused(groups, tmp_path):
    with pytest.raises(ScenarioError) as caught:
        simulate(tiny(evaluate=evaluating(activity_groups=groups)), out=tmp_path / "run")
    assert (
        f"evaluate.activity_groups: found {groups}, but only 12 users have test items; lower it "
        "to 12 or less, or remove it" in str(caught.value)
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_group_for_each_user_is_accepted(tmp_path):
    run = simulate(tiny(evaluate=evaluating(activity_groups=12)), out=tmp_path / "run")
    assert [group["users"] for group in run.summary["by_activity"]] == [1] * 12


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (1, "evaluate.activity_groups: found 1, must be greater than or equal to 2"),
        (101, "evaluate.activity_groups: found 101, must be less than or equal to 100"),
        ("ten", "evaluate.activity_groups: found 'ten'"),
    ],
)
def test_a_bad_number_of_groups_is_named(found, message):
    with pytest.raises(ScenarioError) as caught:
        load_scenario(tiny(evaluate=evaluating(activity_groups=found)))
    assert message in str(caught.value)


def test_groups_without_a_metric_of_test_items_are_refused():
    with pytest.raises(ScenarioError, match="found activity_groups: 5, but no metric of test items"):
        load_scenario(tiny(evaluate=evaluating(metrics=OTHERS)))


@pytest.mark.slow
def test_a_measure_without_a_value_for_each_list_has_no_groups(tmp_path):
    class First(Measure):
        @staticmethod
        def compute_values(seen, k):
            return (seen.ranks[:1, 0] < k).astype(np.float64)

    MEASURES._members["first"] = First
    try:
        run = simulate(tiny(evaluate=evaluating(metrics=["first@5", "recall@5"])), out=tmp_path / "run")
    finally:
        del MEASURES._members["first"]
    assert "first@5" in run.summary["utility"]
    assert [list(group["last"]) for group in run.summary["by_activity"]] == [["recall@5"]] * 5


def test_the_closing_words_have_a_line_for_each_group(capsys, tmp_path):
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump(tiny(evaluate=evaluating(metrics=["recall@5", "val_recall@5"]))))
    code, out, err = invoke(capsys, "simulate", file, "--out", tmp_path / "run", "--no-plots")
    assert code == 0, err

    (heading,) = [place for place, line in enumerate(out.splitlines()) if line.startswith("interactions")]
    lines = [line.split() for line in out.splitlines()[heading + 2 : heading + 7]]
    for words, group in zip(
        lines, json.loads((tmp_path / "run/summary.json").read_text())["by_activity"], strict=True
    ):
        low, high = group["train_min"], group["train_max"]
        sizes = [str(low)] if low == high else [str(low), "to", str(high)]
        values = [f"{100 * group[when]['recall@5']:.1f}" for when in ("last", "validated")]
        assert words == [*sizes, str(group["users"]), *values]
    upper = out.splitlines()[heading - 1].split(), out.splitlines()[heading].split()
    assert upper == (["training", "recall@5", "recall@5"], ["interactions", "users", "last", "validated"])
