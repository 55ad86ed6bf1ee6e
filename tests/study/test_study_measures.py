"""Which numbers of a run go into the table."""

from __future__ import annotations

import math

import pyarrow.parquet as pq
import pytest
from small_studies import COALITION, SINGLE, carried_out, planned

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.base import registry
from gossiprec.base.errors import ScenarioError
from gossiprec.measures import MEASURES
from gossiprec.measures.selectors import MeasureSelector, read_measure
from gossiprec.study.study_table import extract_rows
from tests.emulation.counting_attack import Counting
from tests.plugins.fake_distributions import install

KEYS = [("single", "ndcg", 0.9, 3), ("single", "ndcg", 0.0, 3), ("coalition-5%", "ndcg", 0.9, 3)]
SUMMARY = {
    "messages": 12,
    "utility": {"hr@5": 0.5, "ndcg@5": None},
    "privacy": {"epsilon_max": 2.0},
    "contribution": {"kept": 0.25, "leaks": {"cda": 0.5}},
    "attacks": [
        {"observer": o, "relevance": r, "momentum": b, "community_size": k, "max_aac": 0.1 * place, "last_aac": None,
         "upper_bound": 0.8, "random_bound": 0.2}
        for place, (o, r, b, k) in enumerate(KEYS)
    ],
    "findings": [
        *({"measure": "mia_accuracy", "labels": {"observer": o, "relevance": "mia-0.2", "momentum": b}, "value": v}
          for o, b, v in (("single", 0.9, 0.7), ("single", 0.0, None), ("coalition-5%", 0.9, 0.6))),
        *({"measure": "heard", "labels": {"observer": "everybody", "least": n, "all": n > 1}, "value": n / 8}
          for n in (1, 2)),
    ],
}  # fmt: skip


def values(measure, keys=None):
    return [row["value"] for row in extract_rows(SUMMARY, ["hr@5"], keys, [measure])]


def test_all_that_matters_is_taken_where_nothing_is_said():
    rows = extract_rows(SUMMARY, ["hr@5", "ndcg@5"], KEYS[:2], None)
    assert [row["measure"] for row in rows] == [
        "hr@5", "ndcg@5", *2 * ["max_aac"], *2 * ["last_aac"], *2 * ["upper_bound"], *2 * ["random_bound"],
    ]  # fmt: skip
    assert list(rows[2].values()) == ["max_aac", "single", "ndcg", 0.9, 3, 0.0]
    assert list(rows[2]) == ["measure", "observer", "relevance", "momentum", "community_size", "value"]
    assert math.isnan(rows[1]["value"])


def test_filters_choose_attacks():
    assert values(read_measure("max_aac[single]")) == [0.0, 0.1]
    assert values(read_measure("max_aac[momentum=0.9]")) == [0.0, 0.2]
    assert values(read_measure("max_aac[single]"), KEYS[1:]) == [0.1]
    assert values(read_measure("max_aac[relevance=standardized]")) == []


def test_numbers_of_the_run_are_found():
    assert values(MeasureSelector("messages")) == [12]
    assert values(MeasureSelector("privacy.epsilon_max")) == [2.0]
    assert values(MeasureSelector("privacy.delta")) == []


def test_what_contributed_data_leak_is_found_where_it_was_asked_for(tmp_path):
    plan = planned(tmp_path, measures=["contribution.kept", "contribution.leaks.cda"])
    assert [values(measure) for measure in plan.measures] == [[0.25], [0.5]]
    assert values(MeasureSelector("contribution.leaks.auxiliary_cda")) == []


def test_metrics_of_other_orders_are_measures_of_their_own():
    summary = {**SUMMARY, "utility": {"hr@5": 0.5, "hr@5[popularity]": 0.3}}
    measure = read_measure("hr@5[popularity]")
    (row,) = extract_rows(summary, ["hr@5"], None, [measure])
    assert (row["measure"], row["value"]) == ("hr@5[popularity]", 0.3)
    assert extract_rows(summary, ["hr@5", "hr@5[popularity]"], [], None)[1] == row
    assert read_measure("max_aac[random]").filters == {"observer": "random"}


def test_a_study_may_ask_for_metrics_of_other_orders_where_a_run_has_them(tmp_path):
    beside = {"every": 1, "metrics": ["hr@5"], "beside": ["popularity"]}
    plan = planned(tmp_path, measures=["hr@5[popularity]"], axes={}, set={"evaluate": beside})
    assert plan.measures == [MeasureSelector("hr@5[popularity]")]
    with pytest.raises(ScenarioError, match=r"no run measures 'hr@5\[random\]'.* hr@5\[popularity\]"):
        planned(tmp_path, measures=["hr@5[random]"], axes={}, set={"evaluate": beside})


