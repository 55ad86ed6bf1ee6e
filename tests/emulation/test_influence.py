"""What the data of a user changed for the others, against plain numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gossiprec import counterfactual
from gossiprec import prepare as prepare_run
from gossiprec.base.errors import LogError, ScenarioError
from gossiprec.emulation import simulate
from gossiprec.emulation.run.influence import influence
from gossiprec.emulation.run.run_replay import check_same, log_difference
from tests.emulation.tiny_runs import SINGLE, carried_out, final_models, tiny
from tests.slow import slow_except_first

GOSSIP = tiny()["protocol"]
RING = {**GOSSIP, "view": {"graph": {"family": "ring", "k": 2}}, "fanout": 1, "wakes": 3}
RUNS = {
    "gossip": {},
    "ring": {"protocol": RING},
    "whole models": {"protocol": {"name": "fedavg", "rounds": 4}},
    "updates": {"protocol": {"name": "fedavg", "rounds": 4, "client_model": "none"}},
}


def pair(folder, **sections):
    run = simulate(tiny(**{"observers": [], **sections}), out=folder / "run")
    return run, counterfactual(run.path, [3])


@pytest.mark.parametrize("name", slow_except_first(RUNS))
@pytest.mark.cases(1)
def test_distances_are_those_of_the_final_models(tmp_path, name):
    run, other = pair(tmp_path, **RUNS[name])
    found = influence(run.path, other.path, k=5)
    assert found.users.tolist() == [0, 1, 2, *range(4, 12)]
    for column in found.columns().values():
        assert column.shape == (11,)
    squares = np.sum([block**2 for block in found.blocks.values()], axis=0)
    np.testing.assert_allclose(found.distance, np.sqrt(squares))
    assert (found.distance[found.hops < math.inf] > 0).any()
    assert not found.distance[np.isinf(found.hops)].any()
    if name in ("gossip", "ring"):
        before, after = (final_models(carried_out(each.scenario)).astype(float) for each in (run, other))
        gaps = np.linalg.norm(after - before, axis=1)[found.users]
        np.testing.assert_allclose(found.distance, gaps, rtol=1e-6)
        np.testing.assert_allclose(
            found.relative, gaps / np.linalg.norm(before, axis=1)[found.users], rtol=1e-6
        )


def ranking(prepared, user):
    """Return the items that a user has not trained on, best first, by GMF's formula in plain numpy."""
    row = final_models(prepared)[user].astype(np.float64)
    mine, items, weights = row[:8], row[8:328].reshape(40, 8), row[328:336]
    scores = (items * mine) @ weights
    return [
        item
        for item in np.argsort(-scores, kind="stable").tolist()
        if item not in prepared.components.split.train[user]
    ]


def test_lists_are_compared_as_in_plain_numpy(tmp_path):
    run, other = pair(tmp_path, observers=[SINGLE])
    found = influence(run.path, other.path, k=5)
    before, after = (carried_out(each.scenario) for each in (run, other))
    for at, user in enumerate(found.users.tolist()):
        lists = [ranking(prepared, user) for prepared in (before, after)]
        top = [each[:5] for each in lists]
        tests = set(before.components.split.test[user].tolist())
        recalls = [len(tests & set(each)) / len(tests) for each in top]
        moved = [abs(lists[1].index(item) - place) for place, item in enumerate(top[0])]
        assert found.overlap[at] == len({*top[0]} & {*top[1]}) / 5
        assert found.rank_change[at] == pytest.approx(np.mean(moved))
        assert found.recall_change[at] == pytest.approx(recalls[1] - recalls[0])
    rows = found.table()
    assert sum(row["users"] for row in rows) == 11
    assert [row["hops"] for row in rows] == sorted({*found.hops.tolist()})
    assert sum(row["distance"] * row["users"] for row in rows) == pytest.approx(found.distance.sum())


