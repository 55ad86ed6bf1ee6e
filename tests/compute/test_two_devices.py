"""What `batched` computes stays on its device: its tensors have no numbers, and refuse those of another device."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from gossiprec.base.machine import ThreadPool
from gossiprec.compute.executors import batched
from gossiprec.compute.executors.batched import BatchedExecutor
from gossiprec.compute.store import ScoringView
from gossiprec.models import MODELS
from tests.compute.worlds import World, on_device, run_waves
from tests.emulation.test_models_on_device import CLIENTS
from tests.emulation.tiny_runs import carried_out
from tests.slow import slow_except_first

OTHER = torch.device("meta")
KINDS = {torch.float32: np.float32, torch.int64: np.int64, torch.bool: np.bool_}
TREATED = [
    {},
    {"drift": (0.5,)},
    {"drift": (0.5,), "clip_norm": (1.0,), "noise_multiplier": (1.0,)},
]


@pytest.fixture(autouse=True)
def other_device(monkeypatch):
    """Let the batched executor compute on another device; what it brings to the host are zeros."""
    fake = FakeTensorMode(allow_non_fake_inputs=True)

    def zeros(tensor):
        assert tensor.device.type == "cpu", "numpy cannot read tensors of a device."
        return np.zeros(tuple(tensor.shape), KINDS[tensor.dtype])

    def within(method):
        @wraps(method)
        def call(*args, **kwargs):
            with fake:
                return method(*args, **kwargs)

        return call

    monkeypatch.setattr(FakeTensor, "numpy", zeros)
    monkeypatch.setattr(batched, "choose_device", lambda name: OTHER)
    monkeypatch.setitem(batched.STACK_BYTES, "meta", 2**20)
    for name in ("__init__", "run", "score", "score_all"):
        monkeypatch.setattr(BatchedExecutor, name, within(getattr(BatchedExecutor, name)))


def test_two_devices_are_not_mixed():
    with (
        FakeTensorMode(allow_non_fake_inputs=True),
        pytest.raises(RuntimeError, match=r"same device|different devices"),
    ):
        torch.zeros(3, device=OTHER) + torch.zeros(3)


@pytest.mark.parametrize("stays", [True, False])
@pytest.mark.parametrize("treated", slow_except_first(TREATED))
@pytest.mark.parametrize("model", list(MODELS))
@pytest.mark.cases(1)
@pytest.mark.slow
def test_models_train_and_score_on_the_device(model, treated, stays):
    world = World(model=model, **treated)
    work = world.workload()
    executor = BatchedExecutor(replace(work, arena=on_device(work.arena, OTHER)) if stays else work)

    run_waves(executor, world.waves())

    nodes = np.arange(world.n_nodes)
    view = ScoringView(work.layout, executor.work.arena.rows, nodes, work.layout.user_index(nodes))
    contexts = dict.fromkeys(work.feed.context_columns, np.zeros(world.n_nodes, np.int32))
    for about in (contexts, {"previous": np.zeros(world.n_nodes, np.int32)}):
        found = executor.score_all(replace(view, contexts=about), ThreadPool(1))
        assert found.shape == (world.n_nodes, world.n_items)


@pytest.mark.parametrize(
    "world",
    slow_except_first(world for world in CLIENTS if " with " not in world or world.endswith("two-tower")),
)
@pytest.mark.cases(1)
def test_clients_train_on_the_device(world):
    protocol = {**CLIENTS[world]["protocol"], "rounds": 1}
    carried_out({**CLIENTS[world], "protocol": protocol, "executor": {"name": "batched"}})
