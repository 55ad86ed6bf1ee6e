"""The preparation of a run: from a scenario to all its parts, before the first local update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.adversaries.attacks import Attack
from gossiprec.adversaries.attacks.observations import MessageIndex
from gossiprec.base import portable
from gossiprec.base.arrays import F32, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.inputs import Inputs, record_inputs
from gossiprec.base.machine import ThreadPool
from gossiprec.base.registry import registry_name
from gossiprec.compute.executors import EXECUTORS, Executor
from gossiprec.compute.inbox_reducer import InboxReducer, ReceiverConfig, ServerRunner
from gossiprec.compute.local_update import TrainingMode
from gossiprec.compute.message_encoder import MessageEncoder, PushLog
from gossiprec.compute.message_sizes import MessageSizes
from gossiprec.compute.messages import Forgery, OutgoingTransforms
from gossiprec.compute.plan.planner import Planner, PlannerOptions
from gossiprec.compute.plan.program import EACH, IN_ORDER, SUMS
from gossiprec.compute.store import Store
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.data.split import Split
from gossiprec.emulation.assembly.attack_hook import AdversaryHook, AttackHook
from gossiprec.emulation.assembly.attacks import make_attacks, make_hooks
from gossiprec.emulation.assembly.carrier import PLAIN, Carrier
from gossiprec.emulation.assembly.components import RunComponents, note_large_deltas
from gossiprec.emulation.assembly.data_loading import DataSizes, load_data
from gossiprec.emulation.assembly.kernel_warmup import Part, compile_kernels, warm_up
from gossiprec.emulation.assembly.memory import check_memory, estimate_memory, figure_bytes, process_bytes
from gossiprec.emulation.assembly.message_scheme import MessageScheme
from gossiprec.emulation.assembly.run_size import EventCounts, check_memory_early, run_sizes
from gossiprec.emulation.assembly.schedule import (
    Schedule,
    build_and_schedule,
    scheduled_inputs,
)
from gossiprec.emulation.assembly.tape_runner import TapeRunner
from gossiprec.emulation.progress import NullProgress, Progress, Stopwatch
from gossiprec.native.kernel_cache import KernelNotCachedError, MissingKernelPolicy, missing_kernel_policy
from gossiprec.scenario import Scenario
from gossiprec.scenario.registries import check_modules

SCANS_PER_MESSAGE = 100
"""Number of nodes that the planner checks in the time that a message takes."""


def make_planner(
    components: RunComponents, executor: Executor, schedule: Schedule, meters: list[AttackHook], rows: int
) -> Planner:
    """Return the planner with the weight and cost of every node, and reserve rows in the arena for its plans."""
    protocol, training, layout = components.protocol, components.training, components.layout
    settings = executor.work.node_settings
    pools = [pool for meter in meters for pool in meter.pools]
    pools_of = np.zeros((protocol.n_nodes, len(pools)), bool)
    for number, members in enumerate(pools):
        pools_of[members, number] = True
    samples = components.node_load.samples
    per_epoch = samples // training.local_epochs
    steps = training.local_epochs * -(-per_epoch // (training.batch_size or max(int(per_epoch.max()), 1)))
    noise = np.where(settings.training_modes == TrainingMode.PRIVATE, steps * layout.size / 450.0, 0.0)
    at_ends = 2 * schedule.n_wakes * protocol.n_nodes  # of plans
    scans = 0 if components.coordination.server is None else at_ends
    # A rewritten message has a row of its own. Reused at once, the next push waits until its receiver has merged it,
    # and so on: nearly nothing runs at the same time.
    waiting = components.mode.waiting_handles(components.inboxes.capacity)
    planner = Planner(
        PlannerOptions(
            roles=protocol.roles,
            behaviours=protocol.role_behaviours,
            weights=components.merge_weights,
            most_updates=settings.most_updates,
            cost=np.asarray(2.0 + samples * components.model.sample_cost(layout) + noise, np.float64),
            pools_of=pools_of,
            inline=schedule.deliveries_implied,
            spare_rows=rows,
            expected_messages=schedule.n_messages + scans // SCANS_PER_MESSAGE,
            keeps_first=components.scenario.churn.model == "reset",
            inboxes=components.has_inbox,
            rewrites=_rewriting_codes(components.outgoing),
            names_senders=bool(components.outgoing.nodes_with("is_partial").any()),
            rest=int(np.count_nonzero(components.outgoing.writes_rows)) // 2 + waiting,
        )
    )
    executor.store.grow(planner.capacity)
    return planner


def _rewriting_codes(outgoing: OutgoingTransforms) -> I64:
    """Return for each node whether its pushes are rewritten, and how, as the planner numbers it."""
    each, sums = outgoing.nodes_with("per_receiver"), outgoing.nodes_with("sums_updates")
    codes = outgoing.writes_rows + IN_ORDER * outgoing.in_order + EACH * each + SUMS * sums
    return np.asarray(codes, np.int64)


@dataclass(frozen=True)
class Seams:
    """What changes values in a run, apart from the carrier of versions.

    Attributes
    ----------
    reducer : InboxReducer
        Makes one version of what a node received.
    serving : ServerRunner or None
        The coordinator's computation, or None without a server.
    encoders : tuple of MessageEncoder
        The rewriting of pushes by policy, poisoner and adversary, in this order; empty if none is rewritten.
    sizes : MessageSizes
    schemes : list of MessageScheme
    """

    reducer: InboxReducer
    serving: ServerRunner | None
    encoders: tuple[MessageEncoder, ...]
    sizes: MessageSizes
    schemes: list[MessageScheme]


@dataclass(frozen=True)
class PreparedRun:
    """A run before its start: its components, its executor and its schedule.

    Attributes
    ----------
    components : RunComponents
    meters : list of AttackHook
        The attacks, each with a meter of its time.
    schedule : Schedule
        The events of the run, if they are known ahead.
    counts : EventCounts
    memory_bytes : dict of str to int
        Bytes by part.
    seconds : dict of str to float
        Wall time of the preparations, by part.
    deliveries : MessageIndex
        The sender and arrival of every message.
    seams : Seams
    carrier : Carrier
        The carrier of versions.
    inputs : Inputs
        Fingerprints of the files that were read, by path.
    """

    components: RunComponents
    executor: Executor
    threads: ThreadPool
    planner: Planner
    meters: list[AttackHook]
    schedule: Schedule
    counts: EventCounts
    memory_bytes: dict[str, int]
    seconds: dict[str, float]
    deliveries: MessageIndex
    seams: Seams
    carrier: Carrier
    inputs: Inputs = field(default_factory=dict)

    @property
    def attacks(self) -> list[Attack]:
        """The attacks without their meters."""
        return [meter.attack for meter in self.meters]

    @property
    def stateful(self) -> dict[str, Any]:
        """What changes while events are carried out and has a state for checkpoints, by name."""
        found: dict[str, Any] = {
            "planner": self.planner,
            "reducing": self.seams.reducer,
            "serving": self.seams.serving,
            **{f"encoder{n}": encoder for n, encoder in enumerate(self.seams.encoders)},
            **{registry_name(scheme): scheme for scheme in self.seams.schemes},
        }
        return {name: part for name, part in found.items() if part is not None}

    @property
    def ranking_meters(self) -> list[AttackHook]:
        """The meters of which the rankings are scored: all but those of further virtual nodes."""
        others = {id(other) for meter in self.meters for other in meter.others}
        return [meter for meter in self.meters if id(meter) not in others]

    def tape_runner(self, stopwatch: Stopwatch | None = None) -> TapeRunner:
        """Return the tape runner of this run."""
        return TapeRunner(self, stopwatch or Stopwatch())

    @property
    def discards_invalid_models(self) -> bool:
        """Whether every node that reads models discards those that are not finite (``invalid: discard``)."""
        protocol = self.components.protocol
        readers = [protocol.n_users] if protocol.has_coordinator else range(self.components.split.n_users)
        rules = [self.components.inboxes.receivers.get(node) for node in readers]
        return all(rule is not None and rule.invalid == "discard" for rule in rules)

    @property
    def control_kinds(self) -> list[str]:
        """The kinds of messages without a model that the log has, those of schemes last."""
        own = [*self.components.protocol.control_messages]
        return own + [kind for scheme in self.seams.schemes for kind in scheme.control_kinds]

    @property
    def own_rows(self) -> F32:
        """The user rows that clients without a model keep, shape (n_users, user_width)."""
        store = self.executor.store
        assert isinstance(store, UpdateStore)
        return store.own[: self.components.split.n_users, : self.components.layout.user_width]

    def recommender_report(self) -> dict[str, Any]:
        """Return the recommender's report, without the figures of an attack on uploads."""
        coordination = self.components.coordination
        recommender = coordination.recommender
        if recommender is None or not isinstance(self.executor.store, UpdateStore):
            return {}
        data = self.components.split.training_data()
        return recommender.report(data, coordination.contribution, coordination.hook, self.own_rows)

    def coordinator_tables(self) -> dict[str, npt.NDArray[Any]]:
        """Return the coordinator's items and shared weights by the names of their tables.

        Returns
        -------
        dict of str to ndarray
            ``items``, shape (n_items, width); each shared block in its own shape; ``popularity``, shape (n_items,):
            training interactions of each item.
        """
        store, layout, n_items = self.executor.store, self.components.layout, self.components.split.n_items
        coordinator = np.array([self.components.protocol.n_users], np.int64)
        row = store.models(self.planner.current_rows, coordinator)[0].astype(np.float32)
        found = layout.version_tables(row[layout.items.start : layout.shared.stop])
        return {**found, "popularity": np.bincount(self.components.split.train.values, minlength=n_items)}

    def sizes(self) -> dict[str, Any]:
        """Return the sizes of the run, for the summary."""
        components = self.components
        data = DataSizes.of(components.split)
        sizes = run_sizes(components.scenario, data, components.protocol, self.counts)
        return {**sizes, "executor": self.executor.name, "threads": self.threads.size}


