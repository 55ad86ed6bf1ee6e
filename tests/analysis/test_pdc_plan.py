"""The experiments of the PDC-FRS study are what their names say, and can all be run."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import yaml

from analysis.papers.claims import printed_orders
from analysis.papers.comparison import selectable_names
from analysis.papers.study import select_experiments
from analysis.pdc_frs import PAPER, SETTINGS, STUDY, TABLE_ROWS, WEIGHTS, methods_by_epsilon, paper_figures
from gossiprec.base.errors import DataError, ScenarioError
from gossiprec.study.plan import make_plan


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which data lie, of which nothing is read here."""
    found = tmp_path_factory.mktemp("data")
    (found / "ml-1m").mkdir()
    (found / "amazon").mkdir()
    (found / "amazon" / "Office_Products.txt").touch()
    return found


@cache
def scenarios(folder, scale="full"):
    """Return the resolved scenario of every experiment."""
    plan = make_plan(STUDY.make_study(STUDY.experiments, data=folder, scale=scale, seeds=1), check_data=False)
    return {str(one.labels["experiment"]): one.scenario.resolved() for one in plan.variants}


@pytest.mark.parametrize("scale", ["full", "tiny"])
def test_every_experiment_resolves_and_no_two_are_the_same(folder, scale):
    found = scenarios(folder, scale)
    assert list(found) == list(STUDY.experiments)
    told = [{key: value for key, value in one.items() if key != "name"} for one in found.values()]
    assert all(one not in told[:place] for place, one in enumerate(told))


def test_the_base_is_what_the_paper_says(folder):
    base = scenarios(folder)["file-pdc-frs"]
    assert (base["model"]["name"], base["model"]["dim"], base["model"]["hidden"]) == ("ncf", 32, [32, 16, 8])
    assert (base["protocol"]["rounds"], base["protocol"]["slice"]) == (20, 256)
    assert base["protocol"]["merge"] == "touched-mean"
    training = base["training"]
    assert (training["optimizer"], training["local_epochs"], training["learning_rate"]) == ("adam", 5, 0.001)
    assert training["negatives"] == 4
    assert base["model"]["loss_reduction"] == "sum"
    assert base["protocol"]["close_epochs"]
    own = base["recommender"]
    assert (own["similarity"], own["epsilon"], own["augmented"], own["leaks"]) == ("titles", 5, 30, 50)
    assert (own["user_weight"], own["item_weight"]) == (0.05, 0.05)


@pytest.mark.parametrize("name", list(STUDY.experiments))
def test_a_name_says_where_it_is_measured(folder, name):
    told = scenarios(folder)[name]
    data, split = told["dataset"], told["dataset"]["split"]
    wanted = {
        "file": ("movielens-1m", "last"),
        "random": ("movielens-1m", "random"),
        "office": ("files", "random"),
    }
    assert (data["name"], split["name"]) == wanted[PAPER.setting_of(name)]
    where = data["train"] if STUDY.dataset_name(name) == "office" else data["path"]
    assert Path(where).is_relative_to(folder)
    assert {*PAPER.metrics.values(), PAPER.validation} <= set(told["evaluate"]["metrics"])


def test_ablations_leave_out_what_their_names_do_not_say(folder):
    for setting in SETTINGS:
        own = {row: scenarios(folder)[f"{setting}-{method}"] for row, method in TABLE_ROWS["table1"].items()}
        assert own["FedNCF"].get("recommender") is None
        assert own["FCF"]["model"]["name"] == "mf"
        parts = {
            row: [one["recommender"][key] for key in ("augmented", "user_weight", "item_weight")]
            for row, one in own.items()
            if one.get("recommender")
        }
        assert parts == {
            "FedNCF+Aug": [30, 0, 0], "FedNCF+CL": [0, 0.05, 0.05], "PDC-FRS": [30, 0.05, 0.05],
            "PDC-FRS, lambda = beta = 0.5": [30, 0.5, 0.5],
        }  # fmt: skip


