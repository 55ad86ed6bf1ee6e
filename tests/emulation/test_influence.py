"""What the data of a user changed for the others, against plain numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gossiprec import counterfactual
from gossiprec.base.errors import LogError, ScenarioError
from gossiprec.emulation import simulate
from gossiprec.emulation.run.influence import check_same_log, influence, transfer_hops
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
def test_distances_are_those_of_the_final_models(tmp_path, name):
    run, other = pair(tmp_path, **RUNS[name])
    found = influence(run.path, other.path, k=5)
    assert found.users.tolist() == [0, 1, 2, *range(4, 12)]
    for column in found.columns().values():
        assert column.shape == (11,)
    squares = np.sum([block**2 for block in found.blocks.values()], axis=0)
    np.testing.assert_allclose(found.distance, np.sqrt(squares))
    assert (found.distance[found.hops < math.inf] > 0).any()
    if name in ("gossip", "ring"):
        assert not found.distance[np.isinf(found.hops)].any()
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
        item for item in np.argsort(-scores, kind="stable").tolist() if item not in prepared.split.train[user]
    ]


def test_lists_are_compared_as_in_plain_numpy(tmp_path):
    run, other = pair(tmp_path, observers=[SINGLE])
    found = influence(run.path, other.path, k=5)
    before, after = (carried_out(each.scenario) for each in (run, other))
    for at, user in enumerate(found.users.tolist()):
        lists = [ranking(prepared, user) for prepared in (before, after)]
        top = [each[:5] for each in lists]
        tests = set(before.split.test[user].tolist())
        recalls = [len(tests & set(each)) / len(tests) for each in top]
        moved = [abs(lists[1].index(item) - place) for place, item in enumerate(top[0])]
        assert found.overlap[at] == len({*top[0]} & {*top[1]}) / 5
        assert found.rank_change[at] == pytest.approx(np.mean(moved))
        assert found.recall_change[at] == pytest.approx(recalls[1] - recalls[0])
    rows = found.table()
    assert sum(row["users"] for row in rows) == 11
    assert [row["hops"] for row in rows] == sorted({*found.hops.tolist()})
    assert sum(row["distance"] * row["users"] for row in rows) == pytest.approx(found.distance.sum())


def test_hops_follow_messages_in_the_order_of_time():
    """0 -> 1 at 1, 1 -> 2 at 2, 2 -> 3 left too early, 1 -> 3 arrives late, 3 -> 4 leaves before that."""
    messages = {
        "time": np.array([1.0, 2.0, 2.5, 3.0, 5.0]),
        "sent_at": np.array([1.0, 2.0, 1.5, 2.9, 1.0]),
        "sender": np.array([0, 1, 2, 3, 1]),
        "receiver": np.array([1, 2, 3, 4, 5]),
    }
    found = transfer_hops(messages, [0], n_nodes=6)
    assert found.tolist() == [0, 1, 2, math.inf, math.inf, 2]
    assert transfer_hops(messages, [2], n_nodes=6)[3:5].tolist() == [1, 2]


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
    with pytest.raises(LogError, match="gave another log"):
        check_same_log(run, seeded)
