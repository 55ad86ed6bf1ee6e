"""Groups of users: who is in which, and what metrics, attacks, summaries and studies say of each."""

from __future__ import annotations

import json

import numpy as np
import pytest
import yaml

from gossiprec.base.errors import GossipRecError, ScenarioError
from gossiprec.emulation import resume, simulate
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.emulation.assembly.user_groups import make_groups
from gossiprec.measures.selectors import MeasureSelector, read_measure
from gossiprec.runs.run_tables import read_adversaries
from gossiprec.scenario import load_scenario
from gossiprec.study.study_table import extract_rows
from tests.cli.calls import invoke
from tests.emulation.ended_early import ended_early, often, outcome
from tests.emulation.tiny_runs import SINGLE, tiny

METRICS = ["hr@5", "recall@5", "val_recall@5", "coverage@5", "novelty@5", "exposure_gini@5", "er@5"]
SEXES = "fmfmmmffmfmf"


def people(folder, sexes=SEXES, ages=range(20, 32)):
    """Write a table of the users, without those whose sex is a blank."""
    rows = [
        f"{user},{sex},{age}\n" for user, (sex, age) in enumerate(zip(sexes, ages, strict=True)) if sex != " "
    ]
    path = folder / "people.csv"
    path.write_text("user,sex,age\n" + "".join(rows))
    return {"path": str(path)}


def grouped(folder, groups, base=tiny, sexes=SEXES, **more):
    """Return a tiny scenario with groups."""
    evaluate = {"every": 1, "metrics": METRICS, "targets": [1, 2], "groups": groups, **more}
    scenario = base(evaluate=evaluate)
    return {**scenario, "dataset": {**scenario["dataset"], "user_features": people(folder, sexes)}}


def groups_of(folder, choice, **more):
    scenario = load_scenario(grouped(folder, choice, **more))
    return scenario, load_data(scenario)


def test_groups_by_label_number_activity_and_popularity(tmp_path):
    choice = [
        {"by": "sex"},
        {"by": "age", "parts": 3},
        {"by": "activity", "parts": 4},
        {"by": "popularity", "parts": 2},
    ]
    scenario, split = groups_of(tmp_path, choice)
    found = make_groups(scenario, split)
    assert [(g.by, g.name) for g in found] == [
        ("sex", "f"), ("sex", "m"), *(("age", str(n)) for n in (1, 2, 3)),
        *(("activity", str(n)) for n in (1, 2, 3, 4)), ("popularity", "1"), ("popularity", "2"),
    ]  # fmt: skip
    assert found[0].users.tolist() == [user for user, sex in enumerate(SEXES) if sex == "f"]
    assert [g.bounds for g in found[2:5]] == [(20, 23), (24, 27), (28, 31)]
    sizes = split.train.sizes
    lows = [sizes[g.users].max() for g in found[5:8]]
    assert all(low <= sizes[g.users].min() for low, g in zip(lows, found[6:9], strict=True))
    counts = np.bincount(split.train.values, minlength=split.n_items)
    means = [counts[split.train[user]].mean() for user in range(split.n_users)]
    assert max(means[u] for u in found[-2].users) <= min(means[u] for u in found[-1].users)


def test_few_numbers_are_groups_of_their_own(tmp_path):
    scenario, split = groups_of(tmp_path, {"by": "age", "parts": 12, "least": 1})
    assert [g.name for g in make_groups(scenario, split)] == [str(age) for age in range(20, 32)]


