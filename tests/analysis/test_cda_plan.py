"""What the study of the paper plans to run, and what each printed number is compared with."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
import yaml

from analysis.cda_paper import (
    PROTOCOLS,
    PUBLISHED,
    STUDY,
    dataset_name,
    variant_experiments,
)
from analysis.cda_paper.figures import paper_figures, selectable_names
from analysis.cda_paper.measures import MAIN_RULE, RULES, AttackNumber, report_cells
from analysis.papers import study
from gossiprec.adversaries.attacks.findings import observer_names
from gossiprec.base.errors import DataError, ScenarioError
from gossiprec.study.plan import make_plan
from gossiprec.study.spec import load_study

FICTIVE = {
    "own_embedding": ("", "single"),
    "paper": (".01", "single-100%"),
    "fitted": (".02", "single-99.99%"),
}
"""Suffixes and names that distinguish observers with different replacements of hidden rows."""


def observer_name(kind: str, share: str | None = None) -> str:
    """Return the name of an observer with its replacement of hidden rows.

    Parameters
    ----------
    kind : {'own_embedding', 'paper', 'fitted'}
    share : str, optional
        Fraction of colluders, such as ``5%``, or None for single adversaries.
    """
    digits, single = FICTIVE[kind]
    return single if share is None else f"coalition-{share.removesuffix('%')}{digits}%"


SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios" / "papers" / "cda"
FILES = {name: Path(sets["base"]).name for name, sets in STUDY.experiments.items()}


def select_experiments(names):
    return study.select_experiments(names, selectable_names(), STUDY.experiments)


def tiny(names, seeds=1):
    return make_plan(STUDY.make_study(names, data=None, scale="tiny", seeds=seeds), check_data=False)


def cells_of(table, row, column):
    return [
        c
        for c in report_cells()
        if (c.printed.table, c.printed.row, c.printed.column) == (table, row, column)
    ]


def test_every_printed_number_is_compared_or_says_why_not():
    covered = {cell.printed for cell in report_cells() if cell.measure is not None or cell.why_not}
    assert set(PUBLISHED.printed_numbers) <= covered


def test_the_print_is_all_there():
    tables = [number for number in PUBLISHED.printed_numbers if number.table != "text"]
    assert (len(tables), len(PUBLISHED.printed_numbers) - len(tables)) == (91, 22)


def test_only_numbers_that_need_no_run_or_contradict_themselves_are_not_compared():
    assert {cell.printed.row for cell in report_cells() if cell.measure is None} == {
        "6.1-prme-drop",
        "6.4-global-view",
        "B-global-view",
    }


def test_a_printed_number_meets_the_attack_that_the_table_describes():
    first, *_ = cells_of("table8", "10% colluders", "without_momentum")
    assert first.attack == AttackNumber("table5-ml100k-authors100", "coalition-10%", 0.0, k=5)
    first, *others = cells_of("table9", "K=20", "share_less")
    assert first.attack == AttackNumber("table9-ml100k-fedavg-share-less", "coordinator", 0.0, k=20)
    assert {cell.printed.value for cell in (first, *others)} == {32}
    (cell,) = cells_of("table10", "entropy mia 1", "max_aac")
    assert cell.attack == AttackNumber("table4-ml100k-fedavg", "coordinator", 0.0, relevance="mia-1")


@pytest.mark.parametrize("table", ["table5", "table6", "table7", "table8"])
def test_gossip_is_compared_with_the_setting_of_the_published_code_first(table):
    first = {}
    for cell in report_cells():
        if cell.printed.table == table and cell.printed.dataset == "movielens-100k":
            first.setdefault(cell.printed, cell)
    assert first
    for cell in first.values():
        assert cell.variant.startswith("authors100")
        assert "authors100" in cell.attack.experiment
        assert cell.attack.k == 5
        assert cell.rule == MAIN_RULE


def test_the_papers_rule_and_the_codes_are_compared_too_and_say_what_they_are():
    found = {cell.rule: cell.note for cell in cells_of("table6", "20% colluders", "max_aac")}
    assert set(found) == set(RULES)
    assert "eq. 4" in found["mean_score"]
    assert "published code" in found["ndcg"]


def test_cells_of_a_printed_number_are_neighbours_and_no_two_are_the_same_reading():
    for cells in (list(own) for _, own in itertools.groupby(report_cells(), lambda cell: cell.printed)):
        told = [(cell.variant, cell.rule) for cell in cells]
        assert len(told) == len(set(told)), (cells[0].printed, told)
    numbers = [cell.printed for cell in report_cells()]
    assert len(list(itertools.groupby(numbers))) == len(set(numbers))


def test_the_three_looks_at_hidden_rows_are_those_of_the_scenario_files():
    for name, k in (("table7-ml100k-authors100-share-less", 5), ("table7-ml100k-rand-gossip-share-less", 50)):
        (variant,) = tiny([name]).variants
        told = {
            observer
            for one in variant.scenario.observers
            for observer in observer_names(one.options)
            if one.options.community_size == k
        }
        wanted = {observer_name(kind, share) for kind in FICTIVE for share in (None, "5%", "10%", "20%")}
        assert told == wanted
        kinds = {
            observer: one.options.fictive_user
            for one in variant.scenario.observers
            for observer in observer_names(one.options)
        }
        assert all(
            kinds[observer_name(kind, "10%")] == kinds[observer_name(kind)] == kind for kind in FICTIVE
        )


@pytest.mark.parametrize("n_users", [100, 943])
@pytest.mark.parametrize("share", [0.05, 0.1, 0.2])
def test_one_more_digit_of_a_share_leaves_the_colluders_as_they_are(n_users, share):
    assert {round((share + more) * n_users) for more in (0, 1e-4, 2e-4)} == {round(share * n_users)}


def test_switches_are_what_their_names_say():
    plan = tiny(variant_experiments().values())
    assert len(plan.variants) == 8
    told = {}
    for variant in plan.variants:
        training, protocol = variant.scenario.training, variant.scenario.protocol.options
        told[variant.labels["experiment"]] = (
            (training.batch_size, training.local_epochs), protocol.train_on, protocol.wake.law
        )  # fmt: skip
    words = {"64": (64, 1), "full": ("full", 2), "clocks": "exponential", "lock-step": "constant"}
    for way, experiment in variant_experiments().items():
        assert told[experiment] == tuple(words.get(one, one) for one in way)


def test_what_the_text_does_not_allow_to_repeat_says_so():
    told = {cell.printed.row: cell.note for cell in report_cells() if cell.printed.column != "seconds"}
    for row in ("aia", "7.6-dp-utility", "7.6-dp-aac"):
        assert "not reproducible from the text" in told[row]
    notes = {cell.printed: cell.note for cell in report_cells() if cell.printed.table == "table9"}
    assert all("the paper mixes settings" in note for note in notes.values())
    is_cut = {number: number.row == "K=100" and number.column != "random" for number in notes}
    assert {number: "a list cut at 50" in note for number, note in notes.items()} == is_cut


def test_check_ins_are_compared_at_full_size_and_at_the_size_of_the_published_data_files():
    found = cells_of("table5", "rand-gossip prme-g", "max_aac")
    assert [(cell.variant, cell.attack.k) for cell in found if cell.printed.dataset == "foursquare-nyc"] == [
        ("all users, K = 50", 50),
        ("146 users, K = 5", 5),
        ("146 users, K = 50", 50),
    ]


def test_every_experiment_is_of_use_and_every_measure_has_its_experiment():
    measured = {name for cell in report_cells() if cell.measure for name in cell.measure.experiments}
    drawn = {name for drawing in paper_figures().values() for name in drawing.experiments}
    assert measured | drawn | set(variant_experiments().values()) == set(STUDY.experiments)


def test_every_scenario_of_the_study_ships_and_every_shipped_one_is_used():
    shipped = {path.name for kind in ("table", "fig") for path in SCENARIOS.glob(f"cda_{kind}*.yaml")}
    assert set(FILES.values()) == shipped


def test_the_header_of_a_scenario_names_the_tables_that_it_serves():
    served = {file: set() for file in FILES.values()}
    for name, group in selectable_names().items():
        if name.startswith("table") and name[5:].isdigit() and name != "table2":
            for experiment in group:
                served[FILES[experiment]].add(name[5:])
    for file, tables in served.items():
        header = " ".join(
            itertools.takewhile(lambda s: s.startswith("#"), (SCENARIOS / file).read_text().splitlines())
        )
        missing = {table for table in tables if not re.search(rf"Tables? [^.]*\b{table}\b", header)}
        assert not missing, (file, missing)


@pytest.mark.slow
@pytest.mark.full
def test_the_study_as_it_is_written_resolves_and_its_experiments_are_what_their_names_say():
    plan = make_plan(load_study(STUDY.path), check_data=False)
    assert len(plan.variants) == STUDY.count_runs(None) == 322
    for variant in plan.variants:
        name, scenario = variant.labels["experiment"], variant.scenario
        assert dataset_name(name) in (scenario.dataset.name.replace("movielens-100k", "ml-100k"))
        named = [protocol for protocol in PROTOCOLS if protocol in name]
        assert scenario.protocol.name == (named[0] if named else "rand-gossip")
        assert ("prme" in name) == (scenario.model.name == "prme-g")
        assert ("share-less" in name) == any(policy.name == "share-less" for policy in scenario.policies)


def test_no_two_experiments_differ_in_their_observers_alone():
    """An observer only looks: a run for each of its parameters would be waste. AIA alone is timed by itself."""
    seen: dict[str, str] = {}
    for name, sets in STUDY.experiments.items():
        if name == "table11-ml100k-fedavg-aia":
            continue
        data = yaml.safe_load((SCENARIOS / FILES[name]).read_text())
        data |= {key: value for key, value in sets.items() if key not in ("base", "seeds")}
        key = repr({k: v for k, v in data.items() if k not in ("name", "observers", "evaluate")})
        assert key not in seen, (name, seen.get(key))
        seen[key] = name


def test_small_communities_are_repeated_most_and_the_large_check_in_runs_not_at_all():
    seeds = {name: STUDY.count_seeds(name, None) for name in STUDY.experiments}
    assert seeds["table5-ml100k-rand-gossip"] == 5
    assert {number for name, number in seeds.items() if "gowalla" in name or "146" in name} == {5}
    assert {number for name, number in seeds.items() if "-foursquare-" in name} == {1}
    assert {number for name, number in seeds.items() if "authors100" in name} == {20}


def test_seeds_asked_for_are_those_of_experiments_that_name_no_number():
    names = ["table5-ml100k-authors100", "table5-ml100k-rand-gossip", "table4-foursquare-fedavg-gmf"]
    assert [STUDY.count_seeds(name, 2) for name in names] == [20, 2, 1]
    assert [STUDY.count_seeds(name, 2, "tiny") for name in names] == [2, 2, 2]


def test_share_less_of_the_study_says_the_same_as_the_shipped_files():
    shipped = yaml.safe_load((SCENARIOS / "cda_table9_ml100k_fedavg_share_less.yaml").read_text())
    sets = STUDY.experiments["table4-foursquare-fedavg-gmf-share-less"]
    assert sets["policies"] == shipped["policies"]
    assert sets["observers.0.fictive_user"] == shipped["observers"][0]["fictive_user"]


def test_names_choose_tables_figures_data_and_experiments():
    both = ["table7-ml100k-authors100-share-less", "table7-ml100k-rand-gossip-share-less"]
    assert select_experiments(["table7"]) == both
    assert set(both) | set(variant_experiments().values()) < set(select_experiments(["movielens-tables"]))
    assert {dataset_name(name) for name in select_experiments(["movielens-tables"])} == {"ml-100k"}
    assert {dataset_name(name) for name in select_experiments(["gowalla"])} == {"gowalla"}
    assert len(select_experiments(["fig6"])) == 12
    assert select_experiments(["table11-ml100k-fedavg-aia"]) == ["table11-ml100k-fedavg-aia"]
    assert select_experiments([]) == list(STUDY.experiments)


def test_what_is_chosen_is_run_once_and_in_the_order_of_the_study():
    both = select_experiments(["table6", "table5", "table6"])
    assert both == [name for name in STUDY.experiments if name in both]


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(ScenarioError, match=r"--only: found 'tabel5', .*did you mean 'table5'"):
        select_experiments(["tabel5"])


def test_each_experiment_has_a_simulation_of_its_own_and_the_seeds_asked_for():
    names = ["table4-ml100k-fedavg", "table11-ml100k-fedavg-aia"]
    plan = tiny(names, seeds=2)
    told = [(v.labels["experiment"], v.seed, v.scenario.dataset.name) for v in plan.variants]
    assert told == [(name, seed, "synthetic") for name in names for seed in (1, 2)]
    assert [s.serves for s in plan.simulations] == [(v.hash,) for v in plan.variants]


def test_every_community_of_the_tiny_study_fits_its_data():
    """At most half of the users are a community; a study with other data or more users would be refused at once."""
    names = [name for name in STUDY.experiments if name.startswith("table") and "switch" not in name]
    plan = make_plan(STUDY.make_study(names, data=None, scale="tiny", seeds=1))
    assert {str(one.labels["experiment"]) for one in plan.variants} == set(names)


def test_missing_data_are_no_error(tmp_path):
    (tmp_path / "ml-100k").mkdir()
    names = ["table5-ml100k-authors100", "table4-gowalla100-fedavg-gmf"]
    lacking = STUDY.find_missing_data(names, data=tmp_path, scale="full")
    assert list(lacking) == names[1:]
    assert lacking[names[1]].startswith("data missing: no gowalla or")
    assert STUDY.find_missing_data(names, data=None, scale="tiny") == {}


def test_a_data_folder_without_data_is_refused(tmp_path):
    with pytest.raises(
        DataError, match=r"found none of the data sets in .*; expected at least one of ml-100k or"
    ):
        STUDY.find_missing_data([], data=tmp_path, scale="full")
    with pytest.raises(DataError, match="--data is missing"):
        STUDY.find_missing_data([], data=None, scale="full")


def test_the_data_are_named_by_their_whole_path(tmp_path, monkeypatch):
    (tmp_path / "ml-100k").mkdir()
    monkeypatch.chdir(tmp_path)
    study = STUDY.make_study(["table5-ml100k-authors100"], data=Path(), scale="full", seeds=1)
    variant, *_ = make_plan(study, check_data=False).variants
    assert variant.scenario.resolved()["dataset"]["path"] == str(tmp_path.resolve() / "ml-100k")


def test_the_main_rule_is_the_attacks_default():
    from gossiprec.adversaries.attacks.cda import CDAOptions

    assert CDAOptions.model_fields["relevance"].default == MAIN_RULE == RULES[0]