def test_findings_are_taken_by_whatever_labels_they_have():
    rows = extract_rows(SUMMARY, ["hr@5"], None, [MeasureSelector("mia_accuracy")])
    assert [row["value"] for row in rows] == [0.7, pytest.approx(math.nan, nan_ok=True), 0.6]
    assert list(rows[0].values())[:-1] == ["mia_accuracy", "single", "mia-0.2", 0.9, None]
    assert values(read_measure("mia_accuracy[single,*,0.9]")) == [0.7]
    assert values(MeasureSelector("mia_accuracy"), [KEYS[2]]) == []  # its key says another rule
    assert values(MeasureSelector("mia_accuracy"), [("coalition-5%", "mia-0.2", 0.9, 3)]) == [0.6]

    heard = extract_rows(SUMMARY, ["hr@5"], None, [read_measure("heard[least=2]")])
    assert [list(row.values()) for row in heard] == [
        ["heard", "everybody", None, None, None, '{"all": true, "least": 2}', 0.25]
    ]
    assert values(read_measure("heard[everybody,all=false]")) == [0.125]
    assert values(read_measure("heard[least=2.0,all=TRUE]")) == [0.25]
    assert values(read_measure("heard[least=few]")) == values(read_measure("heard[most=2]")) == []


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("max_aac", MeasureSelector("max_aac")),
        ("max_aac[single]", MeasureSelector("max_aac", {"observer": "single"})),
        (
            "max_aac[ *, ndcg , 0.5, 3]",
            MeasureSelector("max_aac", {"relevance": "ndcg", "momentum": 0.5, "community_size": 3}),
        ),
        (
            "max_aac[momentum=0.9, observer=coalition-25%]",
            MeasureSelector("max_aac", {"observer": "coalition-25%", "momentum": 0.9}),
        ),
    ],
)
def test_a_measure_is_read_as_written(tmp_path, text, wanted):
    entries = [{**SINGLE, "momentum": [0.5, 0.9], "relevance": ["ndcg", "standardized"]}, COALITION]
    plan = planned(tmp_path, axes={}, set={"observers": entries}, measures=[text])
    assert plan.measures == [wanted]


@pytest.mark.slow
@pytest.mark.full
def test_the_table_is_typed_and_both_files_say_the_same(tmp_path):
    axes = {
        "fanout": {"key": "protocol.fanout", "values": [1, 2]},
        "lr": {"key": "training.learning_rate", "values": [1, 0.5]},
        "redraw": {"key": "protocol.wake.redraw", "values": [True, False]},
        "view": {"key": "protocol.view", "values": [{"size": 3}, {"size": 4}]},
    }
    carried_out(planned(tmp_path, axes=axes, seeds=1, measures=["hr@5", "messages"]), tmp_path / "out")
    table = pq.read_table(tmp_path / "out" / "table.parquet")
    kinds = {field.name: str(field.type) for field in table.schema}
    assert [kinds[name] for name in axes] == ["int64", "double", "bool", "string"]
    assert kinds["seed"] == kinds["community_size"] == "int64"
    lines = (tmp_path / "out" / "table.csv").read_text().splitlines()
    assert lines[0].split(",")[:5] == [*axes, "seed"]
    assert lines[1].startswith("1,1.0,true,{size: 3},1,")
    assert len(lines) == 1 + table.num_rows == 1 + 2 * 16


@pytest.fixture
def counting(monkeypatch):
    """Register an attack that reports findings with a label of its own."""
    monkeypatch.setitem(ATTACKS._members, "counting", Counting)
    return {"name": "counting", "least": [1, 3]}


@pytest.mark.slow
def test_a_study_collects_the_findings_of_any_attack(tmp_path, counting):
    who = {
        "who": {
            "key": "observers",
            "values": {"one": [SINGLE], "counts": [counting], "both": [SINGLE, counting]},
        }
    }
    plan = planned(tmp_path, axes=who, seeds=1, measures=["hr@5", "heard[least=3]", "max_aac"])
    carried_out(plan, tmp_path / "out")
    table = pq.read_table(tmp_path / "out" / "table.parquet").to_pylist()
    assert list(table[0])[-1] == "labels"
    heard = [row for row in table if row["measure"] == "heard"]
    assert [(row["who"], row["labels"], row["observer"]) for row in heard] == [
        ("counts", '{"least": 3}', "everybody"), ("both", '{"least": 3}', "everybody"),
    ]  # fmt: skip
    assert heard[0]["value"] == heard[1]["value"] > 0
    assert [row["who"] for row in table if row["measure"] == "max_aac"] == ["one", "both"]
    assert {row["labels"] for row in table if row["measure"] != "heard"} == {None}


def test_a_study_needs_no_attack_that_it_does_not_name(tmp_path, monkeypatch):
    """What attacks report is asked of all of them; one of a broken plug-in reports nothing."""
    install(
        tmp_path,
        "wreck",
        "0.1",
        {"gossiprec.attacks": {"wreck": "wreck"}},
        wreck="import nothing_of_the_kind",
    )
    monkeypatch.syspath_prepend(tmp_path)
    registry.entry_points.cache_clear()
    try:
        assert "wreck" in ATTACKS
        assert planned(tmp_path, axes={}, measures=["max_aac"]).measures == [MeasureSelector("max_aac")]
    finally:
        monkeypatch.undo()
        registry.entry_points.cache_clear()


def test_a_study_can_ask_for_a_measure_of_anybody(tmp_path, monkeypatch):
    monkeypatch.setitem(MEASURES._members, "acme-hit", MEASURES["hit"])
    keys = {"set": {"evaluate.metrics": ["acme-hit@5"]}, "measures": ["acme-hit@5"]}
    assert planned(tmp_path, axes={}, **keys).measures == [MeasureSelector("acme-hit@5")]


@pytest.mark.parametrize(
    ("measure", "words"),
    [
        ("heard", "no run has an attack that reports 'heard'; add such an attack to observers"),
        ("mia_recall[single]", "no run has an attack that reports 'mia_recall'"),
        ("herd", "did you mean 'heard'"),
        ("max_aac[least=3]", "expected observer, relevance, momentum, community_size"),
        ("heard[everybody,ndcg,0,3,least]", "found 'least' in"),
        ("messages[least=3]", "describes the whole run"),
    ],
)
def test_findings_that_no_run_will_have_are_refused_before_anything_runs(tmp_path, counting, measure, words):
    with pytest.raises(ScenarioError) as caught:
        planned(tmp_path, axes={}, measures=[measure])
    assert words in str(caught.value)