@pytest.mark.parametrize(
    ("choice", "sexes", "message"),
    [
        (
            {"by": "sex"},
            "fm fmfmfmfmf",
            "people.csv: found no sex of 1 users, the first is user 2; .*unknown: group",
        ),
        (
            {"by": "sex"},
            "fmmmmmmmmmmm",
            r"people.csv: found 1 user \(0\) in the group sex=f; expected at least 2",
        ),
        ({"by": "gender"}, SEXES, "people.csv: found no column 'gender'; expected one of: sex, age"),
        ({"by": "sex"}, "f,mmmmmmmmmm", "people.csv: line 3: found 4 columns; expected 3"),
        (
            {"by": "activity", "parts": 13},
            SEXES,
            "found parts: 13 by activity, but only 12 users; lower parts",
        ),
    ],
)
def test_bad_groups_are_refused_before_a_run_begins(choice, sexes, message, tmp_path, capsys):
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(grouped(tmp_path, choice, sexes=sexes)))
    code, _, err = invoke(capsys, "simulate", tmp_path / "tiny.yaml", "--out", tmp_path / "run")
    assert code == 2
    assert "Traceback" not in err
    with pytest.raises(GossipRecError, match=message):
        simulate(grouped(tmp_path, choice, sexes=sexes), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_users_without_a_value_may_be_a_group(tmp_path):
    scenario, split = groups_of(tmp_path, {"by": "sex", "unknown": "group"}, sexes="fm  mfmfmfmf")
    assert {g.name: g.users.tolist() for g in make_groups(scenario, split)}["unknown"] == [2, 3]


def test_data_without_attributes_and_repeated_groups_are_refused(tmp_path):
    with pytest.raises(
        ScenarioError, match="found by: gender, but the data set synthetic has no attributes of users"
    ):
        simulate(tiny(evaluate={"every": 1, "groups": {"by": "gender"}}), out=tmp_path / "run")
    with pytest.raises(ScenarioError, match="found sex, sex; expected each `by` once"):
        load_scenario(grouped(tmp_path, [{"by": "sex"}, {"by": "sex", "least": 1}]))


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Return a run with groups, the same run without, and the folder of its table."""
    folder = tmp_path_factory.mktemp("grouped")
    observers = [SINGLE]
    runs = []
    for name, groups in (("with", [{"by": "sex"}, {"by": "activity", "parts": 2}]), ("without", None)):
        scenario = {**grouped(folder, groups), "observers": observers}
        if groups is None:
            del scenario["evaluate"]["groups"], scenario["dataset"]["user_features"]
        runs.append(simulate(scenario, out=folder / name))
    return *runs, folder


@pytest.mark.slow
def test_groups_change_nothing_else(done):
    some, plain, _ = done
    left = {name: value for name, value in some.summary["utility"].items() if "=" not in name}
    assert left == plain.summary["utility"]
    assert some.summary["attacks"] == plain.summary["attacks"]
    assert "groups" not in plain.summary
    assert (some.path / "attacks.csv").read_bytes() == (plain.path / "attacks.csv").read_bytes()
    lines = (some.path / "metrics.csv").read_text().splitlines()
    assert [line for line in lines if "=" not in line] == (
        plain.path / "metrics.csv"
    ).read_text().splitlines()


@pytest.mark.slow
def test_groups_weighted_by_their_lists_have_the_metrics_of_the_run(done):
    run, _, _ = done
    utility, groups = run.summary["utility"], run.summary["groups"]
    for by in ("sex", "activity"):
        own = [group for group in groups if group["by"] == by]
        assert sum(group["users"] for group in own) == 12
        for name, weight in (("hr@5", "tested"), ("recall@5", "tested"), ("novelty@5", "users")):
            values = [utility[f"{name}[{by}={group['group']}]"] for group in own]
            assert [group["last"][name] for group in own] == values
            assert np.average(values, weights=[g[weight] for g in own]) == pytest.approx(utility[name])
        assert set(own[0]["last"]) == set(METRICS)
        assert set(own[0]["validated"]) == set(METRICS)


@pytest.mark.slow
def test_attacks_have_the_accuracy_and_exposure_of_each_group(done):
    run, _, _ = done
    (attack,) = run.summary["attacks"]
    found = {
        (row["measure"], row["labels"]["sex"]): row["value"]
        for row in run.summary["findings"]
        if "sex" in row["labels"]
    }
    assert set(found) == {(m, s) for m in ("group_aac", "group_exposure") for s in "fm"}
    assert {row["attack"] for row in run.summary["findings"]} == {"cda"}
    ((nodes, accuracies),) = read_adversaries(run.path).values()
    for sex in "fm":
        own = accuracies[[SEXES[node] == sex for node in nodes.tolist()]]
        assert found["group_aac", sex] == pytest.approx(own.mean())
    sizes = [SEXES.count(sex) for sex in "fm"]
    mean = np.average([found["group_aac", sex] for sex in "fm"], weights=sizes)
    assert mean == pytest.approx(attack["max_aac"])
    rows = extract_rows(run.summary, ["recall@5"], None, [read_measure("group_aac[single,sex=f]")], {"cda"})
    assert [row["value"] for row in rows] == [found["group_aac", "f"]]


@pytest.mark.slow
def test_studies_choose_the_metric_of_a_group_and_collect_all_by_default(done):
    run, _, _ = done
    measure = read_measure("recall@5[sex=f]")
    assert measure == MeasureSelector("recall@5[sex=f]")
    (row,) = extract_rows(run.summary, ["recall@5"], None, [measure])
    assert row["value"] == run.summary["utility"]["recall@5[sex=f]"]
    names = [row["measure"] for row in extract_rows(run.summary, ["recall@5"], None, None)]
    assert [name for name in names if "@" in name] == [
        "recall@5", *(f"recall@5[{g}]" for g in ("sex=f", "sex=m", "activity=1", "activity=2"))
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.full
def test_a_run_that_goes_on_has_the_same_groups(tmp_path):
    scenario = grouped(tmp_path, {"by": "sex"}, base=often)
    whole = simulate(scenario, out=tmp_path / "whole")
    done = resume(ended_early(tmp_path / "broken", scenario).path)
    assert outcome(done.path) == outcome(whole.path)
    assert done.summary["groups"] == whole.summary["groups"]


@pytest.mark.slow
def test_the_closing_words_have_a_line_for_each_group(capsys, tmp_path):
    scenario = grouped(tmp_path, {"by": "sex"}, metrics=["recall@5"], targets=None)
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(scenario))
    code, out, err = invoke(
        capsys, "simulate", tmp_path / "tiny.yaml", "--out", tmp_path / "run", "--no-plots"
    )
    assert code == 0, err
    groups = json.loads((tmp_path / "run/summary.json").read_text())["groups"]
    for group in groups:
        words = ["sex", group["group"], str(group["users"]), f"{100 * group['last']['recall@5']:.1f}"]
        assert words in [line.split() for line in out.splitlines()]
    assert "recall@5[sex" not in out
