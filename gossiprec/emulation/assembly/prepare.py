"""The preparation of a run: from a scenario to all its parts, before the first local update."""

from __future__ import annotations

from collections.abc import Callable
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
from gossiprec.compute.executors import Executor
from gossiprec.compute.inbox_reducer import InboxReducer, ServerRunner
from gossiprec.compute.message_encoder import MessageEncoder, PushRoundCounter
from gossiprec.compute.plan.planner import Planner, PlannerOptions
from gossiprec.compute.shards.row_routing import ShardContext
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.compute.train.local_update import TrainingMode
from gossiprec.data.data_sizes import DataSizes
from gossiprec.data.split import Split
from gossiprec.emulation.assembly.attack_hook import AttackHook
from gossiprec.emulation.assembly.components import RunComponents, make_attacks, note_large_deltas
from gossiprec.emulation.assembly.control_setup import (
    build_and_schedule,
    count_local_epochs,
    make_node_settings,
)
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.emulation.assembly.executor_selection import thread_count
from gossiprec.emulation.assembly.kernel_warmup import Part, compile_kernels, warm_up
from gossiprec.emulation.assembly.poisoners import (
    make_forgeries,
    make_push_rounds,
)
from gossiprec.emulation.assembly.schedule import Schedule
from gossiprec.emulation.assembly.shard_partition import (
    check_attacks_divisible,
    check_divisible,
    has_fixed_neighbours,
    partition_nodes,
)
from gossiprec.emulation.assembly.tape_runner import TapeRunner
from gossiprec.emulation.estimate.memory import (
    MemoryInputs,
    check_memory,
    estimate_memory,
    pictures_bytes,
    process_bytes,
)
from gossiprec.emulation.estimate.run_estimate import (
    EstimateInputs,
    EventCounts,
    check_memory_early,
    executor_of,
    run_sizes,
)
from gossiprec.emulation.progress import NullProgress, Progress, Stopwatch
from gossiprec.federated.base import overrides_method
from gossiprec.models import BlockRole
from gossiprec.native.kernel_cache import KernelNotCachedError, MissingKernelPolicy, missing_kernel_policy
from gossiprec.scenario import Scenario
from gossiprec.scenario.network import Churn, NetworkOptions
from gossiprec.scenario.registries import check_modules

LOOKS = 100
"""Number of nodes that the planner checks in the time that a message takes."""


def make_planner(
    cast: RunComponents, executor: Executor, schedule: Schedule, meters: list[AttackHook], rows: int
) -> Planner:
    """Return the planner with the weight and cost of every node, and reserve rows in the arena for its plans."""
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
    looks = 2 * schedule.n_wakes * protocol.n_nodes if cast.server is not None else 0  # at plan ends
    planner = Planner(
        PlannerOptions(
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
            rest=cast.mode.waiting_handles(cast.waiting),
        )
    )
    executor.store.grow(planner.capacity)
    return planner


