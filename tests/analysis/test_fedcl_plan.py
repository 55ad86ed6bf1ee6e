"""The experiments of the FedCL study are what their names say, and can all be run."""

from __future__ import annotations

from functools import cache
from math import isfinite
from pathlib import Path

import pytest
import yaml

from analysis.cl4fedrec import STUDY as CL4FEDREC
from analysis.fedcl import (
    ABLATIONS,
    BEST_VALUES,
    EPSILON,
    MODELS,
    PAPER,
    SETTINGS,
    SPREAD,
    STUDY,
    SWEEPS,
    SWEPT,
    TABLE_ROWS,
    paper_figures,
)
from analysis.papers.claims import printed_orders
from analysis.papers.comparison import selectable_names
from analysis.papers.study import select_experiments
from analysis.pdc_frs import STUDY as PDC_FRS
from analysis.perfedrec_pp import STUDY as PERFEDREC_PP
from gossiprec.base.errors import DataError, ScenarioError
from gossiprec.study.plan import make_plan

SPECS = Path(__file__).parents[2].parent / "shared" / "specs"
PRINTED = [SPECS / "published_federated.yaml", SPECS / "published_more.yaml"]
DATA_SETS = {"table2": "Beauty", "table2-sports": "Sports", "table3": "ML-1M", "table3-yelp": "Yelp"}
"""The data set of each table of the study."""
USERS = {"beauty": 22363, "sports": 35598, "ml-1m": 6035, "yelp": 30351}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which data lie, of which nothing is read here."""
    found = tmp_path_factory.mktemp("data")
    for name in ("ml-1m", "amazon", "yelp"):
        (found / name).mkdir()
    for name in ("amazon/Beauty.txt.gz", "amazon/Sports_and_Outdoors.txt", "yelp/Yelp_s3rec.txt.gz"):
        (found / name).touch()
    return found


@cache
def scenarios(folder, scale="full", epochs=None):
    """Return the resolved scenario of every experiment."""
    study = STUDY.make_study(STUDY.experiments, data=folder, scale=scale, seeds=1, epochs=epochs)
    plan = make_plan(study, check_data=False)
    return {str(one.labels["experiment"]): one.scenario.resolved() for one in plan.variants}


@pytest.mark.parametrize("scale", ["full", "tiny"])
def test_every_experiment_resolves_and_no_two_are_the_same(folder, scale):
    found = scenarios(folder, scale)
    assert list(found) == list(STUDY.experiments)
    told = [{key: value for key, value in one.items() if key != "name"} for one in found.values()]
    assert all(one not in told[:place] for place, one in enumerate(told))


def test_the_base_is_what_the_paper_says(folder):
    base = scenarios(folder)["beauty-gru4rec-fedcl"]
    model, own, protocol = base["model"], base["recommender"], base["protocol"]
    assert (model["dim"], model["hidden"], model["dropout"]) == (64, 64, 0.3)
    assert (model["loss"], model["in_batch"], model["max_length"]) == ("sampled", True, 50)
    assert (own["clusters"], own["clustering"], own["clip"], own["epsilon"]) == (25, "ward", 1, 4)
    assert (own["semi_hard"], own["semi_hard_share"], own["hard"]) == (20, 0.25, False)
    assert (own["local_negatives"], own["local_items"], own["local_drawn"]) == (10, 100, "positive")
    assert (protocol["client_model"], protocol["upload"], protocol["merge"]) == ("none", "gradients", "mean")
    assert protocol["server"] == {"name": "adam", "learning_rate": 0.001}
    assert base["training"]["local_epochs"] == 1


@pytest.mark.parametrize("name", list(STUDY.experiments))
def test_a_name_says_where_it_is_measured(folder, name):
    told, setting = scenarios(folder)[name], PAPER.setting_of(name)
    data, is_file = told["dataset"], setting != "ml-1m"
    assert data["name"] == ("file" if is_file else "movielens-1m")
    assert is_file or (data["min_rating"], data["min_items"]) == (4, 3)
    assert not is_file or setting in Path(data["path"]).name.lower()
    assert {"test": 1, "validation": 1}.items() <= data["split"].items()
    assert data["split"]["name"] == "leave_last_k"
    assert Path(data["path"]).is_relative_to(folder)
    assert told["evaluate"]["mask"] == "train+validation"
    assert {*PAPER.metrics.values(), PAPER.validation} <= set(told["evaluate"]["metrics"])
    if not PAPER.has_other_epochs(name):
        assert round(told["protocol"]["participation"] * USERS[setting]) == 16
        assert abs(told["evaluate"]["every"] * 16 - USERS[setting]) <= 16
        assert told["protocol"]["rounds"] % told["evaluate"]["every"] == 0


def test_rows_have_the_model_and_the_loop_of_their_names(folder):
    for setting in SETTINGS:
        found = {
            row: scenarios(folder)[f"{setting}-{method}"] for row, method in TABLE_ROWS["table2"].items()
        }
        for model, name in MODELS.items():
            central, fed, bil, fedcl = (found[f"{model}{way}"] for way in ("", "+Fed", "+BIL", "+FedCL"))
            assert central["protocol"]["name"] == "central"
            assert central["model"]["name"] == name
            assert central["model"].get("loss", "all") == "all"
            federated = {one["model"]["name"] for one in (fed, bil, fedcl)}
            assert federated == {"two-tower" if model == "NCF" else name}
            wanted = ["fed-softmax", "bil", "fedcl"]
            assert [one["recommender"]["name"] for one in (fed, bil, fedcl)] == wanted
            assert not fed["model"]["in_batch"], "local negatives alone"
            assert fedcl["model"]["in_batch"] == (model != "NCF")


def test_points_of_a_sweep_differ_from_fedcl_in_what_is_swept(folder):
    keys = {
        "clusters": "clusters",
        "share": "semi_hard_share",
        "semi-hard": "semi_hard",
        "local": "local_negatives",
    }
    base = scenarios(folder)[f"beauty-{SWEPT}"]["recommender"]
    for option, methods in SWEEPS.items():
        assert methods[BEST_VALUES[option]] == SWEPT
        for value, method in methods.items():
            own = scenarios(folder)[f"beauty-{method}"]["recommender"]
            wanted = {**base, keys[option]: value / 100 if option == "share" else value}
            assert {**own, "leaks": base["leaks"]} == wanted
    for value, method in EPSILON.items():
        own = scenarios(folder)[f"beauty-{method}"]["recommender"]
        assert own == {**base, "epsilon": value if isfinite(value) else None}
    for value, method in SPREAD.items():
        assert scenarios(folder)[f"beauty-{method}"]["recommender"]["spread_weight"] == value


def test_our_former_reading_is_there_by_name(folder):
    """What the page's numbers were measured with: 128 hidden units, local negatives for each update."""
    found = scenarios(folder)
    for method in ("former-fed", "former-fedcl", "former-no-noise"):
        one = found[f"beauty-{method}"]
        assert (one["model"]["hidden"], one["recommender"]["local_drawn"]) == (128, "update")
    assert found["beauty-former"]["model"]["hidden"] == found["beauty-former-bil"]["model"]["hidden"] == 128
    whole, one, other = (found[f"beauty-{name}"] for name in (SWEPT, "hidden-128", "drawn-per-update"))
    assert {**whole, "model": {**whole["model"], "hidden": 128}} == {**one, "name": whole["name"]}
    drawn = {**whole["recommender"], "local_drawn": "update"}
    assert {**whole, "recommender": drawn} == {**other, "name": whole["name"]}
    sampled = found["beauty-gru4rec-sampled"]
    assert (sampled["model"]["loss"], sampled["training"]["negatives"]) == ("sampled", 10)
    assert sampled["protocol"]["name"] == "central"


