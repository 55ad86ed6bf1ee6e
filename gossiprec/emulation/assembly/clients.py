"""What computes where clients hold no model of their own (``protocol.client_model: none``)."""

from __future__ import annotations

import numpy as np

from gossiprec.compute.executors import EXECUTORS, Workload
from gossiprec.compute.executors.client_trainer import ClientTrainer
from gossiprec.compute.executors.clients import ClientExecutor
from gossiprec.compute.executors.small_models import AT_ONCE, SmallModels
from gossiprec.compute.store.arena import Arena
from gossiprec.compute.store.updates import UpdateStore
from gossiprec.compute.train.node_settings import Kind, NodeSettings
from gossiprec.emulation.assembly.client_messages import refused
from gossiprec.emulation.assembly.participants import Cast
from gossiprec.feeds import PairwiseFeed, SequenceFeed
from gossiprec.models.base.sequence_model import SequenceModel
from gossiprec.recommenders.base import has_own
from gossiprec.recommenders.written_out import not_written_out

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
    if isinstance(model, SequenceModel) and model.needs_all_items:
        raise refused(
            f"model.loss: {scenario.model.name} with loss 'all' tells an item from all others, and a client without "
            "a model holds few of them; set it to sampled"
        )
    empty = Arena(layout, n_nodes=1, capacity=1, moments=False)
    work = Workload(
        model, layout, cast.training, cast.feed, empty, seed, settings, recommender=cast.recommender
    )
    moments = cast.training.optimizer == "adam"
    n_nodes, told = cast.protocol.n_nodes, cast.told_width
    store = UpdateStore(model, layout, n_nodes=n_nodes, seed=seed, moments=moments, told_width=told)
    if cast.between is not None:
        store.begin(cast.between.start)
    if cast.recommender is not None and has_own(cast.recommender, "personal"):
        store.mixture = cast.recommender.personal
    training, scoring = _choose(cast, settings, epochs)
    device = scenario.executor.device
    return ClientExecutor(_trainer(training, work, store, device), EXECUTORS[scoring](work, device))


def _trainer(name: str, work: Workload, store: UpdateStore, device: str) -> ClientTrainer:
    if name != "fused":
        return SmallModels(work, store, EXECUTORS[name], device)
    # these import compilers
    if work.model.feed is PairwiseFeed:
        from gossiprec.compute.executors.pair_batches import PairBatches

        return PairBatches(work, store)
    if work.model.feed is SequenceFeed:
        from gossiprec.compute.executors.sequence_batches import SequenceBatches

        return SequenceBatches(work, store)
    from gossiprec.compute.executors.full_batches import FullBatches

    return FullBatches(work, store)


def _lacks_gradient(cast: Cast, settings: NodeSettings) -> str | None:
    """Return what no gradient is written out for, or None."""
    lacking = not_written_out(cast.model, cast.recommender)
    if lacking is not None:
        return lacking
    if (
        cast.training.batch_size is not None and cast.model.feed is not SequenceFeed
    ):  # of which a client has one
        return f"batches of {cast.training.batch_size} (training.batch_size)"
    if (settings.kinds != Kind.PLAIN).any():
        return "training that policies change"
    return None


def _choose(cast: Cast, settings: NodeSettings, epochs: int) -> tuple[str, str]:
    """Return the names of the executors that train and that score.

    Raises
    ------
    ScenarioError
        If the scenario asks for ``fused``, and the gradient of what it trains is not written out.
    """
    executor, model, training = cast.scenario.executor, cast.model, cast.training
    lacking = _lacks_gradient(cast, settings)
    if executor.name == "fused" and lacking:
        raise refused(
            f"executor.name: 'fused' has no written-out gradient for {lacking}; use 'batched' or 'auto'"
        )
    if executor.name == "fused" and executor.device == "cuda":
        raise refused("executor.device: 'fused' computes on the CPU; use 'batched' for cuda")
    compiled = EXECUTORS["fused"].lacks(model, training, "float32", settings) is None
    if executor.name == "fused":
        return "fused", "fused" if compiled else "batched"
    if executor.name != "auto":
        return executor.name, executor.name
    if executor.device == "cuda":
        return "batched", "batched"
    few = epochs < FEW_EPOCHS
    trains = "fused" if lacking is None else "reference" if few else "batched"
    scores = "fused" if compiled and not few else "reference" if trains == "reference" else "batched"
    return trains, scores


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
