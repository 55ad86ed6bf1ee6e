"""The answers to the last push are merged if the scenario says so."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gossiprec.emulation import simulate
from tests.emulation.test_clients_without_models import star
from tests.emulation.tiny_runs import carried_out, tiny

WHOLE = {"name": "fedavg", "participation": 0.5}
UPDATES = {**WHOLE, "client_model": "none", "merge": "mean"}
WAYS = {
    "whole models": ({**WHOLE, "merge": "median"}, {}),  # weighted means are taken as answers arrive
    "updates": (UPDATES, {}),
    "a server": ({**UPDATES, "server": {"name": "adam", "learning_rate": 0.1}}, {}),
    "slices": ({"name": "fedavg", "slice": 5, "client_model": "none", "merge": "mean"}, {}),
    "late": (UPDATES, {"network": {"latency": {"law": "constant", "value": 0.4}}}),
    "deadline": (
        {**UPDATES, "round": {"deadline": 1.0}},
        {"network": {"latency": {"law": "constant", "value": 0.2}}},
    ),
}


def run(way, rounds, merge_last, **sections):
    protocol, more = WAYS[way]
    training = {"batch_size": "full", "learning_rate": 0.05}
    protocol = {**protocol, "rounds": rounds, "merge_last": merge_last}
    return tiny(protocol=protocol, training=training, observers=[], **more, **sections)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("executor", ["reference", "fused"])
@pytest.mark.cases(2)
def test_the_last_answers_make_the_version_that_the_next_push_would_have_sent(way, executor):
    """Three rounds and a merge end with the version that the fourth of four rounds pushes, and ask no more clients."""
    one, without, longer = (
        carried_out(run(way, rounds, merge_last, executor={"name": executor}))
        for rounds, merge_last in ((3, True), (3, False), (4, False))
    )
    last = [coordinators(prepared) for prepared in (one, without, longer)]
    assert not np.array_equal(last[0], last[1])
    assert one.planner.update_counts.tolist() == without.planner.update_counts.tolist()
    if way != "slices":  # where a fourth epoch pushes three times
        assert last[0].tobytes() == last[2].tobytes()


def coordinators(prepared):
    return prepared.executor.store.load(prepared.planner.current_rows[-1:])[0]


@pytest.mark.slow
def test_there_are_as_many_merges_as_pushes(tmp_path):
    for merge_last in (False, True):
        done = simulate(
            star(rounds=5, protocol={"merge_last": merge_last}, observers=[]), out=tmp_path / f"{merge_last}"
        )
        message, wakes = done.events("message"), done.events("wake")
        times = np.sort(wakes["time"][wakes["node"] == 12])
        pushes = np.unique(message["sent_at"][message["sender"] == 12]).size
        came = message["time"][message["sender"] < 12]
        merges = sum(((came >= low) & (came < high)).any() for low, high in itertools.pairwise(times))
        assert (pushes, merges) == (5, 5 if merge_last else 4)
        last = (done.path / "metrics.csv").read_text().splitlines()[-1]
        assert last.split(",")[1] == ("6" if merge_last else "5")