@dataclass(frozen=True)
class PreparedRun(RunComponents):
    """A run that is ready to start: its components, its executor and its schedule.

    Attributes
    ----------
    meters : list of Metered
        The attacks, each with a meter of its time.
    schedule : Schedule
        The events of the run, if they are known ahead.
    epochs : int
        Local epochs of the whole run.
    needed : dict of str to int
        Bytes by part.
    seconds : dict of str to float
        Wall time of the preparations, by part.
    deliveries : Deliveries
        The sender and arrival of every message.
    reducing : Reducing
        The aggregation of inboxes.
    encoding : Encoding or None
        The rewriting of pushes by transforms and poisoners, or None if no push is rewritten.
    push_rounds : PushRounds or None
        The counter of the rounds of poisoners' pushes, or None without poisoners.
    serving : Serving or None
        The coordinator's computation, or None without a server.
    seat : Seat or None
        The shard of a divided run that this process is, or None.
    inputs : Inputs
        Fingerprints of the files that were read, by path.
    """

    executor: Executor
    threads: ThreadPool
    planner: Planner
    meters: list[AttackHook]
    schedule: Schedule
    epochs: int
    needed: dict[str, int]
    seconds: dict[str, float]
    deliveries: MessageIndex
    reducing: InboxReducer
    encoding: MessageEncoder | None
    push_rounds: PushRoundCounter | None
    serving: ServerRunner | None
    seat: ShardContext | None
    inputs: Inputs = field(default_factory=dict)

    @property
    def attacks(self) -> list[Attack]:
        """The attacks without their meters."""
        return [meter.attack for meter in self.meters]

    def tape_runner(self, watch: Stopwatch | None = None) -> TapeRunner:
        """Return the tape runner of this run."""
        return TapeRunner(self, watch or Stopwatch())

    @property
    def uneventful(self) -> bool:
        """Whether every message arrives at the moment it is sent, and no node is ever offline or busy."""
        return self.scenario.network == NetworkOptions() and self.scenario.churn == Churn()

    @property
    def invalid_left_out(self) -> bool:
        """Whether every node that reads models discards those that are not finite (``invalid: discard``)."""
        readers = [self.protocol.n_users] if self.protocol.has_coordinator else range(self.split.n_users)
        rules = [self.receivers.get(node) for node in readers]
        return all(rule is not None and rule.invalid == "discard" for rule in rules)

    @property
    def reports_on_users(self) -> bool:
        """Whether the recommender's report depends on all users' rows."""
        return self.recommender is not None and overrides_method(self.recommender, "report")

    @property
    def own_rows(self) -> F32:
        """The user rows that clients without a model keep, shape (n_users, user_width)."""
        store = self.executor.store
        assert isinstance(store, UpdateStore)
        return store.own[: self.split.n_users, : self.layout.user_width]

    def recommender_report(self) -> dict[str, Any]:
        """Return the recommender's report, without the figures of an attack on uploads."""
        if self.recommender is None or not isinstance(self.executor.store, UpdateStore):
            return {}
        data = self.split.training_data()
        return self.recommender.report(data, self.contribution, self.between, self.own_rows)

    def coordinator_tables(self) -> dict[str, npt.NDArray[Any]]:
        """Return the coordinator's items and shared weights by the names of their tables.

        Returns
        -------
        dict of str to ndarray
            ``items``, shape (n_items, width); each shared block in its own shape; ``popularity``, shape (n_items,):
            training interactions of each item.
        """
        store, layout, n_items = self.executor.store, self.layout, self.split.n_items
        coordinator = np.array([self.protocol.n_users], np.int64)
        row = store.models(self.planner.current, coordinator)[0].astype(np.float32)
        found = layout.version_tables(row[layout.items.start : layout.shared.stop])
        return {**found, "popularity": np.bincount(self.split.train.values, minlength=n_items)}

    def sizes(self) -> dict[str, Any]:
        """Return the sizes of the run, for the summary."""
        counts = EventCounts(
            self.schedule.n_wakes, self.schedule.n_messages, self.epochs, self.schedule.virtual_time
        )
        about = run_sizes(self.scenario, DataSizes.of(self.split), self.protocol, counts)
        return {**about, "executor": self.executor.name, "threads": self.threads.size}


