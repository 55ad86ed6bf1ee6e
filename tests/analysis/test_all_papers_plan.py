"""The experiments of the table of all recommenders are what its rows say, and can all be run or say why not."""

from __future__ import annotations

import copy
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from analysis.all_papers import (
    ATTACKED,
    RATES,
    STUDY,
    WATCHED,
    TableLine,
    format_settings,
    paper_rows,
    selectable_names,
)
from analysis.papers.study import select_experiments
from gossiprec.base.errors import ScenarioError
from gossiprec.emulation import simulate
from gossiprec.scenario import load_scenario
from gossiprec.study.plan import make_plan

A_HUM = [{"name": "a-hum", "fraction": 0.05}]
GUESSES = [{"name": "entropy-mia", "who": "coordinator", "community_size": 5}]


@cache
def scenarios(folder=None, scale="tiny"):
    """Return the resolved scenario of every experiment that can be run."""
    plan = make_plan(STUDY.make_study(STUDY.experiments, data=folder, scale=scale), check_data=False)
    return {str(one.labels["experiment"]): one.scenario.resolved() for one in plan.variants}


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """Return the scenarios at full size; of the data nothing is read."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "ml-100k").mkdir()
    return scenarios(folder, "full")


def test_every_experiment_is_some_rows_and_every_row_has_its_experiments():
    named = [name for row in paper_rows().values() for name in row.experiments]
    assert {*named, *selectable_names()["tuned"]} == set(STUDY.experiments)


def test_all_learn_from_the_same_data_with_the_same_split(full):
    data = [one["dataset"] for one in full.values()]
    assert all(one == data[0] for one in data)
    assert (data[0]["split"]["name"], data[0]["split"]["test"], data[0]["split"]["validation"]) == (
        "leave_last_k",
        1,
        2,
    )
    assert {one["evaluate"]["mask"] for one in full.values()} == {"train+validation"}


def test_a_client_is_asked_for_a_hundred_local_epochs_or_with_gru4rec_for_ten(full):
    for name, one in full.items():
        protocol, each = one["protocol"], one["training"]["local_epochs"]
        rounds = protocol.get("rounds") or protocol.get("wakes") or protocol.get("epochs")
        share = protocol["participation"] if "participation" in protocol and not protocol["slice"] else 1
        epochs = 10 if one["model"]["name"] == "gru4rec" and protocol["name"] == "fedavg" else 100
        assert rounds * share * each == pytest.approx(epochs, rel=0.01), name


def test_watched_and_attacked_runs_are_the_plain_ones_but_for_who_looks_or_poisons(full):
    for name, one in full.items():
        if not name.endswith((WATCHED, ATTACKED)):
            continue
        plain = full[name.removesuffix(WATCHED).removesuffix(ATTACKED)]
        apart = {key for key in one if one[key] != plain.get(key)}
        assert apart == {"observers" if name.endswith(WATCHED) else "attackers", "evaluate"}, name


def rates(scenario):
    """Return the numbers that tuning may change, taken out of a scenario: of clients, and of the server."""
    server = scenario["protocol"].get("server") or {"learning_rate": 1.0}
    return np.array([one.pop("learning_rate") for one in (scenario["training"], server)])


def test_tuned_runs_are_the_plain_ones_but_for_one_learning_rate(full):
    for name in selectable_names()["plain"]:
        ends = [copy.deepcopy(full[f"{name}{end}"]) for end in RATES]
        factors = [rates(one) / rates(copy.deepcopy(full[name])) for one in ends]
        assert np.allclose(np.prod(factors, axis=1), [1 / 3, 1, 3], rtol=0.003), name
        assert sorted(factors[0])[1] == sorted(factors[2])[0] == 1, name
        assert ends[0] == ends[1] == ends[2], name


def test_a_rate_is_chosen_by_the_seeds_that_all_rates_have():
    def run(value):
        return SimpleNamespace(metrics={"metric": np.array(["val_recall@20"]), "value": np.array([value])})

    runs = {"fcf": {1: run(0.1), 2: run(0.9)}, "fcf-slower": {1: run(0.2)}, "fcf-faster": {1: run(0.3)}}
    assert TableLine(paper_rows()["fcf"], runs, {}).best_rate == "-faster"
    assert TableLine(paper_rows()["fcf"], {**runs, "fcf-slower": {}}, {}).best_rate is None


@pytest.mark.parametrize("name", [name for name, row in paper_rows().items() if row.unattacked])
def test_a_row_without_poisoners_is_one_that_refuses_them(tmp_path, name):
    with pytest.raises(ScenarioError, match="attackers"):
        simulate({**scenarios()[name], "attackers": A_HUM}, out=tmp_path / "run")


@pytest.mark.parametrize("name", [name for name, row in paper_rows().items() if row.no_guesses])
def test_a_row_without_guesses_is_one_that_refuses_them(tmp_path, name):
    with pytest.raises(ScenarioError, match="probabilities"):
        simulate({**scenarios()[name], "observers": GUESSES}, out=tmp_path / "run")


def test_settings_in_one_line_are_the_scenarios(full):
    assert format_settings(full["pdc-frs"]) == (
        "ncf (d = 32, layers 32-16-8); pdc-frs (epsilon 5, augmented 30); adam 0.001, full batches, 4 negatives; "
        "20 rounds of 5 local epochs, slices of 256, touched-mean"
    )
    assert format_settings(full["fedgnn"]).endswith(
        "370 rounds of 1 local epoch, 27 % of the clients each, mean, momentum 5.12 at the coordinator"
    )
    assert "fedgnn, ldp laplace 0.1" in format_settings(full["fedgnn"])
    assert format_settings(full["rand-gossip"]).endswith(
        "batches of 64, 4 negatives; 100 wakes of 1 local epoch"
    )
    assert "; sgd 1, full batches, 10 local and 20 semi-hard negatives; " in format_settings(
        full["fedcl-two-tower"]
    )
    assert "batches of 128, all items as negatives; " in format_settings(full["central-gru4rec"])
    assert format_settings(full["central-mf"]).endswith("batches of 2048, 1 negative; 100 epochs")


def test_rows_and_kinds_of_runs_can_be_asked_for():
    there = selectable_names()
    assert select_experiments(["row-fedncf"], there, STUDY.experiments) == [
        "fedncf",
        "fedncf-watched",
        "fedncf-attacked",
    ]
    assert there["row-fedmf"] == ("fcf", "fcf-attacked")
    assert all(name.endswith(WATCHED) for name in there["watched"])
    kinds = [name for kind in ("watched", "attacked", "tuned") for name in there[kind]]
    assert sorted(kinds) == sorted(STUDY.experiments)
    with pytest.raises(ScenarioError, match="did you mean 'row-fedncf'"):
        select_experiments(["row-fedcnf"], there, STUDY.experiments)


def test_movielens_1m_is_a_study_of_its_own(tmp_path):
    (tmp_path / "ml-1m").mkdir()
    study = STUDY.make_study(["fedncf"], data=tmp_path, dataset="movielens-1m")
    assert study.name == "all-papers-movielens-1m"
    (one,) = make_plan(study, check_data=False).variants
    told = load_scenario(one.scenario.resolved()).resolved()["dataset"]
    assert (told["name"], told["path"]) == ("movielens-1m", str((tmp_path / "ml-1m").resolve()))


def test_office_has_no_titles_so_similarity_is_co_occurrence_there(tmp_path):
    (tmp_path / "amazon").mkdir()
    (tmp_path / "amazon" / "Office_Products.txt").write_text("")
    study = STUDY.make_study(["pdc-frs-faster", "fedncf"], data=tmp_path, dataset="amazon-office")
    pdc, ncf = (one.scenario.resolved() for one in make_plan(study, check_data=False).variants)
    assert pdc["recommender"]["similarity"]["name"] == "co-occurrence"
    assert ncf["recommender"] is None
    for one in (pdc, ncf):
        assert (one["dataset"]["name"], one["dataset"]["form"]) == ("file", "lists")
        assert one["dataset"]["path"].endswith("Office_Products.txt")