def prepare(
    scenario: Scenario,
    progress: Progress | None = None,
    *,
    load: Callable[[Scenario], Split] | None = None,
    kept_kernels: bool = False,
    carrier: Carrier = PLAIN,
) -> PreparedRun:
    """Load the data, build all parts and run the control plane ahead.

    Parameters
    ----------
    scenario : Scenario
    progress : Progress, optional
        Receives progress messages.
    load : callable, optional
        Loads the data in place of :func:`load_data`.
    kept_kernels : bool
        Let ``executor: auto`` use cached kernels even for a run too short to be worth compiling for; its scenario then
        names them.
    carrier : Carrier
        The carrier of versions; by default all are computed here.

    Raises
    ------
    ScenarioError, DataError
        If the scenario does not fit its data.
    ResourceError
        If the run does not fit into memory, its device is missing, or the processor or process cannot give the portable
        results that ``executor.portable`` requires.
    """
    progress, stopwatch = progress or NullProgress(), Stopwatch()
    with record_inputs() as inputs:
        split = _load_split(scenario, progress, load, stopwatch)
        components, schedule = build_and_schedule(scenario, split, progress, stopwatch)
        progress.phase("initialising models")
        with stopwatch("setup"):
            parts = components, schedule, stopwatch, carrier
            cached = prepare_with_cached_kernels(*parts) if kept_kernels else None
            prepared = cached or _assemble(*parts)
            _note_missing_kernels(prepared, progress)
        with stopwatch("compile"):
            compile_kernels(_kernels_of(prepared), progress)
        progress.phase("initialising observers")
        with stopwatch("setup"):
            for meter in prepared.meters:
                meter.timed_call(meter.attack.allocate, meter.deliveries_to_own_nodes(schedule.deliveries))
    observers = {"observers": sum(attack.state_bytes for attack in prepared.attacks)}
    check_memory(observers)
    needed = prepared.memory_bytes | observers
    return replace(prepared, inputs=inputs, memory_bytes=needed | figure_bytes(scenario, needed))


