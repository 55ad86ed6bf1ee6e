"""Variants that differ only in observers share one simulation, and none gets another's rows."""

from __future__ import annotations

import csv

import pytest
from small_studies import BASE, COALITION, FANOUT, SINGLE, WHO, carried_out, planned

from gossiprec.scenario import load_scenario
from gossiprec.study.run_hash import deduplicate, scenario_table_keys


def shared(*observers):
    scenarios = [load_scenario({**BASE, "observers": entries}) for entries in observers]
    return deduplicate({str(place): scenario for place, scenario in enumerate(scenarios)})


def test_different_observers_share_a_simulation():
    (one,) = shared([SINGLE], [COALITION], [])
    assert one.serves == ("0", "1", "2")
    assert [choice.options.who for choice in one.scenario.observers] == ["single", "coalition"]


def test_what_one_variant_observes_is_not_observed_twice():
    (one,) = shared([{**SINGLE, "momentum": [0.9, 0]}], [SINGLE])
    assert len(one.scenario.observers) == 1


def test_observers_with_one_name_and_different_options_go_apart():
    assert [s.serves for s in shared([SINGLE], [{**SINGLE, "reference_items": 5}], [COALITION])] == [
        ("0", "2"),
        ("1",),
    ]


def test_observers_that_overlap_in_part_go_apart():
    assert len(shared([{**SINGLE, "momentum": [0.9, 0]}], [{**SINGLE, "momentum": [0, 0.5]}])) == 2


def test_variants_that_differ_in_more_do_not_share():
    scenarios = {str(wakes): load_scenario(BASE, [f"protocol.wakes={wakes}"]) for wakes in (2, 3)}
    assert len(deduplicate(scenarios)) == 2


def test_a_variant_by_itself_runs_as_it_is_written():
    entries = [COALITION, SINGLE]
    (one,) = shared(entries)
    assert one.scenario == load_scenario({**BASE, "observers": entries})


@pytest.mark.slow
def test_names_are_known_before_the_run(tmp_path):
    entries = [
        {**SINGLE, "momentum": [0.9, 0], "relevance": ["ndcg", "standardized"]},
        {**SINGLE, "nodes": [1, 2, 2]},
        {**SINGLE, "nodes": {"fraction": 0.5}},
        {**COALITION, "fraction": [0.25, 0.5], "community_size": [3, 4]},
        {"name": "cda", "who": "coalition", "members": [3, 1], "community_size": 3, "reference_items": 9},
        {"name": "entropy-mia", "who": "coalition", "fraction": 0.25, "community_size": 3, "momentum": 0.9},
    ]
    plan = planned(tmp_path, axes={}, set={"observers": entries}, seeds=1)
    conduct = carried_out(plan, tmp_path / "out")
    attacks = conduct.folder.finished_run(plan.simulations[0]).summary["attacks"]
    names = ("observer", "relevance", "momentum", "community_size")
    found = {tuple(line[name] for name in names) for line in attacks}
    assert set(scenario_table_keys(plan.variants[0].scenario)) == found


@pytest.mark.slow
def test_names_of_a_coordinators_attacks_are_known_before_the_run(tmp_path):
    entries = [
        {"name": "cda", "who": "coordinator", "community_size": 3, "reference_items": "all"},
        {"name": "aia", "community_size": [3, 4], "models": 2, "epochs": 1},
    ]
    keys = {"observers": entries, "protocol": {"name": "fedavg", "rounds": 1}}
    plan = planned(tmp_path, axes={}, base={**BASE, **keys}, seeds=1)
    attacks = carried_out(plan, tmp_path / "out").folder.finished_run(plan.simulations[0]).summary["attacks"]
    names = ("observer", "relevance", "momentum", "community_size")
    assert set(scenario_table_keys(plan.variants[0].scenario)) == {
        tuple(a[n] for n in names) for a in attacks
    }


def rows(path):
    with (path / "table.csv").open() as file:
        return list(csv.DictReader(file))


def without(rows, *columns):
    return [{key: value for key, value in row.items() if key not in columns} for row in rows]


@pytest.mark.slow
@pytest.mark.full
def test_sharing_changes_nothing_but_the_number_of_simulations(tmp_path):
    together = planned(tmp_path, axes={**FANOUT, **WHO})
    carried_out(together, tmp_path / "together")
    apart = []
    for who, entries in WHO["who"]["values"].items():
        plan = planned(tmp_path, axes={**FANOUT, "who": {"key": "observers", "values": {who: entries}}})
        carried_out(plan, tmp_path / who)
        apart += rows(tmp_path / who)
    assert (len(together.variants), len(together.simulations)) == (12, 6)
    order = {"one": 0, "some": 1}
    apart.sort(key=lambda row: (row["fanout"], order[row["who"]], row["seed"]))
    assert without(rows(tmp_path / "together"), "run") == without(apart, "run")