def test_ablations_leave_out_what_they_say(folder):
    whole = scenarios(folder)[f"beauty-{SWEPT}"]
    found = {words: scenarios(folder)[f"beauty-{method}"] for words, method in ABLATIONS.items()}
    without = found.pop("no in-batch negatives")
    assert without["model"] == {**whole["model"], "in_batch": False}
    assert without["recommender"] == whole["recommender"]
    assert all(one["model"] == whole["model"] for one in found.values())
    changed = {
        words: {key: value for key, value in one["recommender"].items() if whole["recommender"][key] != value}
        for words, one in found.items()
    }
    assert changed == {
        "no semi-hard negatives": {"semi_hard": 0, "leaks": None}, "no local negatives": {"local_negatives": 0},
        "the hardest of the cluster": {"hard": True}, "no clusters": {"clustering": "none"},
        "K-means": {"clustering": "kmeans"},
    }  # fmt: skip


def test_epochs_are_passes_over_all_clients(folder):
    short = scenarios(folder, epochs=3)
    assert short["beauty-gru4rec-fed"]["protocol"]["rounds"] == 3 * 1398
    assert short["ml-1m-ncf-fed"]["protocol"]["rounds"] == 3 * 377
    assert short["ml-1m-ncf"]["protocol"]["epochs"] == 3
    rounds = {name: one["protocol"].get("rounds") for name, one in scenarios(folder).items()}
    assert rounds["beauty-bert4rec-bil"] == STUDY.count_epochs("full", None) * 1398
    assert rounds["ml-1m-bert4rec-bil"] == STUDY.count_epochs("full", None) * 377


