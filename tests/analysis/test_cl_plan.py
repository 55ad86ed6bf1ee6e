"""The experiments of the CL4FedRec study are what their names say, and can all be run."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import pytest

from analysis.cl4fedrec import (
    ATTACKS,
    PAPER,
    RULES,
    SETTINGS,
    STUDY,
    TABLE_ROWS,
    defence_methods,
    paper_figures,
)
from analysis.papers.comparison import experiment_name, selectable_names
from analysis.papers.study import select_experiments
from gossiprec.base.errors import DataError, ScenarioError
from gossiprec.study.plan import make_plan


@cache
def _data():
    """Return a folder with an empty data set: nothing of it is read."""
    folder = Path(tempfile.mkdtemp())
    (folder / "ml-1m").mkdir()
    return folder


@cache
def scenarios(scale="full", **more):
    """Return the resolved scenario of every experiment."""
    data = _data() if scale == "full" else None
    plan = make_plan(
        STUDY.make_study(STUDY.experiments, data=data, scale=scale, seeds=1, **more), check_data=False
    )
    return {str(one.labels["experiment"]): one.scenario.resolved() for one in plan.variants}


@pytest.mark.parametrize("scale", ["full", "tiny"])
def test_every_experiment_resolves_and_no_two_are_the_same(scale):
    found = scenarios(scale)
    assert list(found) == list(STUDY.experiments)
    told = [{key: value for key, value in one.items() if key != "name"} for one in found.values()]
    assert all(one not in told[:place] for place, one in enumerate(told))


def test_the_base_is_what_the_paper_says():
    base = scenarios()[experiment_name("file-adam5", "rcl4fedrec")]
    assert (base["model"]["name"], base["model"]["dim"], base["model"]["hidden"]) == ("ncf", 32, [64, 32, 16])
    assert base["protocol"]["rounds"] == 20
    assert base["protocol"]["close_epochs"]
    assert (base["model"]["loss_reduction"], base["recommender"]["item_loss"]) == ("sum", "sum")
    assert base["training"]["negatives"] == 4
    assert base["recommender"]["synthetic_users"] == 60
    assert base["recommender"]["synthetic_items"] == 30
    assert (base["recommender"]["temperature"], base["recommender"]["noise"]) == (0.2, 0.1)


@pytest.mark.parametrize("name", list(STUDY.experiments))
def test_a_name_says_split_loop_and_method(name):
    setting, told = PAPER.setting_of(name), scenarios()[name]
    of_split, kind = setting.split("-")
    method = name.removeprefix(f"{setting}-")
    split, training, merge = told["dataset"]["split"], told["training"], told["protocol"]["merge"]
    assert setting in SETTINGS
    assert {*PAPER.metrics.values(), PAPER.validation} <= set(told["evaluate"]["metrics"])
    assert (split["name"], split.get("by")) == {"file": ("last", "file"), "random": ("random", None)}[
        of_split
    ]
    recommender = told.get("recommender") or {}
    reduction = told["model"]["loss_reduction"], recommender.get("item_loss", "mean")
    sums = kind == "adam5" and "cl4fedrec" in recommender.get("name", "")
    assert reduction == ("sum" if kind == "adam5" else "mean", "sum" if sums else "mean")
    loop = (training["optimizer"], training["local_epochs"], training["learning_rate"])
    assert loop == {"adam5": ("adam", 5, 0.001), "sum1": ("sgd", 1, 0.001)}[kind]
    rule = next((rule for rule in RULES if method.endswith(f"-{rule}")), None)
    wanted = rule or {"adam5": "touched-mean", "sum1": "sum"}[kind]
    assert (merge if isinstance(merge, str) else merge["name"]) == wanted
    if rule:
        sums = merge["gather"] == "sum" if rule == "hics" else merge.get("rescale") == "n"
        assert sums == (kind == "sum1")
    attack = next((attack for attack in ATTACKS if method.startswith(attack)), None)
    assert [one["name"] for one in told.get("attackers", [])] == ([attack] if attack else [])
    if attack:
        (one,) = told["attackers"]
        assert (one["fraction"], one["scale"]) == (0.001, {"adam5": "matched", "sum1": "gradient"}[kind])
        assert {"er@5", "er@10", "er@20"} < set(told["evaluate"]["metrics"])


def test_every_row_has_an_experiment_in_every_setting_and_every_printed_row_is_one():
    for table, rows in TABLE_ROWS.items():
        assert {one.row for one in PAPER.published.printed_numbers if one.table == table} <= rows.keys()
        for setting in SETTINGS:
            assert {experiment_name(setting, method) for method in rows.values()} <= STUDY.experiments.keys()
    assert {one.table for one in PAPER.published.printed_numbers} == {"table1", *TABLE_ROWS}


def test_a_method_is_printed_alike_in_every_table():
    for column in ("Recall@20", "NDCG@20"):
        of_method = {}
        for table, rows in TABLE_ROWS.items():
            for one in PAPER.published.printed_numbers:
                if (one.table, one.column) == (table, column):
                    of_method.setdefault(rows[one.row], set()).add(one.value)
        assert all(len(values) == 1 for values in of_method.values())
    assert PAPER.published.printed_value("table2", "Original", "Recall@20") == 0.04444


def test_every_figure_shows_experiments_that_there_are():
    found = paper_figures()
    assert all(set(one.experiments) <= STUDY.experiments.keys() for one in found.values())
    assert {
        f"exposure-{attack}-file-{loop}" for attack in ATTACKS for loop in ("adam5", "sum1")
    } < found.keys()
    assert len(found["exposure-psmu-file-sum1"].experiments) == len(defence_methods("psmu"))
    shown = {name for one in found.values() for name in one.experiments}
    assert shown == STUDY.experiments.keys()


def test_tables_and_settings_can_be_asked_for():
    own = ["original", "simgcl", "union", "cl4fedrec", "rcl4fedrec"]
    there = selectable_names(STUDY)
    assert select_experiments(["table2-file-adam5"], there, STUDY.experiments) == [
        f"file-adam5-{one}" for one in own
    ]
    assert len(select_experiments(["table2", "table2-random-sum1"], there, STUDY.experiments)) == 20
    assert {PAPER.setting_of(name) for name in there["sum1"]} == {"file-sum1", "random-sum1"}
    assert select_experiments([], there, STUDY.experiments) == list(STUDY.experiments)
    with pytest.raises(ScenarioError, match="did you mean 'table2-file-adam5'"):
        select_experiments(["table2-file-adam"], there, STUDY.experiments)


def test_a_shorter_study_has_so_many_epochs_and_seeds():
    study = STUDY.make_study(["file-sum1-original"], data=_data(), seeds=2, epochs=4)
    plan = make_plan(study, check_data=False)
    assert [one.seed for one in plan.variants] == [1, 2]
    assert {one.scenario.resolved()["protocol"]["rounds"] for one in plan.variants} == {4}
    assert STUDY.count_runs(2) == 2 * len(STUDY.experiments)


def test_data_are_found_under_either_name_and_missing_data_are_refused(tmp_path):
    (tmp_path / "ml-1m.zip").touch()
    names = list(STUDY.experiments)
    assert STUDY.find_missing_data(names, data=tmp_path, scale="full") == {}
    assert STUDY.find_missing_data(names, data=None, scale="tiny") == {}
    (variant,) = make_plan(STUDY.make_study(names[:1], data=tmp_path, seeds=1), check_data=False).variants
    assert variant.scenario.resolved()["dataset"]["path"] == str(tmp_path.resolve() / "ml-1m.zip")
    with pytest.raises(DataError, match="--data is missing"):
        STUDY.find_missing_data(names, data=None, scale="full")
    with pytest.raises(DataError, match=r"none of the data sets in nowhere; .* one of ml-1m or ml-1m\.zip"):
        STUDY.find_missing_data(names, data=Path("nowhere"), scale="full")