def prepare(
    scenario: Scenario,
    progress: Progress | None = None,
    *,
    load: Callable[[Scenario], Split] | None = None,
    kept_kernels: bool = False,
    seat: ShardContext | None = None,
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
    seat : Seat, optional
        The shard of this process, or None if the run is not divided.

    Raises
    ------
    ScenarioError, DataError
        If the scenario does not fit its data.
    ResourceError
        If the run does not fit into memory, its device is missing, or the processor or process cannot give the portable
        results that ``executor.portable`` requires.
    """
    with record_inputs() as inputs:
        prepared = _prepare(scenario, progress or NullProgress(), load, kept_kernels=kept_kernels, seat=seat)
    return replace(prepared, inputs=inputs)


def _prepare(
    scenario: Scenario,
    say: Progress,
    load: Callable[[Scenario], Split] | None,
    *,
    kept_kernels: bool,
    seat: ShardContext | None,
) -> PreparedRun:
    if scenario.executor.portable:
        portable.require()
    if scenario.executor.device == "cuda":
        from gossiprec.compute.executors.batched import choose_device

        choose_device("cuda")
    watch = Stopwatch()
    check_modules(scenario)
    if load is None:
        check_memory_early(scenario)
    say.phase("loading data")
    with watch("load"):
        split = (load or load_data)(scenario)
        if split.source_summary:
            say.phase(f"read {split.source_summary}")
    note_large_deltas(scenario, split, say)
    cast, schedule = build_and_schedule(scenario, split, say, watch)
    say.phase("initialising models")
    with watch("setup"):
        prepared = with_kept_kernels(cast, schedule, watch, seat) if kept_kernels else None
        prepared = prepared or _assembled(cast, schedule, watch, seat)
    with watch("compile"):
        compile_kernels(_kernels_of(prepared), say)
    say.phase("initialising observers")
    with watch("setup"):
        for meter in prepared.meters:
            meter.call(meter.attack.allocate, meter.known(schedule.meetings))
    observers = {"observers": sum(attack.state_bytes for attack in prepared.attacks)}
    check_memory(observers)
    needed = prepared.needed | observers
    return replace(prepared, needed=needed | pictures_bytes(scenario, needed))


def _assembled(
    cast: RunComponents, schedule: Schedule, watch: Stopwatch, seat: ShardContext | None = None
) -> PreparedRun:
    """Build the executor, planner and attacks of a run, if the run fits into memory."""
    if seat is not None:
        check_divisible(cast)
    settings = make_node_settings(cast, schedule.updates)
    epochs = count_local_epochs(cast, schedule, settings)
    extent = MemoryInputs.of(cast, n_wakes=schedule.n_wakes, n_messages=schedule.n_messages)
    counts = EventCounts(schedule.n_wakes, schedule.n_messages, epochs, schedule.virtual_time)
    world = EstimateInputs(extent, counts, cast.model, cast.recommender, settings, hides_user=False)
    needs = estimate_memory(extent)
    needed = process_bytes(extent, executor_of(cast.scenario, world)) | needs.bytes
    check_memory(needed)
    executor = cast.mode.make_executor(cast, settings, epochs, divided=seat is not None)
    store, seed, coordinator = executor.store, cast.scenario.seed, cast.protocol.n_users
    threads = ThreadPool(thread_count(cast.scenario) if executor.parallel else 1)
    store.threads = threads
    if cast.recommender is not None:
        cast.recommender.threads = threads
    deliveries = MessageIndex(schedule.meetings.n_messages)
    deliveries.learn(schedule.meetings)

    def own_models(nodes: I64) -> F32:  # attacks call this during the run, when the planner exists
        if seat is not None:
            seat.bring(nodes)
        return store.models(planner.current, nodes)

    attacks = make_attacks(cast, executor, threads, schedule.meetings, own_models)
    meters = _metered(cast, executor, attacks, deliveries, weighs=schedule.depends_on_values)
    planner = make_planner(cast, executor, schedule, meters, needs.rows)
    if seat is not None:
        check_attacks_divisible(attacks, cast.protocol.n_users)
        pools = [pool for attack in attacks for pool in attack.pools]
        if cast.protocol.has_coordinator:
            pools = [np.array([coordinator])]  # it receives all deliveries of all pools
        known = schedule.meetings if has_fixed_neighbours(cast.scenario) else None
        of = partition_nodes(known, cast.protocol.n_nodes, seat.n, pools)
        seat.take(of, keeps_first=cast.scenario.churn.model == "reset")
    cast.mode.write_first_models(cast, executor, None if seat is None else seat.parts.own)
    receivers, serving = cast.receivers, None
    if cast.server is not None:
        serving = ServerRunner(cast.server, coordinator, store, seed)
        receivers = {**receivers, coordinator: replace(receivers[coordinator], serving=serving)}
    encoding, push_rounds = None, make_push_rounds(cast)
    if cast.outgoing.rewrites.any():
        round_of = None if push_rounds is None else push_rounds.round_of
        encoding = MessageEncoder(cast.outgoing, executor, make_forgeries(cast, executor), round_of)
    return PreparedRun(
        **vars(cast), executor=executor, threads=threads, planner=planner, meters=meters, schedule=schedule,
        epochs=epochs, needed=needed, seconds=watch.seconds, deliveries=deliveries,
        reducing=InboxReducer(receivers, store, seed, deliveries.time), encoding=encoding, push_rounds=push_rounds,
        serving=serving, seat=seat,
    )  # fmt: skip


def _kernels_of(prepared: PreparedRun) -> list[Part]:
    """Return functions that compile all kernels of the run, or load them from the cache."""
    parts = [prepared.executor.warm_up, prepared.planner.warm_up]
    if prepared.recommender is not None:
        parts.append(partial(prepared.recommender.warm_up, prepared.layout))
    return parts + [meter.attack.warm_up for meter in prepared.meters]


def with_kept_kernels(
    cast: RunComponents, schedule: Schedule, watch: Stopwatch, seat: ShardContext | None = None
) -> PreparedRun | None:
    """Return a short run on compiled kernels, or None if a kernel is missing in the cache.

    The run's scenario names the executor, so that all shards of a divided run use the same one.
    """
    long = schedule.n_updates * cast.training.local_epochs >= cast.mode.few_epochs
    if long or cast.scenario.executor.computes != "auto" or not cast.mode.takes_cached_kernels:
        return None
    key = "inner" if cast.scenario.executor.name == "ray" else "name"
    executor = cast.scenario.executor.model_copy(update={key: "fused"})
    try:
        with missing_kernel_policy(MissingKernelPolicy.REFUSE):
            prepared = _assembled(
                replace(cast, scenario=cast.scenario.with_(executor=executor)), schedule, watch, seat
            )
            warm_up(_kernels_of(prepared))
    except (KernelNotCachedError, ScenarioError):
        return None
    return prepared


def _metered(
    cast: RunComponents, executor: Executor, attacks: list[Attack], deliveries: MessageIndex, *, weighs: bool
) -> list[AttackHook]:
    """Return the attacks, each with a meter that shows it the deliveries to its own nodes."""
    coordinator = cast.protocol.n_users
    single = next((attack.label for attack in attacks if (attack.nodes != coordinator).any()), None)
    if single is not None:
        cast.mode.check_node_observer(single)
    meters: list[AttackHook] = []
    first_pool, hides = 0, cast.outgoing.hides(BlockRole.USER)
    weigh = executor.with_resolved_weights if weighs else None
    for attack in attacks:
        meters.append(AttackHook(attack, cast.layout, hides, deliveries, first_pool, weigh))
        first_pool += len(attack.pools)
    return meters