def _load_split(
    scenario: Scenario, progress: Progress, load: Callable[[Scenario], Split] | None, stopwatch: Stopwatch
) -> Split:
    """Return the data of a run, after checks of the machine that need no data."""
    if scenario.executor.portable:
        portable.require_portable()
    if scenario.executor.device == "cuda":
        from gossiprec.compute.executors.batched import choose_device

        choose_device("cuda")
    check_modules(scenario)
    if load is None:
        check_memory_early(scenario)
    progress.phase("loading data")
    with stopwatch("load"):
        split = (load or load_data)(scenario)
        if split.source_summary:
            progress.phase(f"read {split.source_summary}")
    note_large_deltas(scenario, split, progress)
    return split


def _note_missing_kernels(prepared: PreparedRun, progress: Progress) -> None:
    """Note what keeps a model that has kernels from running compiled."""
    components, work = prepared.components, prepared.executor.work
    options, mode = components.scenario.executor, components.mode
    is_free = options.computing_executor == "auto" and options.device != "cuda" and mode.nodes_hold_models
    if not is_free or prepared.executor.name != "batched" or work.model.kernels() is None:
        return
    storage, settings = work.arena.rows.dtype.name, work.node_settings
    missing = EXECUTORS["fused"].missing_feature(work.model, work.training, storage, settings, work.layout)
    if missing is not None:
        progress.note(
            f"executor: there are no kernels for {missing}; the run takes 'batched', which is 10 to 40 times as slow"
        )


