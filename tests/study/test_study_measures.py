"""Which numbers of a run go into the table."""

from __future__ import annotations

import math

import pyarrow.parquet as pq
import pytest
from small_studies import COALITION, SINGLE, carried_out, planned

from gossiprec.measures.names import Measure
from gossiprec.study.rows import measured

KEYS = [("single", "ndcg", 0.9, 3), ("single", "ndcg", 0.0, 3), ("coalition-5%", "ndcg", 0.9, 3)]
SUMMARY = {
    "messages": 12,
    "utility": {"hr@5": 0.5, "ndcg@5": None},
    "privacy": {"epsilon_max": 2.0},
    "attacks": [
        {"observer": o, "relevance": r, "momentum": b, "community_size": k, "max_aac": 0.1 * place, "last_aac": None,
         "upper_bound": 0.8, "random_bound": 0.2}
        for place, (o, r, b, k) in enumerate(KEYS)
    ],
    "membership": [{"observer": "single", "momentum": 0.9, "threshold": 0.2, "accuracy": 0.7}],
}  # fmt: skip


def values(measure, keys=None):
    return [row["value"] for row in measured(SUMMARY, ["hr@5"], keys, [measure])]


def test_all_that_matters_is_taken_where_nothing_is_said():
    rows = measured(SUMMARY, ["hr@5", "ndcg@5"], KEYS[:2], None)
    assert [row["measure"] for row in rows] == [
        "hr@5", "ndcg@5", *2 * ["max_aac"], *2 * ["last_aac"], *2 * ["upper_bound"], *2 * ["random_bound"],
    ]  # fmt: skip
    assert list(rows[2].values()) == ["max_aac", "single", "ndcg", 0.9, 3, 0.0]
    assert list(rows[2]) == ["measure", "observer", "relevance", "momentum", "community_size", "value"]
    assert math.isnan(rows[1]["value"])


def test_filters_choose_attacks():
    assert values(Measure("max_aac", observer="single")) == [0.0, 0.1]
    assert values(Measure("max_aac", momentum=0.9)) == [0.0, 0.2]
    assert values(Measure("max_aac", observer="single"), KEYS[1:]) == [0.1]
    assert values(Measure("max_aac", relevance="standardized")) == []


def test_numbers_of_the_run_and_of_membership_are_found():
    assert values(Measure("messages")) == [12]
    assert values(Measure("privacy.epsilon_max")) == [2.0]
    assert values(Measure("privacy.delta")) == []
    assert values(Measure("mia_accuracy")) == [0.7]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("max_aac", Measure("max_aac")),
        ("max_aac[single]", Measure("max_aac", "single")),
        ("max_aac[ *, ndcg , 0.5, 3]", Measure("max_aac", None, "ndcg", 0.5, 3)),
        ("max_aac[momentum=0.9, observer=coalition-25%]", Measure("max_aac", "coalition-25%", None, 0.9)),
    ],
)
def test_a_measure_is_read_as_written(tmp_path, text, wanted):
    entries = [{**SINGLE, "momentum": [0.5, 0.9], "relevance": ["ndcg", "standardized"]}, COALITION]
    plan = planned(tmp_path, axes={}, set={"observers": entries}, measures=[text])
    assert plan.measures == [wanted]


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
