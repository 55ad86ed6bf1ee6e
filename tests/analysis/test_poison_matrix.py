"""The matrix of attacks and rules: refused combinations are those of the checks, and numbers are those of runs."""

from __future__ import annotations

import csv
from fnmatch import fnmatch

import pytest
import yaml

from analysis.poison_matrix import (
    LISTS,
    NUMBERS,
    STUDY,
    cost,
    demotion,
    describe_seeds,
    loss,
    mean_by_seed,
    names_of,
    percent_of,
    selectable_names,
    success,
)
from gossiprec import simulate
from gossiprec.base.errors import ScenarioError
from gossiprec.study.plan import make_plan
from gossiprec.study.spec import load_study
from tests.analysis.commands import ran
from tests.analysis.study_runs import write_study_run

CELLS = (
    *("federation/fcf/no-rule/no-attack", "federation/fcf/no-rule/psmu"),
    *("federation/fcf/median/no-attack", "federation/fcf/median/clusterattack", "gossip/fcf/median/psmu"),
    *("federation/fcf/median/demote-no-attack", "federation/fcf/median/demote-psmu"),
)


def pairs():
    """Return every rule with one attack, and every attack with one rule, by network and recommender."""
    for cell in STUDY.cells:
        _, _, rule, attack = cell.split("/")
        if attack == "psmu" or rule == "no-rule":
            yield cell


def planned(values, folder, scale):
    tiny = STUDY.plan["tiny"]["base"] if scale == "tiny" else {"dataset.path": str(folder)}
    study = {**STUDY.content, "set": {**STUDY.content["set"], **tiny}, "seeds": 1}
    return make_plan(
        load_study({**study, "axes": {"experiment": {"values": values}}}), check_data=scale == "tiny"
    )


def run_tiny(cell, folder):
    """Run a combination: some checks need both the data and the model, which are joined in a run only."""
    plan = planned({cell: STUDY.overrides(cell)}, folder, "tiny")
    simulate(plan.variants[0].scenario, out=folder / "run")


@pytest.mark.slow
@pytest.mark.full
def test_the_checks_refuse_exactly_the_combinations_that_the_plan_says(tmp_path):
    possible = [cell for cell in pairs() if STUDY.why_refused(cell) is None]
    for scale in ("tiny", "full"):
        plan = planned({cell: STUDY.overrides(cell) for cell in possible}, tmp_path, scale)
        assert len(plan.variants) == len(possible)
    seen = set()
    for cell in pairs():
        found = next((rule for rule in STUDY.plan["refused"] if fnmatch(cell, rule["cells"])), None)
        if found is not None and found["says"] is not None:
            with pytest.raises(ScenarioError, match=found["says"]):
                run_tiny(cell, tmp_path)
            seen.add(found["cells"])
    assert seen == {rule["cells"] for rule in STUDY.plan["refused"] if rule["says"]}


def test_names_select_the_experiments_of_a_list_entry():
    subjects = selectable_names()
    assert len(STUDY.cells) == 2 * 3 * 15 * 17 + 2 * 10 * 5
    assert len(subjects["demotion"]) == 2 * 10 * 5
    assert all("/demote-" in one for one in subjects["demotion"])
    assert not set(subjects["psmu"]) & set(subjects["demotion"])
    assert all(one.startswith("gossip/") for one in subjects["gossip"])
    assert {one.split("/")[1] for one in subjects["a-hum"]} == {"fedncf", "fcf"}
    assert subjects["fltrust"] == tuple(one for one in STUDY.experiments if "/fltrust/" in one)
    names = [name for part in LISTS for name in names_of(part)]
    assert len(set(names)) == len(names)


def test_shared_weights_change_by_no_more_than_boost_times_a_clients():
    def clip(cell):
        (attacker,) = STUDY.overrides(cell)["attackers"]
        return attacker.get("clip_shared")

    assert clip("federation/fedncf/median/psmu") == 10 * clip("gossip/fedncf/krum/shilling-random") == 6
    assert clip("federation/fcf/median/psmu") is None