def _assemble(
    components: RunComponents, schedule: Schedule, stopwatch: Stopwatch, carrier: Carrier = PLAIN
) -> PreparedRun:
    """Build the executor, planner and attacks of a run, if the run fits into memory."""
    carrier.check(components, schedule)
    inputs = scheduled_inputs(components, schedule)
    estimate = estimate_memory(inputs.extent)
    needed = process_bytes(inputs.extent, inputs.training_executor) | estimate.bytes
    check_memory(needed)
    executor = components.mode.make_executor(components, inputs.outline, divided=carrier.is_divided)
    store, seed = executor.store, components.scenario.seed
    threads = ThreadPool(components.scenario.executor.thread_count() if executor.parallel else 1)
    store.threads = threads
    if components.coordination.recommender is not None:
        components.coordination.recommender.threads = threads
    deliveries = MessageIndex(schedule.deliveries.n_messages)
    deliveries.note_deliveries(schedule.deliveries)

    def models_of_nodes(nodes: I64) -> F32:  # attacks call this during the run, when the planner exists
        carrier.bring(nodes)
        return store.models(planner.current_rows, nodes)

    schemes = [scheme(components, executor, schedule) for scheme in components.schemes]
    pieces = [piece for scheme in schemes for piece in scheme.pieces]
    attacks = make_attacks(components, executor, threads, schedule.deliveries, models_of_nodes, pieces)
    weigh = executor.with_resolved_weights if schedule.depends_on_values else None
    views = next((found for scheme in schemes if (found := scheme.views(attacks))), None)
    meters = make_hooks(components, attacks, deliveries, weigh, views, pieces)
    for scheme in schemes:
        scheme.hide(meters)
    planner = make_planner(components, executor, schedule, meters, estimate.rows)
    own_nodes = carrier.divide(components, attacks, schedule.deliveries)
    components.mode.write_first_models(components, executor, own_nodes)
    components.give_root_data(executor)
    receivers, serving = _coordinate(components, store)
    for scheme in schemes:
        receivers = scheme.receivers(receivers)
    message_bytes, extra = components.node_load.message_bytes, components.outgoing.extra_bytes
    control_bytes = [*components.protocol.control_messages.values()]
    sizes = MessageSizes(message_bytes, extra, control_bytes, executor.update_bytes, schemes)
    packed = sum((scheme.packed for scheme in schemes), np.zeros(components.protocol.n_nodes, np.int64))
    encoders = _make_encoders(components, executor, sizes, meters, packed)
    reducer = InboxReducer(receivers, store, seed, deliveries.time)
    return PreparedRun(
        components, executor, threads, planner, meters, schedule, inputs.counts, needed, stopwatch.seconds, deliveries,
        Seams(reducer, serving, encoders, sizes, schemes), carrier,
    )  # fmt: skip


