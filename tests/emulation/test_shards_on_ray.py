"""Shards as Ray actors: the same bytes, also when one is killed; and messages that say what is lacking."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import socket
import sys
import types
from pathlib import Path

import pytest

from gossiprec.base.errors import ResourceError
from gossiprec.emulation import simulate
from gossiprec.emulation.carriers.shards import ray_backend
from gossiprec.emulation.carriers.shards.group import check_versions, local_versions
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
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ResourceError, match=r"pip install 'gossiprec\[ray\]', or set executor.name to auto"):
        simulate(divided(tiny(), 2), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_versions_that_differ_are_named():
    own = local_versions(load_scenario(tiny()))
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
    monkeypatch.setattr(ray_backend, "require_ray", lambda instead: _Cluster(7))
    scenario = divided(tiny(executor={"name": "auto", "threads": 2}), 4)
    with pytest.raises(ResourceError, match=r"4 shards .* need 8 processors, but .* has 7; lower"):
        simulate(scenario, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


class _Started:
    """Ray as it starts, at an address that depends on its constants."""

    def __init__(self, constants, address=None):
        self.constants, self.address, self.util = constants, address, self
        self.asked, self.up = [], False

    def init(self, **options):
        self.asked.append(os.environ.get(ray_backend.ONE_MACHINE))
        self.loopback = not self.constants.ENABLE_RAY_CLUSTER
        self.up = True

    def get_node_ip_address(self):
        return self.address or ("127.0.0.1" if self.loopback else "192.0.2.2")

    def shutdown(self):
        self.up = False


@pytest.fixture
def constants(monkeypatch):
    module = types.ModuleType("ray._private.ray_constants")
    module.ENABLE_RAY_CLUSTER = True
    for name in ("ray", "ray._private"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def test_ray_started_here_listens_on_the_loopback_interface(constants):
    before = dict(os.environ)
    ray = _Started(constants)
    ray_backend.start_local_ray(ray, cpus=2, store_bytes=1)
    assert (ray.up, ray.asked, ray.get_node_ip_address()) == (True, ["0"], "127.0.0.1")
    assert constants.ENABLE_RAY_CLUSTER is True
    assert dict(os.environ) == before


def test_ray_that_other_machines_can_reach_is_refused(constants):
    ray = _Started(constants, "192.0.2.2")
    with pytest.raises(ResourceError, match=r"listens on 192.0.2.2.*expected 127.0.0.1"):
        ray_backend.start_local_ray(ray, cpus=2, store_bytes=1)
    assert not ray.up


@needs_ray
def test_no_process_of_a_ray_that_is_started_here_listens_elsewhere():
    import ray

    before = _listening()
    ray_backend.start_local_ray(ray, cpus=1, store_bytes=10**8)
    try:
        ray.get(ray.remote(lambda: None).remote())
        assert {address for address in _listening() - before if not address.startswith("127.")} == set()
    finally:
        ray.shutdown()


def _listening():
    """Return the addresses and ports on which this machine listens (Linux)."""
    lines = [
        line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()
    ]
    return {_address(words[1]) for words in lines if words[3] == "0A"}


def _address(told):
    """Return an address and port in words, if it is of IPv4 or IPv6 that stands for it; else as it is told."""
    number, port = told.split(":")
    if len(number) == 8 or number.startswith("0" * 16 + "FFFF0000"):
        number = socket.inet_ntoa(bytes.fromhex(number[-8:])[::-1])
    return f"{number}:{int(port, 16)}"


def test_ray_that_does_not_start_is_told_in_a_sentence(constants):
    class Slow:
        def init(self, **options):
            raise RuntimeError("The node timed out.\nMore of it.")

    with pytest.raises(
        ResourceError, match=r"Ray does not start on this machine \(The node timed out\.\); try"
    ):
        ray_backend.start_local_ray(Slow(), cpus=2, store_bytes=1)
