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
from gossiprec.compute.messages import Outgoing
from gossiprec.compute.plan.planner import Planner
from gossiprec.compute.reducing import Receiver, Reducing
from gossiprec.compute.serving import Serving
from gossiprec.compute.thread_pool import ThreadPool
from gossiprec.compute.train.local_update import TrainingSettings
from gossiprec.compute.train.performance_merge import draw_candidates
from gossiprec.compute.waves import WaveRunner
from gossiprec.data import load_split
from gossiprec.data.split import Split
from gossiprec.emulation.assembly.availability import make_availability
from gossiprec.emulation.assembly.conditions import Load, make_conditions
from gossiprec.emulation.assembly.machinery import (
    make_executor,
    make_planner,
    needed_bytes,
    spare_rows,
    thread_count,
    training_settings,
)
from gossiprec.emulation.assembly.memory import check_events_fit, check_fits
from gossiprec.emulation.assembly.participants import (
    configure,
    make_attacks,
    make_load,
    make_outgoing,
    make_policies,
    make_receivers,
)
from gossiprec.emulation.run.metering import Metered
from gossiprec.emulation.run.progress import Progress, Silent, Stopwatch
from gossiprec.emulation.run.schedule import Foreseen, Schedule, Unforeseen
from gossiprec.emulation.run.tape_runner import TapeRunner
from gossiprec.feeds import Feed
from gossiprec.models import MODELS, Layout, Model, Role
from gossiprec.overlay.profiles import Profiles
from gossiprec.policies import Policy
from gossiprec.protocols import PROTOCOLS, Protocol
from gossiprec.scenario import Scenario, check_sizes
from gossiprec.scenario.churn import Churn
from gossiprec.scenario.network import Network
from gossiprec.servers import Server