def test_success_and_cost_are_in_percent_and_paired_by_seed(tmp_path):
    def runs(cell, *by_seed):
        made = {
            seed: write_study_run(tmp_path / cell.replace("/", "-") / str(seed), [], **{"utility": 0.0})
            for seed in range(1, len(by_seed) + 1)
        }
        for run, utility in zip(made.values(), by_seed, strict=True):
            run.summary["utility"] = utility
        return {cell: made}

    found = {
        **runs("gossip/fcf/no-rule/no-attack", {"recall@20": 0.2}, {"recall@20": 0.1}),
        **runs("gossip/fcf/median/no-attack", {"recall@20": 0.15}, {"recall@20": 0.1}),
        **runs("gossip/fcf/median/clusterattack", {"recall@20": 0.12}),
        **runs("gossip/fcf/median/psmu", {"recall@20": 0.1, "er@20": 0.25}, {"recall@20": 0.1, "er@20": 0.5}),
    }
    assert success(found, "gossip/fcf/median/psmu") == {1: 25, 2: 50}
    assert success(found, "gossip/fcf/median/clusterattack") == pytest.approx({1: 20})
    assert loss(found, "gossip/fcf/median/psmu") == pytest.approx({1: 100 / 3, 2: 0})
    assert cost(found, "gossip", "fcf", "median") == pytest.approx({1: 25, 2: 0})
    assert percent_of(success, found, "gossip", ["fcf", "lightgcn"], "median", "no-attack") == pytest.approx(
        {1: 25, 2: 0}
    )
    demoted = {
        **runs("federation/fcf/krum/demote-no-attack", {"er@20": 0.4}, {"er@20": 0.2}),
        **runs("federation/fcf/krum/demote-psmu", {"er@20": 0.1}, {"er@20": 0.2}),
    }
    assert demotion(demoted, "federation/fcf/krum/demote-no-attack") == {1: 40, 2: 20}
    assert demotion(demoted, "federation/fcf/krum/demote-psmu") == pytest.approx({1: 75, 2: 0})
    assert mean_by_seed([{1: 1.0, 2: 2.0}, {1: 3.0}, {}]) == {1: 2.0}
    assert "seed 1: 4 of" in describe_seeds(found)
    assert "seed 2: 3 of" in describe_seeds(found)


@pytest.mark.slow
@pytest.mark.full
def test_the_report_has_the_numbers_of_the_runs(tmp_path):
    done = ran(
        "analysis.poison_matrix", tmp_path, "--scale", "tiny", "--seeds", "1", "--only", ",".join(CELLS)
    )
    assert done.returncode == 0, done.stderr
    with (tmp_path / "cells.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert {
        "/".join(line[part] for part in ("network", "recommender", "rule", "attack")) for line in lines
    } == set(CELLS)
    exposed = [line["attack"] for line in lines if line["number"] == "er@20"]
    assert sorted(exposed) == ["demote-no-attack", "demote-psmu", "no-attack", "no-attack", "psmu", "psmu"]
    assert {line["number"] for line in lines} == set(NUMBERS)
    page = (tmp_path / "report.md").read_text()
    assert "seed 1: 7 of 1175" in page
    assert "nodes of gossip have no public data" in page
    assert (tmp_path / "figures" / "success_all.png").stat().st_size > 10_000
    (line,) = csv.DictReader((tmp_path / "figures" / "demotion_all.csv").read_text().splitlines()[:2])
    assert (line["rule"], line["attack"]) == ("median", "demote-no-attack")
    table = yaml.safe_load((tmp_path / "study.json").read_text())
    assert table["status"] == "complete"


def test_bad_input_is_one_message_and_status_2(tmp_path):
    result = ran("analysis.poison_matrix", tmp_path / "out", "--scale", "tiny", "--only", "psmuu")
    assert result.returncode == 2
    assert "did you mean 'psmu'" in result.stderr
    assert "Traceback" not in result.stderr
