"""What computes where clients hold no model of their own (``protocol.client_model: none``)."""

from __future__ import annotations

from gossiprec.compute.executors import EXECUTORS, Workload
from gossiprec.compute.executors.client_trainer import ClientTrainer
from gossiprec.compute.executors.clients import ClientExecutor
from gossiprec.compute.executors.small_models import SmallModels
from gossiprec.compute.store.arena import Arena
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.compute.train.node_settings import Kind, NodeSettings
from gossiprec.emulation.assembly.choosing import choose_client_executors
from gossiprec.emulation.assembly.client_messages import refused
from gossiprec.emulation.assembly.participants import Cast
from gossiprec.feeds import PairwiseFeed, SequenceFeed
from gossiprec.models.base.sequence_model import SequenceModel
from gossiprec.recommenders.base import has_own


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
            "policies: dp-sgd adds noise to every item, so a client would touch all items and its update "
            "would be as large as a model; remove the policy"
        )
    if model.constants:
        raise refused(
            f"model.name: {scenario.model.name} identifies items by constants, which are part of "
            "whole models; choose another model"
        )
    if isinstance(model, SequenceModel) and model.needs_all_items:
        raise refused(
            f"model.loss: {scenario.model.name} with loss 'all' contrasts an item with all other items, but "
            "a client without a model holds only a few; set it to sampled"
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
        store.own_extras = cast.between.own_extras
    if cast.recommender is not None and has_own(cast.recommender, "personal"):
        store.mixture = cast.recommender.personal
    training, scoring = choose_client_executors(
        scenario, model, cast.training, cast.recommender, settings, epochs
    )
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