@dataclass(frozen=True)
class Prepared:
    """A run that could start now.

    Attributes
    ----------
    schedule : Schedule
        What will happen, as far as it can be known.
    epochs : int
        Local epochs of the whole run.
    needed : dict of str to int
        Bytes by part.
    seconds : dict of str to float
        Wall time of the preparations, by part.
    meters : list of Metered
        The attacks again, each with a meter of its cost.
    load : Load
        What every node sends and trains on.
    deliveries : Deliveries
        Who sent what, and when it arrived.
    reducing : Reducing
        What aggregators make of inboxes.
    encoding : Encoding or None
        What transforms make of pushes, if any rewrites them.
    serving : Serving or None
        What the coordinator computes, if it has a server.
    """

    scenario: Scenario
    split: Split
    protocol: Protocol
    executor: Executor
    threads: ThreadPool
    planner: Planner
    attacks: list[Attack]
    meters: list[Metered]
    policies: list[Policy]
    schedule: Schedule
    epochs: int
    needed: dict[str, int]
    seconds: dict[str, float]
    load: Load
    deliveries: Deliveries
    reducing: Reducing
    encoding: Encoding | None
    serving: Serving | None

    def tape_runner(self, watch: Stopwatch | None = None) -> TapeRunner:
        """Return what carries out the tape."""
        wave_size = self.scenario.executor.wave_size
        runner = WaveRunner(
            self.executor,
            self.meters,
            threads=self.threads,
            wave_size=None if wave_size == "unlimited" else wave_size,
            steps=[
                *([self.reducing] if self.reducing.any else []),
                *([self.encoding] if self.encoding else []),
            ],
        )
        return TapeRunner(
            schedule=self.schedule, protocol=self.protocol, planner=self.planner, executor=self.executor,
            deliveries=self.deliveries, meters=self.meters, runner=runner, watch=watch or Stopwatch(),
            serving=self.serving,
        )  # fmt: skip

    @property
    def uneventful(self) -> bool:
        """Whether every message arrives the moment it is sent, and nobody is ever away or busy."""
        plain = {"network": Network(), "churn": Churn()}
        return all(getattr(self.scenario, key) == section for key, section in plain.items())

    def sizes(self) -> dict[str, Any]:
        """Return what the run is about, in numbers: for ``--dry-run`` and the summary."""
        return {
            "scenario": self.scenario.name,
            "seed": self.scenario.seed,
            "dataset": self.split.name,
            "nodes": self.protocol.n_users,
            **({"coordinator": self.protocol.n_users} if self.protocol.has_coordinator else {}),
            "items": self.split.n_items,
            "interactions": int(sum(part.sizes.sum() for part in _parts(self.split))),
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
) -> Prepared:
    """Load the data, set everything up and run the control plane ahead.

    Parameters
    ----------
    scenario : Scenario
    progress : Progress, optional
        Is told what happens.
    load : callable, optional
        Gives the data, as :func:`load_data` would.

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
        check_sizes(scenario, split.n_users, split.n_items)
        protocol = _protocol(scenario, split)
    check_events_fit(len(protocol.clock.node_ids) * protocol.wakes, protocol.messages_per_wake or 1)
    with watch("setup"):
        cast = _cast(scenario, split, protocol)
    with watch("control"):
        protocol.availability = make_availability(scenario, protocol, say.phase)
    with watch("compile"):
        conditions = make_conditions(scenario, protocol, cast.load)
    say.phase("running events ahead")
    with watch("control"):
        kind = Unforeseen if protocol.chooses_by_value else Foreseen
        schedule = kind(scenario, protocol, cast.load, conditions)
    with watch("setup"):
        needs, executor, epochs = _computing(scenario, cast, schedule)
        threads = ThreadPool(thread_count(scenario) if executor.parallel else 1)
        deliveries = Deliveries(schedule.meetings.n_messages)
        deliveries.learn(schedule.meetings)
        present = _Present(executor)
        meters = _metered(scenario, cast, schedule, executor, threads, deliveries, present)
        planner, reducing, serving = _planning(scenario, cast, schedule, executor, meters, needs)
        present.planner = planner
    if executor.parallel:
        say.phase("compiling kernels (once on a machine)")
    with watch("compile"):
        executor.warm_up()
        planner.warm_up()
        for meter in meters:
            meter.attack.warm_up()
    say.phase("setting up observers")
    with watch("setup"):
        for meter in meters:
            meter.call(meter.attack.foresee, meter.known(schedule.meetings))
    needs.bytes["observers"] = sum(meter.attack.state_bytes for meter in meters)
    check_fits({"observers": needs.bytes["observers"]})
    return Prepared(
        scenario, split, protocol, executor, threads, planner, [meter.attack for meter in meters], meters,
        cast.policies, schedule, epochs, needs.bytes, watch.seconds, cast.load, deliveries, reducing,
        Encoding(cast.outgoing, executor.work) if needs.rewritten else None, serving,
    )  # fmt: skip


@dataclass(frozen=True)
class _Cast:
    """Who takes part, with which model and by which rules: what follows from scenario and data alone."""

    split: Split
    protocol: Protocol
    training: TrainingSettings
    model: Model
    feed: Feed
    layout: Layout
    policies: list[Policy]
    server: Server | None
    outgoing: Outgoing
    receivers: dict[int, Receiver]
    waiting: int
    load: Load


@dataclass(frozen=True)
class _Needs:
    """What a run takes: bytes by part; versions in waiting, in inboxes and for servers, and of rewritten messages."""

    bytes: dict[str, int]
    spare: int
    waiting: int
    rewritten: int


class _Present:
    """The nodes' present models: where they lie is known once there is a planner."""

    planner: Planner

    def __init__(self, executor: Executor) -> None:
        self._arena = executor.work.arena

    def models(self, nodes: I64) -> F32:
        """Return copies of the present models of some nodes."""
        found: F32 = self._arena.rows[self.planner.current[nodes]]
        return found


def _protocol(scenario: Scenario, split: Split) -> Protocol:
    choice = scenario.protocol
    return PROTOCOLS[choice.name](
        choice.options, n_users=split.n_users, seed=scenario.seed, profiles=Profiles.of(split)
    )


def _cast(scenario: Scenario, split: Split, protocol: Protocol) -> _Cast:
    training = training_settings(scenario)
    model = MODELS[scenario.model.name](scenario.model.options).fitted_to(split)
    feed = model.feed_of(split)
    layout = model.layout(split.n_items, split.n_users if protocol.whole_user_table else 1)
    policies = make_policies(scenario, protocol, model, layout)
    server = protocol.server()
    outgoing = make_outgoing(scenario, policies, protocol, layout, server)
    weights = protocol.merge_weights(split.train.sizes)
    receivers, waiting = make_receivers(scenario, policies, protocol, weights)
    load = make_load(outgoing, protocol, feed, training)
    return _Cast(
        split, protocol, training, model, feed, layout, policies, server, outgoing, receivers, waiting, load
    )


