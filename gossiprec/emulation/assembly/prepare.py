"""From a scenario to everything a run needs, before the first local update."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gossiprec.arrays import F32, I64
from gossiprec.attacks import Attack
from gossiprec.attacks.observations import Deliveries
from gossiprec.compute.encoding import Encoding
from gossiprec.compute.executors import Executor
from gossiprec.compute.plan.planner import Planner
from gossiprec.compute.push_rounds import PushRounds
from gossiprec.compute.reducing import Reducing
from gossiprec.compute.serving import Serving
from gossiprec.compute.store.updates import UpdateStore
from gossiprec.compute.thread_pool import ThreadPool
from gossiprec.data import load_split
from gossiprec.data.split import Split
from gossiprec.emulation.assembly import machinery
from gossiprec.emulation.assembly.attackers import (
    count_poisoners,
    make_forgeries,
    make_push_rounds,
    with_poisoners,
)
from gossiprec.emulation.assembly.availability import make_availability
from gossiprec.emulation.assembly.client_messages import refused
from gossiprec.emulation.assembly.conditions import make_conditions
from gossiprec.emulation.assembly.memory import check_events_fit, check_fits
from gossiprec.emulation.assembly.participants import Cast, make_attacks, make_cast
from gossiprec.emulation.run.metering import Metered
from gossiprec.emulation.run.progress import Progress, Silent, Stopwatch
from gossiprec.emulation.run.schedule import Foreseen, Schedule, Unforeseen
from gossiprec.emulation.run.tape_runner import TapeRunner
from gossiprec.errors import ScenarioError
from gossiprec.models import Role
from gossiprec.numerics.jit import NotKeptError, only_kept
from gossiprec.overlay.profiles import Profiles
from gossiprec.protocols import PROTOCOLS, Protocol
from gossiprec.scenario import Scenario, check_activity_groups, check_sizes, check_validation
from gossiprec.scenario.churn import Churn
from gossiprec.scenario.network import Network
from gossiprec.sim.availability import Availability


@dataclass(frozen=True)
class Prepared(Cast):
    """A run that could start now: who takes part, what computes, and what will happen.

    Attributes
    ----------
    meters : list of Metered
        The attacks, each with a meter of its cost.
    schedule : Schedule
        What will happen, as far as it can be known.
    epochs : int
        Local epochs of the whole run.
    needed : dict of str to int
        Bytes by part.
    seconds : dict of str to float
        Wall time of the preparations, by part.
    deliveries : Deliveries
        Who sent what, and when it arrived.
    reducing : Reducing
        What aggregators make of inboxes.
    encoding : Encoding or None
        What transforms and poisoners make of pushes, if any rewrites them.
    push_rounds : PushRounds or None
        Counts the rounds of poisoners' pushes, if there are any.
    serving : Serving or None
        What the coordinator computes, if it has a server.
    """

    executor: Executor
    threads: ThreadPool
    planner: Planner
    meters: list[Metered]
    schedule: Schedule
    epochs: int
    needed: dict[str, int]
    seconds: dict[str, float]
    deliveries: Deliveries
    reducing: Reducing
    encoding: Encoding | None
    push_rounds: PushRounds | None
    serving: Serving | None

    @property
    def attacks(self) -> list[Attack]:
        """The attacks without their meters."""
        return [meter.attack for meter in self.meters]

    def tape_runner(self, watch: Stopwatch | None = None) -> TapeRunner:
        """Return what carries out the tape."""
        return TapeRunner(self, watch or Stopwatch())

    @property
    def uneventful(self) -> bool:
        """Whether every message arrives the moment it is sent, and nobody is ever away or busy."""
        return self.scenario.network == Network() and self.scenario.churn == Churn()

    def recommender_report(self) -> dict[str, Any]:
        """Return what the recommender says of the run."""
        store = self.executor.store
        if self.recommender is None or not isinstance(store, UpdateStore):
            return {}
        own = store.own[: self.split.n_users, : self.layout.user_width]
        return self.recommender.report(self.split, self.contribution, self.between, own)

    def sizes(self) -> dict[str, Any]:
        """Return what the run is about, in numbers: for ``--dry-run`` and the summary."""
        split = self.split
        return {
            "scenario": self.scenario.name,
            "seed": self.scenario.seed,
            "dataset": split.name,
            "nodes": split.n_users,
            **({"poisoners": self.n_poisoners} if self.attackers else {}),
            **({"coordinator": self.protocol.n_users} if self.protocol.has_coordinator else {}),
            "items": split.n_items,
            "interactions": sum(
                int(part.sizes.sum()) for part in (split.train, split.validation, split.test)
            ),
            "wakes": self.schedule.n_wakes,
            "messages": self.schedule.n_messages,
            "node_updates": self.epochs,
            "virtual_time": self.schedule.virtual_time,
            "executor": self.executor.name,
            "threads": self.threads.size,
        }


def prepare(
    scenario: Scenario,
    progress: Progress | None = None,
    *,
    load: Callable[[Scenario], Split] | None = None,
    kept_kernels: bool = False,
    compiled: bool = True,
) -> Prepared:
    """Load the data, set everything up and run the control plane ahead.

    Parameters
    ----------
    scenario : Scenario
    progress : Progress, optional
        Is told what happens.
    load : callable, optional
        Gives the data, as :func:`load_data` would.
    kept_kernels : bool
        ``executor: auto`` also takes compiled kernels for a run so short that compiling would not pay, if earlier runs
        have compiled all that it needs; its scenario then names them.
    compiled : bool
        Whether kernels are compiled now; to foresee a run nothing is computed.

    Raises
    ------
    ScenarioError, DataError
        If the scenario does not fit its data.
    ResourceError
        If the run cannot fit into memory.
    """
    say, watch = progress or Silent(), Stopwatch()
    say.phase("loading data")
    with watch("load"):
        split = (load or load_data)(scenario)
        if split.understood:
            say.phase(f"read {split.understood}")
        check_sizes(scenario, split.n_users, split.n_items)
        check_validation(scenario, len(split.validation.values))
        check_activity_groups(scenario, int((split.test.sizes > 0).sum()))
        protocol = make_protocol(scenario, split)
    check_events_fit(len(protocol.clock.node_ids) * protocol.wakes, protocol.messages_per_wake or 1)
    with watch("control"):
        protocol = make_protocol(
            scenario, split, make_availability(scenario, protocol, say.phase, split.n_users)
        )
    with watch("setup"):
        cast = make_cast(scenario, split, protocol)
    with watch("compile"):
        conditions = make_conditions(scenario, protocol, cast.load)
    say.phase("running events ahead")
    with watch("control"):
        kind = Unforeseen if protocol.chooses_by_value else Foreseen
        schedule = kind(scenario, protocol, cast.load, conditions)
    with watch("setup"):
        prepared = _with_kept_kernels(cast, schedule, watch) if kept_kernels else None
        prepared = prepared or _assembled(cast, schedule, watch)
    if compiled:
        with watch("compile"):
            _compile(prepared, say)
    say.phase("setting up observers")
    with watch("setup"):
        for meter in prepared.meters:
            meter.call(meter.attack.foresee, meter.known(schedule.meetings))
    observers = {"observers": sum(attack.state_bytes for attack in prepared.attacks)}
    check_fits(observers)
    return replace(prepared, needed=prepared.needed | observers)


def _assembled(cast: Cast, schedule: Schedule, watch: Stopwatch) -> Prepared:
    """Make what computes, if it fits."""
    settings = machinery.settings_of(cast, schedule.updates)
    updates = schedule.n_updates
    if schedule.updates is not None:
        updates = int(np.minimum(schedule.updates, settings.most_updates).sum())
    epochs, needs = cast.training.local_epochs * updates, machinery.needs_of(cast)
    check_fits(needs.bytes)
    executor = machinery.make_executor(cast, settings, epochs)
    store, seed, coordinator = executor.store, cast.scenario.seed, cast.protocol.n_users
    threads = ThreadPool(machinery.thread_count(cast.scenario) if executor.parallel else 1)
    store.threads = threads
    deliveries = Deliveries(schedule.meetings.n_messages)
    deliveries.learn(schedule.meetings)

    def own_models(nodes: I64) -> F32:  # attacks ask during the run, when there is a planner
        return store.models(planner.current, nodes)

    attacks = make_attacks(cast, executor, threads, schedule.meetings, own_models)
    meters = _metered(cast, executor, attacks, deliveries)
    planner = machinery.make_planner(cast, executor, schedule, meters, needs.rows)
    receivers, serving = cast.receivers, None
    if cast.server is not None:
        serving = Serving(cast.server, coordinator, store, seed)
        receivers = {**receivers, coordinator: replace(receivers[coordinator], serving=serving)}
    encoding, push_rounds = None, make_push_rounds(cast)
    if cast.outgoing.rewrites.any():
        round_of = None if push_rounds is None else push_rounds.round_of
        encoding = Encoding(cast.outgoing, executor, make_forgeries(cast, executor), round_of)
    return Prepared(
        **vars(cast), executor=executor, threads=threads, planner=planner, meters=meters, schedule=schedule,
        epochs=epochs, needed=needs.bytes, seconds=watch.seconds, deliveries=deliveries,
        reducing=Reducing(receivers, store, seed, deliveries.time), encoding=encoding, push_rounds=push_rounds,
        serving=serving,
    )  # fmt: skip


def _compile(prepared: Prepared, say: Progress) -> None:
    """Compile what the run will call, and say so if that takes more than loading what an earlier one has left."""
    try:
        with only_kept():
            _warm_up(prepared)
    except NotKeptError:
        say.phase("compiling kernels (once on a machine)")
        _warm_up(prepared)


def _warm_up(prepared: Prepared) -> None:
    """Compile all that the run will call, or load what an earlier one has compiled."""
    prepared.executor.warm_up()
    prepared.planner.warm_up()
    for meter in prepared.meters:
        meter.attack.warm_up()


def _with_kept_kernels(cast: Cast, schedule: Schedule, watch: Stopwatch) -> Prepared | None:
    """Return a run too short to compile for on compiled kernels; None if one of them would have to be compiled."""
    long = schedule.n_updates * cast.training.local_epochs >= machinery.FEW_EPOCHS
    if long or cast.scenario.executor.name != "auto" or cast.protocol.holds_all_data:
        return None
    executor = cast.scenario.executor.model_copy(update={"name": "fused"})
    try:
        with only_kept():
            prepared = _assembled(
                replace(cast, scenario=cast.scenario.with_(executor=executor)), schedule, watch
            )
            _warm_up(prepared)
    except (NotKeptError, ScenarioError):
        return None
    return prepared


def _metered(cast: Cast, executor: Executor, attacks: list[Attack], deliveries: Deliveries) -> list[Metered]:
    """Return the attacks, each with a meter that shows it what its own nodes receive."""
    coordinator = cast.protocol.n_users
    single = next((attack.label for attack in attacks if (attack.nodes != coordinator).any()), None)
    if cast.protocol.sends_updates and single is not None:
        raise refused(
            f"observers: {single} looks at what single clients receive, but these hold no model and are sent the "
            "coordinator's alone; take cda or entropy-mia with who: coordinator, or aia"
        )
    meters: list[Metered] = []
    first_pool, hides = 0, cast.outgoing.hides(Role.USER)
    weigh = executor.weighed if cast.protocol.chooses_by_value else None
    for attack in attacks:
        meters.append(Metered(attack, cast.layout, hides, deliveries, first_pool, weigh))
        first_pool += len(attack.pools)
    return meters


def make_protocol(scenario: Scenario, split: Split, availability: Availability | None = None) -> Protocol:
    """Return the scenario's protocol over users and poisoners; without an availability nodes are always online."""
    choice, seed = scenario.protocol, scenario.seed
    everyone = with_poisoners(split, count_poisoners(scenario, split.n_users))
    return PROTOCOLS[choice.name](
        choice.options,
        n_users=everyone.n_users,
        seed=seed,
        availability=availability,
        profiles=Profiles.of(everyone),
    )


def load_data(scenario: Scenario) -> Split:
    """Return the scenario's data, divided.

    Raises
    ------
    DataError
        If they are missing or damaged.
    """
    choice = scenario.dataset
    return load_split(
        choice.name,
        choice.options,
        choice.split.name,
        choice.split.options,
        scenario.seed,
        limit_users=choice.limit_users,
    )