@pytest.mark.full
def test_a_client_is_compared_by_the_version_that_it_received_last(tmp_path):
    """At each report the coordinator has the version that it has just sent."""
    protocol = {"name": "fedavg", "rounds": 4, "participation": 0.3, "client_model": "none"}
    run, other = pair(tmp_path, protocol=protocol, evaluate={"every": 1, "metrics": ["hr@5"]})
    found = influence(run.path, other.path, k=5)
    ended, versions = [], []
    for number, each in enumerate((run, other)):
        live = prepare_run(each.scenario, out=tmp_path / str(number))
        versions.append({0: live.model(12)} | {report.round: live.model(12) for report in live})
        ended.append(live)
    sent = run.events("message")
    for at, user in enumerate(found.users.tolist()):
        last = int(sent["sent_at"][sent["receiver"] == user].max(initial=0))
        models = [
            {**version[last], "users": live.model(user)["users"]}
            for version, live in zip(versions, ended, strict=True)
        ]
        gaps = [np.linalg.norm(models[1][name] - models[0][name]) for name in models[0]]
        assert found.distance[at] == pytest.approx(np.linalg.norm(gaps), rel=1e-5)
    assert len({*sent["sent_at"].tolist()}) == 4
    for live in ended:
        live.close()
    alone = np.isinf(found.hops)
    assert alone.any()
    assert not found.distance[alone].any()
    assert (found.overlap[alone] == 1).all()


def alone(found):
    """Return the distances of users whom no data can have reached."""
    return found.distance[np.isinf(found.hops)].tolist()


SLOW_COMPUTER = {"compute": {"time": {"law": "constant", "value": 0.1}, "per_sample": True}}
FAST_COMPUTER = {"compute": {"time": {"law": "constant", "value": 0.03}, "per_sample": True}}
MEASURE = "val_full_ndcg@20"
EVENTS_DIFFER = {
    "a graph by taste": {
        "protocol": {**RING, "view": {"graph": {"family": "nearest-by-taste", "k": 2}}, "wakes": 1}
    },
    "early stop": {
        "seed": 3,
        "protocol": {**RING, "wakes": 8},
        "network": {"latency": {"law": "constant", "value": 2.5}},
        "training": {"learning_rate": 0.05},
        "stop": {"measure": MEASURE, "patience": 1},
        "evaluate": {"every": 1, "metrics": [MEASURE]},
    },
    "slower computers": {"protocol": RING, "network": SLOW_COMPUTER},
    "shared bandwidth": {
        "seed": 5,
        "protocol": {**GOSSIP, "view": {"size": 2}, "fanout": 2, "wakes": 2, "wake": {"law": "constant"}},
        "network": {**FAST_COMPUTER, "bandwidth": {"up": 1000.0, "down": 1500.0}},
    },
}
"""Runs in which a user's data change when others train, or to whom they send."""


@pytest.mark.slow
@pytest.mark.parametrize("name", EVENTS_DIFFER)
@pytest.mark.cases(1)
def test_events_that_differ_are_ways_of_data(tmp_path, name):
    runs = pair(tmp_path, executor={"name": "reference"}, **EVENTS_DIFFER[name])
    found = influence(*(run.path for run in runs), k=5)
    assert not any(alone(found))
    first, second = ({*zip(*map(np.ndarray.tolist, received(run)), strict=True)} for run in runs)
    reached = {user for user, _, _ in first ^ second}
    assert np.isfinite(found.hops[np.isin(found.users, [*reached])]).all()
    assert reached - {3}


def received(run):
    """Return receiver, sender and time of the messages of a run."""
    log = run.events("message")
    return [log[name] for name in ("receiver", "sender", "time")]


def test_runs_of_two_executors_are_compared_by_one(tmp_path):
    """Executors round differently, which is no influence."""
    plain = tiny(observers=[], protocol={**RING, "wakes": 1})
    left_out = {**plain["dataset"], "without": [3]}
    run = simulate(plain, out=tmp_path / "run")
    other = simulate(
        {**plain, "dataset": left_out, "executor": {"name": "reference"}}, out=tmp_path / "other"
    )
    distances = alone(influence(run.path, other.path, k=5))
    assert distances
    assert not any(distances)


def test_other_runs_are_refused(tmp_path):
    run, other = pair(tmp_path, evaluate={"every": 6, "metrics": ["hr@5"]})
    for first, second, differs in ((run, run, "dataset.without"), (other, run, "dataset.without")):
        with pytest.raises(ScenarioError, match=f"they differ in {differs}"):
            influence(first.path, second.path)
    seeded = simulate(
        tiny(observers=[], seed=6, evaluate={"every": 6, "metrics": ["hr@5"]}), out=tmp_path / "seeded"
    )
    with pytest.raises(ScenarioError, match="they differ in seed"):
        influence(seeded.path, other.path)
    with pytest.raises(ScenarioError, match="k: found 41; expected a length of lists from 1 to 40"):
        influence(run.path, other.path, k=41)
    with pytest.raises(LogError, match="the second run is not the same: the first different event is"):
        check_same(run, seeded, log_difference(run, seeded, True))