def _computing(scenario: Scenario, cast: _Cast, schedule: Schedule) -> tuple[_Needs, Executor, int]:
    """Return what the run needs, if it fits, its executor, and the local epochs of all nodes together."""
    protocol, training = cast.protocol, cast.training
    settings = configure(cast.policies, protocol.n_nodes, training=training, updates=schedule.updates)
    updates = schedule.n_updates
    if schedule.updates is not None:
        updates = int(np.minimum(schedule.updates, settings.most_updates).sum())
    epochs = training.local_epochs * updates
    needs = _needs(scenario, cast)
    check_fits(needs.bytes)
    candidates = None
    if protocol.chooses_by_value:
        candidates = draw_candidates(cast.split, protocol.n_nodes, scenario.seed)
    executor = make_executor(
        scenario, protocol, cast.model, cast.feed, cast.layout, training, settings, candidates, epochs
    )
    return needs, executor, epochs


def _needs(scenario: Scenario, cast: _Cast) -> _Needs:
    n_nodes = cast.protocol.n_nodes
    row_bytes = cast.layout.row_size * np.dtype(scenario.executor.storage).itemsize
    spare = spare_rows(n_nodes, row_bytes)
    needed = needed_bytes(cast.layout, row_bytes, cast.training, n_nodes, spare)
    waiting = cast.waiting + (0 if cast.server is None else 2 * (cast.server.n_versions - 1))
    rewritten = 2 * int(cast.outgoing.rewrites.sum())  # what each pushed last, and what it trained it from
    first = n_nodes if scenario.churn.model == "reset" else 0
    more = {"inboxes": waiting, "rewritten messages": rewritten, "first versions": first}
    needed |= {part: rows * row_bytes for part, rows in more.items() if rows}
    return _Needs(needed, spare, waiting, rewritten)


def _metered(
    scenario: Scenario, cast: _Cast, schedule: Schedule, executor: Executor, threads: ThreadPool,
    deliveries: Deliveries, present: _Present,
) -> list[Metered]:  # fmt: skip
    """Return the attacks, each with a meter that shows it what its own nodes receive."""
    attacks = make_attacks(
        scenario, cast.protocol, executor, threads, outgoing=cast.outgoing, meetings=schedule.meetings,
        own_models=present.models,
    )  # fmt: skip
    meters: list[Metered] = []
    first_pool, hides = 0, cast.outgoing.hides(Role.USER)
    weigh = executor.weighed if cast.protocol.chooses_by_value else None
    for attack in attacks:
        meters.append(Metered(attack, cast.layout, hides, deliveries, first_pool, weigh))
        first_pool += len(attack.pools)
    return meters


def _planning(
    scenario: Scenario, cast: _Cast, schedule: Schedule, executor: Executor, meters: list[Metered], needs: _Needs
) -> tuple[Planner, Reducing, Serving | None]:  # fmt: skip
    """Return the planner, with room in the arena for its plans, and what computes between a receipt and a push."""
    protocol, arena, resets = cast.protocol, executor.work.arena, scenario.churn.model == "reset"
    pools = [pool for meter in meters for pool in meter.attack.pools]
    planner = make_planner(
        protocol, cast.split, executor.work, pools, schedule, needs.spare + needs.waiting + needs.rewritten,
        keeps_first=resets, inboxes=cast.receivers, rewrites=cast.outgoing.rewrites,
    )  # fmt: skip
    arena.grow(planner.capacity)
    if resets:
        arena.rows[protocol.n_nodes : 2 * protocol.n_nodes] = arena.rows[: protocol.n_nodes]
    receivers, serving = cast.receivers, None
    if cast.server is not None:
        serving = Serving(cast.server, protocol.n_users, arena, scenario.seed)
        hub = replace(receivers[protocol.n_users], serving=serving)
        receivers = {**receivers, protocol.n_users: hub}
    return planner, Reducing(receivers, arena, scenario.seed), serving


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


def _parts(split: Split) -> tuple[Any, ...]:
    return split.train, split.validation, split.test
