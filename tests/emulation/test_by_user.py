"""Values of metrics of single users: what is kept of which reports, and how it is read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gossiprec.base.errors import LogError
from gossiprec.emulation import prepare, resume, simulate
from gossiprec.runs import open_run
from gossiprec.runs.verify import verify_log
from gossiprec.scenario import load_scenario
from tests.emulation.ended_early import ended_early, often, outcome
from tests.emulation.sharded import Threads, divided
from tests.emulation.tiny_runs import tiny

METRICS = ["hr@5", "full_ndcg@5", "val_recall@5", "novelty@5", "coverage@5", "exposure_gini@5", "er@5"]
OF_USERS = METRICS[:4]
OF_ATTACKS = ["accuracy[single/standardized/b0.99/k3]", "found[single/standardized/b0.99/k3]"]
FILE = "metrics_by_user.parquet"


def evaluating(**more):
    return {"every": 1, "metrics": METRICS, "targets": [3], **more}


def reports(columns):
    return sorted({*zip(columns["time"].tolist(), columns["round"].tolist(), strict=True)})


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return simulate(
        often(evaluate=evaluating(by_user="all", keep_lists=7)), out=tmp_path_factory.mktemp("whole") / "r"
    )


def test_the_mean_over_users_is_the_metric_of_each_report(whole):
    found, metrics = whole.by_user, whole.metrics

    assert reports(found) == reports(metrics)
    assert list(dict.fromkeys(found["metric"].tolist())) == [*OF_USERS, *OF_ATTACKS]
    for time, name, value in zip(metrics["time"], metrics["metric"], metrics["value"], strict=True):
        if name in OF_USERS:
            rows = (found["time"] == time) & (found["metric"] == name)
            assert found["value"][rows].mean() == value
            assert found["user"][rows].tolist() == list(range(12))


def test_attacks_have_the_values_of_adversaries_and_victims(whole):
    found, attacks = whole.by_user, whole.attacks
    accuracy, exposure = OF_ATTACKS

    for time, aac in zip(attacks["time"], attacks["aac"], strict=True):
        assert found["value"][(found["time"] == time) & (found["metric"] == accuracy)].mean() == aac
    best = attacks["time"][attacks["aac"].argmax()]
    positions = whole.positions
    for measure in OF_ATTACKS:
        rows = (found["time"] == best) & (found["metric"] == measure)
        own = positions["measure"] == measure
        assert found["user"][rows].tolist() == positions["node"][own].tolist()
        assert found["value"][rows].tolist() == positions["value"][own].tolist()
    assert len({*found["time"][found["metric"] == exposure]}) == len(attacks["time"])


def test_the_lists_of_the_last_report_are_those_that_metrics_measure(whole):
    found, split = whole.lists, prepare(load_scenario(whole.scenario)).components.split
    items = np.full((12, 7), -1)
    items[found["user"], found["rank"] - 1] = found["item"]

    assert (items >= 0).all()  # no user has so many training items
    assert not any(set(items[user]) & set(split.train[user].tolist()) for user in range(12))
    last = whole.summary["utility"]
    assert len({*items[:, :5].ravel().tolist()}) / 40 == last["coverage@5"]
    assert whole.frame("lists").columns.tolist() == ["user", "rank", "item"]
    assert "lists.parquet" in whole.manifest["files"]
    assert whole.scenario["evaluate"]["keep_lists"] == 7


@pytest.mark.slow
def test_lists_do_not_depend_on_shards_and_change_nothing_else(whole, tmp_path):
    scenario = often(evaluate=evaluating(by_user="all", keep_lists=7))
    run = simulate(divided(scenario, 2), out=tmp_path / "shards", make_shard_group=Threads)
    plain = simulate(often(evaluate=evaluating(by_user="all")), out=tmp_path / "plain")
    for name in ("lists.parquet", FILE, "metrics.csv"):
        assert (run.path / name).read_bytes() == (whole.path / name).read_bytes()
    assert (plain.path / FILE).read_bytes() == (whole.path / FILE).read_bytes()
    with pytest.raises(LogError, match=r"has no lists.parquet; expected a run .* with evaluate.keep_lists"):
        plain.table("lists")


def test_it_is_a_table_of_the_run_and_has_a_digest(whole):
    assert whole.frame("by_user").columns.tolist() == ["user", "time", "round", "metric", "value"]
    assert (
        whole.table("by_user").num_rows == len(whole.by_user["user"]) > len(reports(whole.metrics)) * 5 * 12
    )
    assert FILE in whole.manifest["files"]


def test_by_default_the_last_report_is_kept_and_the_one_that_validation_items_choose(whole, tmp_path):
    run = simulate(often(evaluate=evaluating()), out=tmp_path / "r")
    chosen, last = run.summary["validated"]["time"], run.summary["virtual_time"]
    kept = np.isin(whole.by_user["time"], [chosen, last])

    assert chosen < last
    assert run.scenario["evaluate"]["by_user"] == "last"
    for name, column in run.by_user.items():
        assert column.tolist() == whole.by_user[name][kept].tolist()


@pytest.mark.parametrize("by_user", ["all", pytest.param("last", marks=pytest.mark.slow)])
@pytest.mark.full
def test_a_resumed_run_has_the_bytes_of_an_unbroken_one(whole, tmp_path, by_user):
    scenario = often(evaluate=evaluating(by_user=by_user, keep_lists=7))
    unbroken = whole if by_user == "all" else simulate(scenario, out=tmp_path / "whole")
    cut = ended_early(tmp_path / "cut", scenario)
    assert max(cut.by_user["round"]) < max(unbroken.by_user["round"])

    assert outcome(resume(cut.path).path) == outcome(unbroken.path)


def test_runs_without_the_file_say_why_and_a_changed_file_is_found(tmp_path):
    scenario = tiny(evaluate={"every": 6, "metrics": ["hr@5"], "by_user": "none"}, observers=[])
    run = simulate(scenario, out=tmp_path / "r")
    with pytest.raises(
        LogError, match=f"r has no {FILE}; expected a run that has ended, with evaluate.by_user"
    ):
        run.table("by_user")

    pq.write_table(pa.table({"user": [0]}), run.path / FILE)
    assert any(FILE in fault for fault in verify_log(run.path).faults)
    with pytest.raises(LogError, match=r"found columns user \(int64\); expected user \(int32\), time"):
        open_run(run.path).by_user  # noqa: B018 (read on first use)
