"""What computes: arena, executor and planner of a run, and how large they are."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from gossiprec.arrays import Bools
from gossiprec.compute.executors import EXECUTORS, Executor, Workload
from gossiprec.compute.plan.planner import Planner
from gossiprec.compute.store.arena import Arena
from gossiprec.compute.train.local_update import TrainingSettings
from gossiprec.compute.train.node_settings import Kind, NodeSettings
from gossiprec.data.split import Split
from gossiprec.emulation.assembly.clients import make_client_executor
from gossiprec.emulation.run.schedule import Schedule
from gossiprec.feeds import Feed
from gossiprec.models import Layout, Model
from gossiprec.protocols import Protocol
from gossiprec.ragged import Ragged
from gossiprec.scenario import Scenario

FEW_EPOCHS = 3_000
"""Local epochs below which ``executor: auto`` takes the reference: compiling would last longer."""
FEW_PRIVATE_EPOCHS = 300
"""The same under DP-SGD, where the reference takes one sample after the other."""
SPARE_BYTES = 128 * 2**20
"""Memory for versions in waiting; with less than one spare row for four nodes, merging in time costs too much."""


def training_settings(scenario: Scenario) -> TrainingSettings:
    """Return how nodes train."""
    training = scenario.training
    return TrainingSettings(
        optimizer=training.optimizer,
        learning_rate=training.learning_rate,
        batch_size=None if training.batch_size == "full" else training.batch_size,
        local_epochs=training.local_epochs,
        negatives=training.negatives,
        beta1=training.betas[0],
        beta2=training.betas[1],
        epsilon=training.eps,
    )


def needed_bytes(
    layout: Layout, row_bytes: int, training: TrainingSettings, n_nodes: int, spare: int
) -> dict[str, int]:
    """Return the bytes of the nodes' versions, of versions in waiting and of optimizer state."""
    moments = 2 * n_nodes * 4 * layout.row_size if training.optimizer == "adam" else 0
    return {"parameters": n_nodes * row_bytes, "versions in waiting": spare * row_bytes, "moments": moments}


def make_executor(
    scenario: Scenario,
    protocol: Protocol,
    model: Model,
    feed: Feed,
    layout: Layout,
    training: TrainingSettings,
    node_settings: NodeSettings,
    candidates: Ragged | None,
    epochs: int,
) -> Executor:
    """Make the arena with every node's first version, and the executor that works on it."""
    n_users, storage = len(feed.positives), scenario.executor.storage
    if protocol.sends_updates:
        return make_client_executor(
            scenario, protocol.n_nodes, model, feed, layout, training, node_settings, epochs
        )
    arena = Arena(
        layout,
        n_nodes=protocol.n_nodes,
        capacity=protocol.n_nodes,
        moments=training.optimizer == "adam",
        storage=storage,
    )
    model.fill_rows(arena.rows[:n_users], layout, scenario.seed)
    if protocol.has_coordinator:
        arena.rows[n_users] = arena.rows[0]
    work = Workload(model, layout, training, feed, arena, scenario.seed, node_settings, candidates)
    name: str = scenario.executor.name
    if name == "auto":
        lacks_kernels = EXECUTORS["fused"].lacks(model, training, storage, node_settings) is not None
        name = _choose(lacks_kernels, node_settings, scenario.executor.device, epochs)
    return EXECUTORS[name](work, scenario.executor.device)


def _choose(lacks_kernels: bool, node_settings: NodeSettings, device: str, epochs: int) -> str:
    """Return the executor that ``auto`` stands for."""
    if device == "cuda":
        return "batched"
    private = (node_settings.kinds == Kind.PRIVATE).any()
    if epochs < (FEW_PRIVATE_EPOCHS if private else FEW_EPOCHS):
        return "reference"
    return "batched" if lacks_kernels else "fused"


def thread_count(scenario: Scenario) -> int:
    """Return how many threads compute."""
    asked = scenario.executor.threads
    return len(os.sched_getaffinity(0)) if asked == "auto" else asked


def spare_rows(n_nodes: int, row_bytes: int) -> int:
    """Return how many versions in waiting to keep: two for each node, fewer where rows are large."""
    return min(2 * n_nodes, max(n_nodes // 4, SPARE_BYTES // row_bytes))


def make_planner(
    protocol: Protocol,
    split: Split,
    work: Workload,
    pools: list[Any],
    schedule: Schedule,
    spare: int,
    *,
    keeps_first: bool = False,
    inboxes: Iterable[int] = (),
    rewrites: Bools | None = None,
) -> Planner:
    """Return the planner, which knows what each node weighs and costs."""
    n_positives = split.train.sizes
    has_inbox = np.zeros(protocol.n_nodes, bool)
    has_inbox[list(inboxes)] = True
    pools_of = np.zeros((protocol.n_nodes, len(pools)), bool)
    for number, members in enumerate(pools):
        pools_of[members, number] = True
    training = work.training
    samples = (
        np.append(work.feed.n_samples(training.negatives), 0)[: protocol.n_nodes] * training.local_epochs
    )
    per_epoch = samples // training.local_epochs
    steps = training.local_epochs * -(-per_epoch // (training.batch_size or max(int(per_epoch.max()), 1)))
    noise = np.where(work.node_settings.kinds == Kind.PRIVATE, steps * work.layout.size / 450.0, 0.0)
    return Planner(
        roles=protocol.roles,
        behaviours=protocol.behaviours,
        weights=protocol.merge_weights(n_positives),
        most_updates=work.node_settings.most_updates,
        cost=2.0 + samples * work.model.sample_cost(work.layout) + noise,
        pools_of=pools_of,
        inline=schedule.inline,
        spare_rows=spare,
        expected_messages=schedule.n_messages,
        keeps_first=keeps_first,
        inboxes=has_inbox,
        rewrites=rewrites,
    )