def test_points_of_a_sweep_differ_from_pdc_frs_in_what_is_swept(folder):
    keys = {"alpha": "augmented", "lambda": "user_weight", "beta": "item_weight"}
    base = scenarios(folder)["file-pdc-frs"]["recommender"]
    for letter, methods in WEIGHTS.items():
        for value, method in methods.items():
            own = scenarios(folder)[f"file-{method}"]["recommender"]
            assert own == {**base, keys[letter]: value}
    for setting in SETTINGS:
        for similarity, methods in methods_by_epsilon(setting).items():
            for value, method in methods.items():
                own = scenarios(folder)[f"{setting}-{method}"]["recommender"]
                named = own["similarity"] if isinstance(own["similarity"], str) else own["similarity"]["name"]
                assert (named, own["epsilon"]) == (similarity, value)
                assert {**own, "similarity": 0, "epsilon": 0} == {**base, "similarity": 0, "epsilon": 0}


def test_numbers_are_those_of_the_shared_list_of_printed_results():
    """Of the list beside the project, if it is there: the data set, the method and the metric name a number."""
    file = Path(__file__).parents[2].parent / "shared" / "specs" / "published_federated.yaml"
    if not file.exists():
        pytest.skip("the list of printed results is not there")
    names = {"AZ (Amazon Office)": "office", "ML (MovieLens-1M)": "table1"}
    rows = {"FedNCF+Aug+CL (PDC-FRS)": "PDC-FRS"}
    wanted = {
        (names[one["dataset"]], rows.get(one["method"], one["method"]), one["metric"]): one["value"]
        for one in yaml.safe_load(file.read_text())["tables"]
        if (one["paper"], one["table"]) == ("pdc-frs", "Table 1")
    }  # fmt: skip
    found = {
        (one.table, one.row, one.column): one.value
        for one in PAPER.published.printed_numbers
        if one.table != "data"
    }
    assert found == wanted


def test_every_figure_shows_experiments_that_there_are_and_every_experiment_is_shown():
    found = paper_figures()
    assert {"table1-office", "epsilon-random", "leaks-file", "lambda-file"} <= found.keys()
    assert {name for one in found.values() for name in one.experiments} == STUDY.experiments.keys()


def test_a_method_in_two_printed_rows_has_no_order():
    assert "Office, Recall@20: PDC-FRS over FedNCF+Aug" in [
        one.text for one in printed_orders(PAPER, "office")
    ]
    words = [one.text for one in printed_orders(PAPER, "file")]
    assert "Table 1, Recall@20: PDC-FRS over FedNCF+Aug" in words
    assert "Table 1, Recall@20: FedNCF over FedMF" in words
    assert not any("FedMF over FCF" in one for one in words)
    assert len(words) == 8


def test_tables_sweeps_and_settings_can_be_asked_for():
    there = selectable_names(STUDY)
    assert select_experiments(["lambda-file"], there, STUDY.experiments) == list(there["lambda"])
    assert len(select_experiments(["table1"], there, STUDY.experiments)) == 21
    assert set(select_experiments(["epsilon-office"], there, STUDY.experiments)) < set(there["office"])
    with pytest.raises(ScenarioError, match="did you mean 'table1-file'"):
        select_experiments(["table1-fil"], there, STUDY.experiments)


def test_a_data_set_that_is_missing_is_told_and_the_other_is_run(tmp_path):
    (tmp_path / "ml-1m.zip").touch()
    names = ["file-pdc-frs", "office-pdc-frs"]
    lacking = STUDY.find_missing_data(names, data=tmp_path, scale="full")
    assert lacking == {"office-pdc-frs": f"data missing: no amazon/Office_Products.txt in {tmp_path}"}
    with pytest.raises(DataError, match="found none of the data sets in nowhere"):
        STUDY.find_missing_data(names, data=Path("nowhere"), scale="full")
