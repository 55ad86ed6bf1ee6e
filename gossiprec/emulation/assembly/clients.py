"""What computes where clients hold no model of their own (``protocol.client_model: none``)."""

from __future__ import annotations

import numpy as np

from gossiprec.compute.executors import EXECUTORS, Workload
from gossiprec.compute.executors.clients import AT_ONCE, ClientExecutor
from gossiprec.compute.store.arena import Arena
from gossiprec.compute.store.updates import UpdateStore
from gossiprec.compute.train.node_settings import Kind, NodeSettings
from gossiprec.emulation.assembly.client_messages import refused
from gossiprec.emulation.assembly.participants import Cast

FEW_EPOCHS = 300
"""Local epochs below which ``executor: auto`` takes the reference."""
COPIES = 2
"""Of waiting updates, that a robust rule makes to look at them together."""
VERSIONS = 4
"""Versions that are expected to be alive at a time: answers to an earlier one may be on their way."""


def make_client_executor(cast: Cast, settings: NodeSettings, epochs: int) -> ClientExecutor:
    """Return what trains clients on the rows that they touch.

    Raises
    ------
    ScenarioError
        If the scenario asks for something that updates cannot do.
    """
    scenario, model, layout, seed = cast.scenario, cast.model, cast.layout, cast.scenario.seed
    if (settings.kinds == Kind.PRIVATE).any():
        raise refused(
            "policies: dp-sgd adds noise to every item, so that a client would touch them all and its update be no "
            "smaller than a model; leave the policy out"
        )
    if model.constants:
        raise refused(
            f"model.name: {scenario.model.name} knows its items by constants, which go with whole models; take another"
        )
    name: str = scenario.executor.name
    scoring = name
    if name == "auto":
        small = epochs < FEW_EPOCHS and scenario.executor.device != "cuda"
        name = scoring = "reference" if small else "batched"
        lacking = EXECUTORS["fused"].lacks(model, cast.training, "float32", settings)
        if not small and scenario.executor.device != "cuda" and lacking is None:
            scoring = "fused"
    if name == "fused":
        raise refused("executor.name: 'fused' trains whole models; use 'batched' or 'auto'")
    empty = Arena(layout, n_nodes=1, capacity=1, moments=False)
    work = Workload(
        model, layout, cast.training, cast.feed, empty, seed, settings, recommender=cast.recommender
    )
    moments = cast.training.optimizer == "adam"
    store = UpdateStore(model, layout, n_nodes=cast.protocol.n_nodes, seed=seed, moments=moments)
    return ClientExecutor(EXECUTORS[name], EXECUTORS[scoring](work, scenario.executor.device), store)


def needed_by_clients(cast: Cast) -> dict[str, int]:
    """Return the bytes of versions, of answers on their way, of what clients keep and of small models; by part."""
    layout, samples = cast.layout, cast.load.samples[:-1] // cast.training.local_epochs
    touched = float(np.minimum(samples, layout.n_items).mean())
    own = len(samples) * (layout.size - layout.merged.stop + layout.merged.start)
    kept = 3 if cast.training.optimizer == "adam" else 1
    copies = any(
        rule.of_changes and rule.withstands for rule in (each.rule for each in cast.receivers.values())
    )
    updates = int(4 * cast.waiting * (touched * (1 + layout.item_width) + layout.n_shared))
    return {
        "versions": 4 * VERSIONS * layout.row_size,
        "updates": updates,
        **({"updates side by side": COPIES * updates} if copies else {}),
        "clients": 4 * kept * own,
        "training": 4 * 4 * AT_ONCE,
    }
