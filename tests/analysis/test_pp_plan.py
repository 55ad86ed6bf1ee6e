"""The experiments of the PerFedRec++ study are what their names say, and can all be run."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from analysis.papers.claims import printed_orders
from analysis.papers.comparison import selectable_names
from analysis.papers.study import select_experiments
from analysis.perfedrec_pp import ABLATIONS, CENTRAL, FEDERATED, PAPER, SETTINGS, STUDY, SWEEPS, paper_figures
from gossiprec.base.errors import DataError, ScenarioError
from gossiprec.study.plan import make_plan

WHOLE = "paper-perfedrec-pp"
SCALED = "scaled-perfedrec-pp"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which data lie, of which nothing is read here."""
    found = tmp_path_factory.mktemp("data")
    (found / "yelp").mkdir()
    return found


@cache
def scenarios(folder, scale="full", epochs=None):
    """Return the resolved scenario of every experiment."""
    study = STUDY.make_study(STUDY.experiments, data=folder, scale=scale, seeds=1, epochs=epochs)
    plan = make_plan(study, check_data=False)
    return {str(one.labels["experiment"]): one.scenario.resolved() for one in plan.variants}


def differing(one, other, path=""):
    """Return the keys, with dots, at which two scenarios differ, but for what tells users apart by activity."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return set() if one == other else {path}
    keys = {*one, *other} - {"activity_groups"}
    return {at for key in keys for at in differing(one.get(key), other.get(key), f"{path}.{key}".lstrip("."))}


@pytest.mark.parametrize("scale", ["full", "tiny"])
def test_every_experiment_resolves_and_no_two_are_the_same(folder, scale):
    found = scenarios(folder, scale)
    assert list(found) == list(STUDY.experiments)
    told = [{key: value for key, value in one.items() if key != "name"} for one in found.values()]
    assert all(one not in told[:place] for place, one in enumerate(told))


def test_setting_paper_is_what_its_page_says(folder):
    base = scenarios(folder)[WHOLE]
    training, protocol, own = base["training"], base["protocol"], base["recommender"]
    assert (training["optimizer"], training["learning_rate"], training["local_epochs"]) == ("adam", 0.01, 1)
    assert (protocol["rounds"], protocol["participation"]) == (300, 0.049)
    assert (protocol["merge"], protocol["server"]) == ("samples", None)  # eq. 11
    assert (protocol["choose"], protocol["pause"], protocol["client_model"]) == ("proportional", 1, "none")
    assert (own["name"], own["cluster_models"], own["pseudo_items"]) == ("perfedrec-pp", "own", 0.1)
    assert own["clusters"] == {"number": 5, "first": 44, "every": 6, "last": None, "lasting": True}
    assert [own["local_share"], own["cluster_share"]] == pytest.approx([1 / 3, 1 / 3])
    assert (own["pretraining"]["epochs"], own["pretraining"]["views"]) == (5, "noise")
    (noise,) = base["policies"]
    assert [noise[key] for key in ("name", "norm", "bound", "noise", "scale", "of")] == [
        "ldp", "linf", 0.5, "laplace", 0.1, "update",
    ]  # fmt: skip
    assert base["evaluate"]["every"] == 5
    assert base["evaluate"]["mask"] == "train+validation"
    assert base["dataset"]["split"]["name"] == "published"
    assert base["model"]["layers"] == 2


def test_our_reading_differs_from_the_text_in_the_step_and_the_weights(folder):
    found = scenarios(folder)
    loop = {"training.learning_rate", "protocol.merge", "protocol.server"}
    for method in ("perfedrec-pp", "perfedrec", "fedgnn", "fedmf", "global", "no-clusters"):
        assert differing(found[f"paper-{method}"], found[f"scaled-{method}"]) == loop
    whole = found[SCALED]
    assert whole["protocol"]["server"] == {"name": "momentum", "beta": 0, "learning_rate": 5.12}
    assert whole["protocol"]["merge"] == "mean"
    assert whole["training"]["learning_rate"] * 5.12 == pytest.approx(0.256)


def test_the_authors_code_is_the_loop_of_the_published_code(folder):
    """Moments shared over answers, averaged rows, pseudo items for all, and the rounds of each public file."""
    found = scenarios(folder)
    own = {row: found[f"authors_code-{method}"] for row, method in FEDERATED.items()}
    for row, one in own.items():
        server, recommender = one["protocol"]["server"], one["recommender"]
        assert server == {
            "name": "adam", "learning_rate": 0.256, "step_per": "answer",
            **({"step_bound": 0.5} if row == "PerFedRec++" else {}),
        }  # fmt: skip
        assert (one["protocol"]["upload"], one["protocol"]["merge"], one["policies"]) == (
            "gradients",
            "mean",
            [],
        )
        assert (one["training"]["optimizer"], one["training"]["learning_rate"]) == ("sgd", 1.0)
        assert (recommender["user_rows"], recommender["pseudo_from"]) == ("averaged", "all")
        assert (recommender["pseudo_items"], recommender["table_noise"]) == (
            0.1,
            0.2 if row == "FedMF" else 0.1,
        )
        assert one["protocol"]["pause"] == (1 if row.startswith("PerFedRec") else 0)
    rounds = {
        row: [own[row]["recommender"]["clusters"][key] for key in ("first", "every", "last", "lasting")]
        for row in ("PerFedRec", "PerFedRec++")
    }
    assert rounds == {"PerFedRec": [54, 6, 174, False], "PerFedRec++": [44, 6, 176, False]}
    assert own["PerFedRec++"]["recommender"]["cluster_models"] == "none"
    assert own["FedMF"]["recommender"]["name"] == own["FedGNN"]["recommender"]["name"] == "fedgnn"


def test_rows_of_table_4_are_the_methods_that_their_names_say(folder):
    found = scenarios(folder)
    models = {row: found[f"paper-{method}"]["model"]["name"] for row, method in CENTRAL.items()}
    assert models == {row: row.lower() for row in CENTRAL}
    assert {found[f"paper-{method}"]["protocol"]["name"] for method in CENTRAL.values()} == {"central"}
    epochs = [found[f"paper-{method}"]["protocol"]["epochs"] for method in CENTRAL.values()]
    assert epochs == [100, 200, 30, 50, 30]
    for setting in SETTINGS:
        one = {row: found[f"{setting}-{method}"] for row, method in FEDERATED.items()}
        assert {own["model"]["name"] for row, own in one.items() if row != "FedMF"} == {"lightgcn"}
        assert (one["FedMF"]["model"]["name"], one["FedMF"]["model"]["loss"]) == ("mf", "bpr")
        assert [one[row]["recommender"]["name"] for row in FEDERATED if row != "FedMF"] == [
            "fedgnn", "perfedrec", "perfedrec-pp",
        ]  # fmt: skip
        chosen_by = {row: own["protocol"]["choose"] for row, own in one.items()}
        assert [row for row, choose in chosen_by.items() if choose == "proportional"] == [
            "PerFedRec",
            "PerFedRec++",
        ]
    assert found["paper-fedmf"]["recommender"] is None
    assert found["paper-fedmf"]["policies"][0]["scale"] == 0.2


def test_ablations_leave_out_what_their_names_say(folder):
    found = scenarios(folder)
    wanted = {
        "no personalisation": {"recommender.local_share", "recommender.cluster_share"},
        "no clustering": {"recommender.cluster_models", "protocol.choose"},
    }
    for setting in SETTINGS:
        whole = found[f"{setting}-perfedrec-pp"]
        for part, keys in wanted.items():
            own = found[f"{setting}-{ABLATIONS[part]}"]
            already = {"recommender.cluster_models"} if setting == "authors_code" else set()
            assert differing(whole, own) == keys - (already if part == "no clustering" else set())
        without = found[f"{setting}-{ABLATIONS['no pre-training']}"]
        names = {at.split(".", 1)[1] for at in differing(whole, without)}
        of_code = (
            {"server.step_bound", "clusters.first", "clusters.last"} if setting == "authors_code" else set()
        )
        assert names - of_code == {"name", "pretraining", "pretraining_layers"}
    alone = found["paper-global"]["recommender"]
    assert (alone["local_share"], alone["cluster_share"]) == (0, 0)
    assert found["paper-no-clusters"]["protocol"]["choose"] == "uniform"
    assert found["paper-no-clusters"]["recommender"]["cluster_models"] == "none"


def test_points_of_a_sweep_differ_from_the_whole_in_what_is_swept(folder):
    found = scenarios(folder)
    at = {
        "pretraining": (
            "recommender.pretraining.epochs",
            lambda one: one["recommender"]["pretraining"]["epochs"],
        ),
        "clusters": ("recommender.clusters.number", lambda one: one["recommender"]["clusters"]["number"]),
        "noise": ("policies", lambda one: one["policies"][0]["scale"]),
    }
    for option, methods in SWEEPS.items():
        key, value_of = at[option]
        for value, method in methods.items():
            own = found[f"scaled-{method}"]
            if method == "perfedrec":  # without pre-training it is PerFedRec
                assert value == 0
                continue
            assert value_of(own) == value
            assert differing(found[SCALED], own) == ({key} if method != "perfedrec-pp" else set())
    assert differing(found[SCALED], found["scaled-views-mix"]) == {"recommender.pretraining.views"}


@pytest.mark.parametrize("name", list(STUDY.experiments))
def test_every_experiment_reads_yelp_and_measures_what_is_compared(folder, name):
    told = scenarios(folder)[name]
    places = [Path(told["dataset"][key]) for key in ("train", "validation", "test")]
    assert places == [(folder / "yelp" / file).resolve() for file in ("train.txt", "valid.txt", "test.txt")]
    assert {*PAPER.metrics.values(), PAPER.validation} <= set(told["evaluate"]["metrics"])
    assert told["evaluate"]["beside"] == ["popularity", "random"]


def test_users_are_told_apart_by_activity_where_the_mix_is_compared_with_the_global_model(folder):
    told = {name: one["evaluate"].get("activity_groups") for name, one in scenarios(folder).items()}
    assert {name for name, groups in told.items() if groups} == {
        f"{setting}-{method}" for setting in SETTINGS for method in ("perfedrec-pp", "global")
    }


def test_a_shorter_study_is_shorter_in_rounds_and_in_passes_of_central_rows(folder):
    found = scenarios(folder, epochs=7)
    assert found[WHOLE]["protocol"]["rounds"] == 7
    assert found["paper-lightgcn"]["protocol"] == {"name": "central", "epochs": 7}


def test_every_figure_shows_experiments_that_there_are_and_every_experiment_is_shown():
    found = paper_figures()
    assert {
        "table4-authors_code",
        "central-paper",
        "noise-scaled",
        "deciles-paper",
        "views-scaled",
    } <= found.keys()
    assert "central-authors_code" not in found
    assert {name for one in found.values() for name in one.experiments} == STUDY.experiments.keys()


def test_printed_orders_are_between_neighbours_of_table_4():
    words = [one.text for one in printed_orders(PAPER, "paper")]
    assert "Table 4, Recall@20: PerFedRec++ over FedGNN" in words
    assert "Table 4, Recall@20: FedGNN over PerFedRec" in words
    assert "Table 4, NDCG@20: PerFedRec++ over MF" in words
    assert len(words) == 16


def test_tables_sweeps_and_settings_can_be_asked_for():
    there = selectable_names(STUDY)
    assert select_experiments(["noise-scaled"], there, STUDY.experiments) == list(there["noise"])
    assert select_experiments(["federated-authors_code"], there, STUDY.experiments) == [
        f"authors_code-{method}" for method in ("perfedrec-pp", "perfedrec", "fedgnn", "fedmf")
    ]
    assert set(there["deciles-paper"]) == {WHOLE, "paper-global"}
    assert sum(len(there[setting]) for setting in SETTINGS) == len(STUDY.experiments)
    assert len(there["table4-paper"]) == 9
    assert len(there["table5"]) == 12
    with pytest.raises(ScenarioError, match="did you mean 'noise-scaled'"):
        select_experiments(["noise-scald"], there, STUDY.experiments)


def test_the_most_wanted_come_first():
    assert next(iter(STUDY.experiments)) == WHOLE
    assert set(list(STUDY.experiments)[:4]) == {f"paper-{method}" for method in FEDERATED.values()}


def test_missing_data_are_told(tmp_path):
    with pytest.raises(DataError, match="expected at least one of yelp"):
        STUDY.find_missing_data(list(STUDY.experiments), data=tmp_path, scale="full")
    assert STUDY.find_missing_data(list(STUDY.experiments), data=None, scale="tiny") == {}
