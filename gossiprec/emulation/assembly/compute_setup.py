"""What computes: arena, executor and planner of a run."""

from __future__ import annotations

import numpy as np

from gossiprec.arrays import I64
from gossiprec.compute.executors import EXECUTORS, Executor, ExecutorContext
from gossiprec.compute.executors.client_trainer import ClientTrainer
from gossiprec.compute.executors.clients import ClientExecutor
from gossiprec.compute.executors.submodel_trainer import SubmodelTrainer
from gossiprec.compute.plan.planner import Planner
from gossiprec.compute.store.arena import Arena
from gossiprec.compute.store.single_model_store import SingleModelStore
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.compute.train.node_settings import NodeSettings, TrainingMode
from gossiprec.compute.train.performance_merge import draw_validation_candidates
from gossiprec.emulation.assembly.client_transforms import unsupported_with_updates
from gossiprec.emulation.assembly.components import RunComponents
from gossiprec.emulation.assembly.executor_selection import (
    choose_central_executor,
    choose_client_executors,
    choose_executor,
)
from gossiprec.emulation.assembly.poisoners import add_poisoners
from gossiprec.emulation.run.attack_hook import AttackHook
from gossiprec.emulation.run.schedule import Schedule
from gossiprec.errors import ScenarioError
from gossiprec.feeds import PairwiseFeed, SequenceFeed
from gossiprec.models.base.sequence_model import SequenceModel
from gossiprec.recommenders.base import overrides_method


def make_client_executor(cast: RunComponents, settings: NodeSettings, epochs: int) -> ClientExecutor:
    """Return what trains clients on the rows that they touch.

    Raises
    ------
    ScenarioError
        If the scenario asks for something that updates cannot do.
    """
    scenario, model, layout, seed = cast.scenario, cast.model, cast.layout, cast.scenario.seed
    if (settings.kinds == TrainingMode.PRIVATE).any():
        raise unsupported_with_updates(
            "policies: dp-sgd adds noise to every item, so a client would touch all items and its update "
            "would be as large as a model; remove the policy"
        )
    if model.constants:
        raise unsupported_with_updates(
            f"model.name: {scenario.model.name} identifies items by constants, which are part of "
            "whole models; choose another model"
        )
    if isinstance(model, SequenceModel) and model.needs_all_items:
        raise unsupported_with_updates(
            f"model.loss: {scenario.model.name} with loss 'all' contrasts an item with all other items, but "
            "a client without a model holds only a few; set it to sampled"
        )
    empty = Arena(layout, n_nodes=1, capacity=1, moments=False)
    work = ExecutorContext(
        model, layout, cast.training, cast.feed, empty, seed, settings, recommender=cast.recommender
    )
    moments = cast.training.optimizer == "adam"
    n_nodes, told = cast.protocol.n_nodes, cast.told_width
    store = UpdateStore(model, layout, n_nodes=n_nodes, seed=seed, moments=moments, told_width=told)
    if cast.between is not None:
        store.begin(cast.between.start)
        store.own_extras = cast.between.own_extras
    if cast.recommender is not None and overrides_method(cast.recommender, "personal"):
        store.mixture = cast.recommender.personal
    training, scoring = choose_client_executors(
        scenario, model, cast.training, cast.recommender, settings, epochs
    )
    device = scenario.executor.device
    return ClientExecutor(_trainer(training, work, store, device), EXECUTORS[scoring](work, device))


def _trainer(name: str, work: ExecutorContext, store: UpdateStore, device: str) -> ClientTrainer:
    if name != "fused":
        return SubmodelTrainer(work, store, EXECUTORS[name], device)
    # these import compilers
    if work.model.feed is PairwiseFeed:
        from gossiprec.compute.executors.pair_trainer import PairTrainer

        return PairTrainer(work, store)
    if work.model.feed is SequenceFeed:
        from gossiprec.compute.executors.sequence_trainer import SequenceTrainer

        return SequenceTrainer(work, store)
    from gossiprec.compute.executors.full_batch_trainer import FullBatchTrainer

    return FullBatchTrainer(work, store)


def make_central_executor(cast: RunComponents, settings: NodeSettings) -> Executor:
    """Return what trains the coordinator's model, with its first version.

    The users' rows, the items and the shared weights begin as they do in a federation of the same seed.

    Raises
    ------
    ScenarioError
        If an epoch does not fill one batch.
    """
    from gossiprec.compute.executors.central import CentralExecutor  # torch is slow to import

    scenario, model, layout, training = cast.scenario, cast.model, cast.layout, cast.training
    n_samples = int(cast.load.samples[-1]) // training.local_epochs
    if training.batch_size is not None and training.batch_size > n_samples:
        raise ScenarioError(
            f"training.batch_size: found {training.batch_size}, but an epoch has only {n_samples} samples; "
            "lower it, or set it to full"
        )
    arena = SingleModelStore(layout, moments=training.optimizer == "adam")
    arena.rows[0] = model.initial_row(layout, scenario.seed)
    work = ExecutorContext(model, layout, training, cast.feed, arena, scenario.seed, settings)
    return CentralExecutor(work, EXECUTORS[choose_central_executor(scenario)](work, "cpu"))