def _coordinate(
    components: RunComponents, store: Store
) -> tuple[dict[int, ReceiverConfig], ServerRunner | None]:
    """Return how each node reduces what it received by its rule, with the server of a coordinator."""
    receivers, coordinator = components.inboxes.receivers, components.protocol.n_users
    if components.coordination.server is None:
        return receivers, None
    serving = ServerRunner(components.coordination.server, coordinator, store, components.scenario.seed)
    return {**receivers, coordinator: replace(receivers[coordinator], serving=serving)}, serving


def _make_push_log(components: RunComponents) -> PushLog | None:
    """Return the log of the pushes that are rewritten or forged, or None if there are none.

    Nothing is logged of pushes of which the messages have a fixed size.
    """
    outgoing, protocol = components.outgoing, components.protocol
    nodes = outgoing.writes_rows
    if not nodes.any():
        return None
    if not components.mode.sizes_follow_training:
        nodes = nodes & ~outgoing.fixed_sizes
    coordinator = protocol.n_users if protocol.has_coordinator else None
    return PushLog(nodes, protocol.roles, protocol.role_behaviours, coordinator, protocol.wakes_per_round)


def _make_encoders(
    components: RunComponents,
    executor: Executor,
    sizes: MessageSizes,
    meters: Sequence[AttackHook],
    packed: I64,
) -> tuple[MessageEncoder, ...]:
    """Return the encoder of messages that are rewritten, with the forgeries of adversaries; none if none is."""
    pushes = _make_push_log(components)
    if pushes is None:
        return ()
    own = [meter for meter in meters if isinstance(meter, AdversaryHook)]
    answers = {node: meter.answer for meter in own for node in meter.attack.nodes.tolist()}
    forgeries: dict[int, Forgery] = {}
    if components.attackers:
        from gossiprec.emulation.assembly.poisoners import make_forgeries

        forgeries = make_forgeries(components, executor)
    return (MessageEncoder(components.outgoing, executor, pushes, sizes, forgeries, answers, packed),)


def _kernels_of(prepared: PreparedRun) -> list[Part]:
    """Return functions that compile all kernels of the run, or load them from the cache."""
    parts, components = [prepared.executor.warm_up, prepared.planner.warm_up], prepared.components
    if components.coordination.recommender is not None:
        parts.append(partial(components.coordination.recommender.warm_up, components.layout))
    return parts + [meter.attack.warm_up for meter in prepared.meters]


def prepare_with_cached_kernels(
    components: RunComponents, schedule: Schedule, stopwatch: Stopwatch, carrier: Carrier = PLAIN
) -> PreparedRun | None:
    """Return a short run on compiled kernels, or None if a kernel is missing in the cache.

    The run's scenario names the executor, so that all shards of a divided run use the same one.
    """
    scenario, mode = components.scenario, components.mode
    is_long = schedule.n_updates * components.training.local_epochs >= mode.few_epochs
    if is_long or scenario.executor.computing_executor != "auto" or not mode.takes_cached_kernels:
        return None
    key = "inner" if scenario.executor.name == "ray" else "name"
    executor = scenario.executor.model_copy(update={key: "fused"})
    components = replace(components, scenario=scenario.with_(executor=executor))
    try:
        with missing_kernel_policy(MissingKernelPolicy.REFUSE):
            prepared = _assemble(components, schedule, stopwatch, carrier)
            warm_up(_kernels_of(prepared))
    except (KernelNotCachedError, ScenarioError):
        return None
    return prepared
