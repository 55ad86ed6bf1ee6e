"""Attacks used to be credited for ties: they "found" 100 % of communities that nothing sets apart."""

import csv

import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.emulation import simulate
from gossiprec.scenario import load_scenario

DIVERGED = ["model.init_std=0.1", "training.learning_rate=1e30"]
GOSSIP = [
    "protocol={name: rand-gossip, fanout: 3, view: {size: 3}, wakes: 20}",
    "observers=[{name: cda, who: single, community_size: 5, momentum: 0.9, relevance: standardized, "
    "reference_items: 20}]",
    "evaluate.every=5",
]
GUESSING = 5 / 39  # of 40 users 39 are others


def attacks(out, *overrides):
    run = simulate(load_scenario("ties.yaml", overrides), out=out)
    return run.summary["attacks"], dict(run.adversaries)


def test_an_untrained_model_finds_what_guessing_finds(in_case, tmp_path):
    in_case("attack_ties")
    found, by_node = attacks(tmp_path / "run")
    assert [row["relevance"] for row in found] == ["standardized", "mean_score", "ndcg"]
    for row in found:
        for number in ("max_aac", "last_aac", "best10_min", "best10_mean", "exposure_undefended"):
            assert row[number] == pytest.approx(GUESSING)
        assert (row["upper_bound"], row["tied_share"]) == (pytest.approx(1.0), 1.0)
    for _, accuracies in by_node.values():
        assert accuracies == pytest.approx(GUESSING)


def test_models_that_are_not_numbers_find_nothing_but_an_error(in_case, tmp_path):
    in_case("attack_ties")
    for name, changes in {"federated": DIVERGED, "gossip": [*DIVERGED, *GOSSIP]}.items():
        with pytest.raises(ScenarioError, match="NaN or infinite"):
            attacks(tmp_path / name, *changes)


@pytest.mark.slow
def test_names_of_users_are_no_matter(in_case, tmp_path):
    folder = in_case("attack_ties")
    with (folder / "disjoint.csv").open() as file:
        header, *rows = csv.reader(file)
    turned = tmp_path / "turned.csv"
    with turned.open("w") as file:
        csv.writer(file).writerows([header, *([f"u{39 - int(user[1:]):02d}", item] for user, item in rows)])
    assert attacks(tmp_path / "turned", f"dataset.path={turned}")[0] == attacks(tmp_path / "run")[0]
