"""A divided run of clients that hold no model that ended early goes on, by however many shards, to the same bytes."""

from __future__ import annotations

import pytest

from gossiprec.emulation import resume, simulate
from tests.emulation.ended_early import OFTEN, Patient, ended_early, often
from tests.emulation.sharded import Threads, divided
from tests.emulation.test_clients_without_models import CHURN, NETWORK
from tests.emulation.test_shards import told
from tests.emulation.test_shards_ended import Dying
from tests.emulation.tiny_runs import COORDINATOR
from tests.recommenders.test_perfedrec import LDP, STAR, personal
from tests.recommenders.test_recommended_runs import SLICES, recommended
from tests.slow import slow_except_first

LATE = {"evaluate": {"every": 1, "metrics": ["hr@5"]}, "network": NETWORK, "churn": CHURN}
WORLDS = {
    "clusters": often(
        **personal(**LATE, executor={"name": "fused"}, protocol={**STAR, "rounds": 7}, policies=[LDP])
    ),
    "synthetic-users": often(
        **recommended(
            **LATE,
            executor={"name": "fused"},
            protocol={**SLICES, "server": {"name": "adaptive"}},
            observers=[COORDINATOR],
            attackers=[{"name": "a-hum", "number": 2, "targets": [7]}],
        )
    ),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return what a run in one process has written, each made once."""
    return {
        world: told(simulate(scenario, out=tmp_path_factory.mktemp(world) / "run").path)
        for world, scenario in WORLDS.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(("before", "after"), [(3, 2), (2, 1)])
@pytest.mark.full
def test_a_divided_run_goes_on_with_fewer_shards(world, before, after, whole, tmp_path):
    scenario = divided({**WORLDS[world], "checkpoint": OFTEN}, before)
    run = simulate(scenario, out=tmp_path / "run", make_shard_group=Threads, progress=Patient(4))
    assert run.status == "interrupted"

    assert told(resume(run.path, shards=after, make_shard_group=Threads).path) == whole[world]


@pytest.mark.slow
@pytest.mark.parametrize("world", slow_except_first(WORLDS))
@pytest.mark.cases(1)
def test_a_run_of_one_process_goes_on_divided(world, whole, tmp_path):
    run = ended_early(tmp_path / "run", WORLDS[world])

    assert told(resume(run.path, shards=3, make_shard_group=Threads).path) == whole[world]


@pytest.mark.slow
@pytest.mark.full
def test_a_run_that_loses_a_shard_goes_on_by_itself(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(Dying, "lives", [30])
    say = Patient()
    run = simulate(
        divided({**WORLDS["clusters"], "checkpoint": OFTEN}, 3),
        out=tmp_path / "run",
        make_shard_group=Dying,
        progress=say,
    )

    assert told(run.path) == whole["clusters"]
    assert [note.partition(";")[0] for note in say.notes] == ["shard 1 died: killed by signal 9"]