LOOKS = 100
"""Nodes that the planner looks at in the time of a message."""
ROWS_OF_AN_ANSWER = 4
"""Handles that a client without a model takes in a round: what it was sent, has trained and sends."""


def make_executor(
    cast: RunComponents, settings: NodeSettings, epochs: int, *, divided: bool = False
) -> Executor:
    """Make the arena, and the executor that works on it; most rows are elsewhere if the run is divided among shards."""
    scenario, protocol, model = cast.scenario, cast.protocol, cast.model
    if protocol.sends_updates:
        return make_client_executor(cast, settings, epochs)
    if protocol.holds_all_data:
        return make_central_executor(cast, settings)
    kind = EXECUTORS[choose_executor(scenario, model, cast.training, settings, epochs, cast.layout)]
    arena = kind.make_arena(
        cast.layout,
        n_nodes=protocol.n_nodes,
        moments=cast.training.optimizer == "adam",
        storage=scenario.executor.storage,
        divided=divided,
        device=scenario.executor.device,
    )
    candidates = None
    if protocol.chooses_by_value:
        everyone = add_poisoners(cast.split, cast.n_poisoners)
        candidates = draw_validation_candidates(everyone, protocol.n_nodes, scenario.seed)
    work = ExecutorContext(
        model, cast.layout, cast.training, cast.feed, arena, scenario.seed, settings, candidates
    )
    return kind(work, scenario.executor.device)


def make_planner(
    cast: RunComponents, executor: Executor, schedule: Schedule, meters: list[AttackHook], rows: int
) -> Planner:
    """Return the planner, which knows what each node weighs and costs, with room in the arena for its plans."""
    protocol, training, work = cast.protocol, cast.training, executor.work
    resets = cast.scenario.churn.model == "reset"
    has_inbox = np.zeros(protocol.n_nodes, bool)
    has_inbox[list(cast.receivers)] = True
    pools = [pool for meter in meters for pool in meter.attack.pools]
    pools_of = np.zeros((protocol.n_nodes, len(pools)), bool)
    for number, members in enumerate(pools):
        pools_of[members, number] = True
    samples = cast.load.samples
    per_epoch = samples // training.local_epochs
    steps = training.local_epochs * -(-per_epoch // (training.batch_size or max(int(per_epoch.max()), 1)))
    noise = np.where(work.node_settings.kinds == TrainingMode.PRIVATE, steps * cast.layout.size / 450.0, 0.0)
    looks = 2 * schedule.n_wakes * protocol.n_nodes if cast.server is not None else 0  # where plans end
    planner = Planner(
        roles=protocol.roles,
        behaviours=protocol.behaviours,
        weights=cast.merge_weights,
        most_updates=work.node_settings.most_updates,
        cost=np.asarray(2.0 + samples * cast.model.sample_cost(cast.layout) + noise, np.float64),
        pools_of=pools_of,
        inline=schedule.inline,
        spare_rows=rows,
        expected_messages=schedule.n_messages + looks // LOOKS,
        keeps_first=resets,
        inboxes=has_inbox,
        rewrites=cast.outgoing.rewrites,
        rest=ROWS_OF_AN_ANSWER * cast.waiting if protocol.sends_updates else 0,
    )
    executor.store.grow(planner.capacity)
    return planner


def write_initial_models(cast: RunComponents, executor: Executor, nodes: I64 | None = None) -> None:
    """Write the first versions of all nodes, or of some, where nodes have models; twice where they are kept."""
    protocol, seed, arena = cast.protocol, cast.scenario.seed, executor.work.arena
    if protocol.sends_updates or protocol.holds_all_data:
        return
    n_users, n_nodes = len(cast.feed.positives), protocol.n_nodes
    own = np.arange(n_nodes) if nodes is None else nodes
    coordinates = protocol.has_coordinator and n_users in own
    filled = np.union1d(own, 0) if coordinates else own  # the coordinator begins as the first client
    cast.model.fill_rows(
        arena.rows[:n_users],
        cast.layout,
        seed,
        common_start=protocol.common_start,
        nodes=filled[filled < n_users],
    )
    if coordinates:
        arena.rows[n_users] = arena.rows[0]
    if cast.scenario.churn.model == "reset":
        arena.rows[n_nodes + own] = arena.rows[own]
