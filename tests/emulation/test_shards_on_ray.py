"""Shards as Ray actors: the same bytes, also when one is killed; and messages that say what is lacking."""

from __future__ import annotations

import importlib.util
import os
import re
import signal

import pytest

from gossiprec.emulation import simulate
from gossiprec.emulation.shards import connecting, on_ray
from gossiprec.emulation.shards.versions import check_versions, own_versions
from gossiprec.errors import ResourceError
from gossiprec.scenario import load_scenario
from tests.emulation.ended_early import Patient, often
from tests.emulation.sharded import divided
from tests.emulation.test_clients_without_models import NETWORK
from tests.emulation.test_shards import COALITIONS, told
from tests.emulation.tiny_runs import SINGLE, tiny
from tests.recommenders.test_perfedrec import personal

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="needs the extra gossiprec[ray]"
)
SCENARIO = often(observers=[SINGLE, COALITIONS], executor={"name": "reference", "threads": 1})
UPDATES = often(
    **personal(
        executor={"name": "reference", "threads": 1},
        evaluate={"every": 1, "metrics": ["hr@5"]},
        network=NETWORK,
    )
)


def on_this_machine(scenario, shards):
    scenario = divided(scenario, shards)
    return {**scenario, "executor": {**scenario["executor"], "address": "local"}}


class Killing(Patient):
    """Kills the process of shard 1 with signal 9 at some report, once."""

    def __init__(self, at):
        super().__init__()
        self._at, self._process = at, None

    def phase(self, text):
        if found := re.search(r"shard 1 on .*, process (\d+)", text):
            self._process = int(found[1])

    def tick(self, status):
        super().tick(status)
        if len(self.ticks) == self._at:
            os.kill(self._process, signal.SIGKILL)


@needs_ray
@pytest.mark.parametrize(
    ("scenario", "shards"), [(SCENARIO, 2), (SCENARIO, 4), (UPDATES, 3)], ids=["two", "four", "updates"]
)
def test_actors_write_what_one_process_writes_though_one_is_killed(scenario, shards, tmp_path):
    say = Killing(at=4)
    one = simulate(scenario, out=tmp_path / "one")
    run = simulate(on_this_machine(scenario, shards), out=tmp_path / "ray", progress=say)

    assert told(run.path) == told(one.path)
    assert len(say.notes) == 1
    assert say.notes[0].startswith("shard 1 died: ")
    assert len(say.ticks) > 8


def test_missing_ray_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(connecting.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ResourceError, match=r"pip install 'gossiprec\[ray\]', or set executor.name to auto"):
        simulate(divided(tiny(), 2), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_versions_that_differ_are_named():
    own = own_versions(load_scenario(tiny()))
    other = {**own, "numpy": "1.0"}
    check_versions(own, {1: ("here", own)})
    with pytest.raises(
        ResourceError, match=r"shard 2 on there: numpy 1\.0, but .* in shard 0; install the same"
    ):
        check_versions(own, {1: ("here", own), 2: ("there", other)})


class _Cluster:
    """Stands for Ray connected to a cluster of so many processors."""

    def __init__(self, cpus):
        self._cpus = cpus

    def is_initialized(self):
        return True

    def cluster_resources(self):
        return {"CPU": float(self._cpus)}


def test_a_cluster_with_too_few_processors_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(on_ray, "require_ray", lambda instead: _Cluster(7))
    scenario = divided(tiny(executor={"name": "auto", "threads": 2}), 4)
    with pytest.raises(ResourceError, match=r"4 shards .* need 8 processors, but .* has 7; lower"):
        simulate(scenario, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_ray_that_does_not_start_is_told_in_a_sentence():
    class Slow:
        def init(self, **options):
            raise RuntimeError("The node timed out.\nMore of it.")

    with pytest.raises(
        ResourceError, match=r"Ray does not start on this machine \(The node timed out\.\); try"
    ):
        connecting.start_here(Slow(), cpus=2, store_bytes=1)
