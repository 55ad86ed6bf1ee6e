"""When there are reports, and that nothing but their number depends on it."""

import csv

import pytest

from gossiprec.emulation import simulate
from gossiprec.scenario.sections import EvaluateOptions, ExtraReports
from tests.emulation.tiny_runs import COORDINATOR, SINGLE, tiny
from tests.slow import slow_except_first

FEDAVG = {"name": "fedavg", "rounds": 6}
PERSONAL = {"name": "pers-gossip", "view": {"size": 3}, "wakes": 6}
JUDGED = {**tiny()["dataset"], "split": {"name": "leave_last_k", "test": 2, "validation": 2}}
COALITION = {**SINGLE, "who": "coalition", "members": [0, 3, 7]}
HIDING = [{"name": "share-less", "nodes": {"fraction": 0.5}, "tau": 0.5}]


@pytest.mark.parametrize(
    ("also", "first"),
    [
        (None, [10, 20, 30, 40]),
        ([4, 1, 20], [1, 4, 10, 20, 30]),
        (ExtraReports(every=3, until=13), [3, 6, 9, 10, 12, 20]),
        (ExtraReports(every=10, until=20), [10, 20, 30]),
        ([45], [10, 20, 30, 40, 45, 50]),
    ],
)
def test_more_reports_come_between_the_regular_ones(also, first):
    rounds = EvaluateOptions(every=10, also=also).rounds()
    assert [next(rounds) for _ in first] == first


@pytest.mark.parametrize("kind", slow_except_first(["fitted", "own_embedding", "paper"]))
@pytest.mark.parametrize(
    "world",
    slow_except_first(
        [
            {"observers": [SINGLE, COALITION]},
            {"observers": [SINGLE, COALITION], "protocol": PERSONAL},
            {"observers": [COORDINATOR], "protocol": FEDAVG},
            {
                "observers": [COORDINATOR],
                "protocol": {**FEDAVG, "client_model": "none", "merge": "touched-mean"},
                "executor": "batched",
            },
        ]
    ),
    ids=["rand-gossip", "pers-gossip", "fedavg", "updates"],
)
@pytest.mark.cases(1)
def test_what_is_found_at_a_round_does_not_depend_on_other_reports(world, kind, tmp_path):
    observers = [{**one, "fictive_user": kind} for one in world["observers"]]
    run = tiny(
        **{
            **world,
            "observers": observers,
            "policies": HIDING,
            "dataset": JUDGED,
            "executor": {"name": world.get("executor", "fused")},
        }
    )
    found = {}
    for name, evaluate in {"seldom": {"every": 3}, "often": {"every": 3, "also": [1, 2, 4]}}.items():
        path = simulate({**run, "evaluate": {**evaluate, "metrics": ["hr@5"]}}, out=tmp_path / name).path
        found[name] = [
            list(csv.DictReader((path / file).read_text().splitlines()))
            for file in ("attacks.csv", "metrics.csv")
        ]
    for few, many in zip(found["seldom"], found["often"], strict=True):
        times = {row["time"] for row in few}
        assert len({row["time"] for row in many} - times) >= 3
        assert [row for row in many if row["time"] in times] == few
