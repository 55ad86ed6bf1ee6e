"""What the study of the paper plans to run, and what each printed number is compared with."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
import yaml

from analysis.cda_paper.cells import all_cells
from analysis.cda_paper.experiments import SHARE_LESS, all_experiments
from analysis.cda_paper.measures import MAIN_RULE, RULES, Attack
from analysis.cda_paper.plan import SCENARIOS, chosen, figures, jobs, require_data, subjects
from analysis.cda_paper.published import printed
from gossiprec.errors import DataError, ScenarioError

EXPERIMENTS = {experiment.name: experiment for experiment in all_experiments()}


def cells_of(table, row, column):
    return [
        c for c in all_cells() if (c.printed.table, c.printed.row, c.printed.column) == (table, row, column)
    ]


def test_every_printed_number_is_compared_or_says_why_not():
    covered = {cell.printed for cell in all_cells() if cell.measure is not None or cell.why_not}
    assert set(printed()) <= covered


def test_the_print_is_all_there():
    tables = [number for number in printed() if number.table != "text"]
    assert (len(tables), len(printed()) - len(tables)) == (91, 22)


def test_only_numbers_that_need_no_run_or_contradict_themselves_are_not_compared():
    assert {cell.printed.row for cell in all_cells() if cell.measure is None} == {
        "6.1-prme-drop",
        "6.4-global-view",
        "B-global-view",
    }


def test_a_printed_number_meets_the_attack_that_the_table_describes():
    (cell,) = cells_of("table8", "10% colluders", "without_momentum")
    assert cell.attack == Attack(EXPERIMENTS["table5-ml100k-rand-gossip"], "coalition-10%", 0.0)
    (cell,) = cells_of("table9", "K=20", "share_less")
    assert cell.attack == Attack(EXPERIMENTS["table9-ml100k-fedavg-share-less"], "coordinator", k=20)
    assert cell.printed.value == 32
    (cell,) = cells_of("table10", "entropy mia 1", "max_aac")
    assert cell.attack == Attack(EXPERIMENTS["table4-ml100k-fedavg"], "coordinator", 0.0, relevance="mia-1")


def test_check_ins_are_compared_at_full_size_and_at_the_size_of_the_published_data_files():
    found = cells_of("table5", "rand-gossip prme-g", "max_aac")
    assert [(cell.variant, cell.attack.k) for cell in found if cell.printed.dataset == "foursquare-nyc"] == [
        ("all users, K = 50", 50),
        ("146 users, K = 5", 5),
        ("146 users, K = 50", 50),
    ]


def test_every_experiment_is_of_use_and_every_measure_has_its_experiment():
    measured = {e.name for cell in all_cells() if cell.measure for e in cell.measure.experiments()}
    drawn = {e.name for group in figures().values() for e in group}
    assert measured | drawn == set(EXPERIMENTS)


def test_every_scenario_of_the_study_ships_and_every_shipped_one_is_used():
    used = {experiment.file for experiment in EXPERIMENTS.values()}
    tables = {path.name for path in SCENARIOS.glob("cda_table*.yaml")} | {
        path.name for path in SCENARIOS.glob("cda_fig*.yaml")
    }
    assert used == tables


def test_the_header_of_a_scenario_names_the_tables_that_it_serves():
    served = {experiment.file: set() for experiment in EXPERIMENTS.values()}
    for name, group in subjects().items():
        if name.startswith("table") and name[5:].isdigit() and name not in ("table2",):
            for experiment in group:
                served[experiment.file].add(name[5:])
    for file, tables in served.items():
        header = " ".join(
            itertools.takewhile(lambda s: s.startswith("#"), (SCENARIOS / file).read_text().splitlines())
        )
        missing = {table for table in tables if not re.search(rf"Tables? [^.]*\b{table}\b", header)}
        assert not missing, (file, missing)


def test_no_two_experiments_differ_in_their_observers_alone():
    """An observer only looks: a run for each of its parameters would be waste. AIA alone is timed by itself."""
    seen: dict[str, str] = {}
    for experiment in EXPERIMENTS.values():
        data = yaml.safe_load((SCENARIOS / experiment.file).read_text())
        rest = {k: v for k, v in data.items() if k not in ("name", "observers", "evaluate")}
        if "aia" in experiment.name:
            continue
        key = repr((rest, experiment.overrides))
        assert key not in seen, (experiment.name, seen.get(key))
        seen[key] = experiment.name


def test_gossip_is_repeated_and_the_large_check_in_runs_are_not():
    assert EXPERIMENTS["table5-ml100k-rand-gossip"].seeds == 3
    assert {e.seeds for e in EXPERIMENTS.values() if e.data == "gowalla" or "146" in e.name} == {3}
    assert {e.seeds for e in EXPERIMENTS.values() if "-foursquare-" in e.name} == {1}


def test_share_less_by_override_says_the_same_as_the_shipped_files():
    shipped = yaml.safe_load((SCENARIOS / "cda_table9_ml100k_fedavg_share_less.yaml").read_text())
    assert yaml.safe_load(SHARE_LESS.partition("=")[2]) == shipped["policies"]


def test_names_choose_tables_figures_data_and_experiments():
    assert [e.name for e in chosen(["table7"])] == ["table7-ml100k-rand-gossip-share-less"]
    assert {e.data for e in chosen(["gowalla"])} == {"gowalla"}
    assert len(chosen(["fig6"])) == 12
    assert [e.name for e in chosen(["table11-ml100k-fedavg-aia"])] == ["table11-ml100k-fedavg-aia"]
    assert chosen([]) == all_experiments()


def test_what_is_chosen_is_run_once_and_in_the_order_of_the_study():
    both = chosen(["table6", "table5", "table6"])
    assert both == tuple(e for e in all_experiments() if e in both)


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(ScenarioError, match=r"--only: found 'tabel5', .*did you mean 'table5'"):
        chosen(["tabel5"])


def test_first_seeds_come_first():
    names = ["table5-ml100k-authors100", "fig6-ml100k-fedavg-dp-eps-inf"]
    planned = jobs(chosen(names), data=None, scale="tiny", seeds=2)
    assert [job.seed for job in planned] == [1, 1, 2, 2]
    assert planned[0].scenario["seed"] == 1
    assert planned[-1].scenario["seed"] == 2


def test_missing_data_are_no_error_but_no_run_either(tmp_path):
    (tmp_path / "ml-100k").mkdir()
    planned = jobs(chosen(["table5-ml100k-authors100", "gowalla"]), data=tmp_path, seeds=1)
    has = {job.name: (job.scenario is not None, job.is_missing_data) for job in planned}
    assert has["table5-ml100k-authors100-s1"] == (True, False)
    assert has["table4-gowalla100-fedavg-gmf-s1"] == (False, True)
    assert next(job for job in planned if job.is_missing_data).problem.startswith(
        "data missing: no gowalla or"
    )


def test_a_data_folder_without_data_is_refused(tmp_path):
    with pytest.raises(
        DataError, match=r"found none of the data sets in .*; it must hold at least one of ml-100k or"
    ):
        require_data(tmp_path, "full")
    with pytest.raises(DataError, match="--data is missing"):
        require_data(None, "full")
    require_data(None, "tiny")


def test_the_data_are_named_by_their_whole_path(tmp_path, monkeypatch):
    (tmp_path / "ml-100k").mkdir()
    monkeypatch.chdir(tmp_path)
    (job,) = jobs(chosen(["table5-ml100k-authors100"]), data=Path(), seeds=1)
    assert job.scenario["dataset"]["path"] == str(tmp_path.resolve() / "ml-100k")


def test_the_main_rule_is_the_attacks_default():
    from gossiprec.attacks.cda import CDAOptions

    assert CDAOptions.model_fields["relevance"].default == MAIN_RULE == RULES[0]