def test_each_study_tells_how_long_its_runs_are():
    told = [one.describe_epochs() for one in (CL4FEDREC, PDC_FRS, PERFEDREC_PP, STUDY)]
    assert told == ["20", "20", "300; centralised 30 to 200", "10; centralised 20"]


def test_every_row_and_drawing_has_its_experiments():
    there = set(STUDY.experiments)
    for setting in SETTINGS:
        for table in PAPER.tables_of_setting(setting):
            assert {f"{setting}-{method}" for method in TABLE_ROWS[table].values()} <= there
    drawn = {f"{name}-{s}" for s in SETTINGS for name in MODELS.values()}
    sweeps = {f"{option}-beauty" for option in (*SWEEPS, "epsilon", "spread", "ablations", "leaks")}
    assert set(paper_figures()) == drawn | sweeps


def test_orders_are_those_of_the_table_of_a_setting():
    tables = {"beauty": "Table 2", "sports": "Table 2-sports", "ml-1m": "Table 3", "yelp": "Table 3-yelp"}
    for setting, table in tables.items():
        words = [one.text for one in printed_orders(PAPER, setting)]
        assert f"{table}, HR@5: BERT4Rec+FedCL over GRU4Rec+FedCL" in words or setting == "ml-1m"
        assert 4 * 10 <= len(words) <= 4 * 11
        assert all(one.startswith(table) for one in words)


def test_only_names_tables_models_and_sweeps():
    names = selectable_names(STUDY)
    assert select_experiments(["ncf-beauty"], names, STUDY.experiments) == [
        "beauty-ncf-fedcl", "beauty-ncf-fed", "beauty-ncf-bil", "beauty-ncf",
    ]  # fmt: skip
    assert len(select_experiments(["table3"], names, STUDY.experiments)) == 24
    assert len(select_experiments(["table3-yelp"], names, STUDY.experiments)) == 12
    assert select_experiments(["epsilon"], names, STUDY.experiments)[0] == "beauty-gru4rec-fedcl"
    assert "ablations-ml-1m" not in names
    with pytest.raises(ScenarioError, match="did you mean 'epsilon'"):
        select_experiments(["epsilo"], names, STUDY.experiments)


def test_missing_data_keep_their_own_experiments_alone_from_being_run(folder, tmp_path):
    (tmp_path / "ml-1m").mkdir()
    lacking = STUDY.find_missing_data(STUDY.experiments, data=tmp_path, scale="full")
    assert set(lacking) == {name for name in STUDY.experiments if not name.startswith("ml-1m-")}
    assert "no amazon/Beauty.txt.gz or amazon/Beauty.txt in" in lacking["beauty-ncf"]
    assert STUDY.find_missing_data(STUDY.experiments, data=folder, scale="full") == {}
    with pytest.raises(DataError, match="found none of the data sets"):
        STUDY.find_missing_data(STUDY.experiments, data=tmp_path / "nowhere", scale="full")


@pytest.mark.skipif(not PRINTED[0].exists(), reason="the list of printed numbers is not here")
def test_printed_numbers_are_those_of_the_list():
    listed = [
        one
        for file in PRINTED
        for one in yaml.safe_load(file.read_text(encoding="utf-8"))["tables"]
        if one["paper"] == "fedcl" and one["table"] in ("Table 2", "Table 3")
    ]
    wanted = {(one["table"], one["dataset"], one["method"], one["metric"]): one["value"] for one in listed}
    found = {
        (f"Table {one.table[5]}", DATA_SETS[one.table], one.row, one.column): one.value
        for one in PAPER.published.printed_numbers
        if one.table in DATA_SETS
    }
    assert len(wanted) == len(listed)
    assert found == wanted
