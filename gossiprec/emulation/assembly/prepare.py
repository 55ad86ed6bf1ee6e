"""From a scenario to everything a run needs, before the first local update."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gossiprec.attacks import Attack
from gossiprec.attacks.observations import Deliveries
from gossiprec.compute.encoding import Encoding
from gossiprec.compute.executors import Executor
from gossiprec.compute.plan.planner import Planner
from gossiprec.compute.reducing import Reducing
from gossiprec.compute.serving import Serving
from gossiprec.compute.thread_pool import ThreadPool
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
from gossiprec.models import MODELS, Role
from gossiprec.overlay.profiles import Profiles
from gossiprec.policies import Policy
from gossiprec.protocols import PROTOCOLS, Protocol
from gossiprec.scenario import Scenario, check_sizes
from gossiprec.scenario.churn import Churn
from gossiprec.scenario.network import Network


@dataclass(frozen=True)
class Prepared:
    """A run that could start now.

    Attributes
    ----------
    course : Course
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
        protocol = PROTOCOLS[scenario.protocol.name](
            scenario.protocol.options,
            n_users=split.n_users,
            seed=scenario.seed,
            profiles=Profiles.of(split),
        )
    check_events_fit(len(protocol.clock.node_ids) * protocol.wakes, protocol.messages_per_wake or 1)
    training = training_settings(scenario)
    with watch("setup"):
        model = MODELS[scenario.model.name](scenario.model.options).fitted_to(split)
        feed = model.feed_of(split)
        layout = model.layout(split.n_items, split.n_users if protocol.whole_user_table else 1)
        policies = make_policies(scenario, protocol, model, layout)
        server = protocol.server()
        outgoing = make_outgoing(scenario, policies, protocol, layout, server)
        receivers, waiting = make_receivers(
            scenario, policies, protocol, protocol.merge_weights(split.train.sizes)
        )
        burden = make_load(outgoing, protocol, feed, training)
    with watch("control"):
        protocol.availability = make_availability(scenario, protocol, say.phase)
    with watch("compile"):
        conditions = make_conditions(scenario, protocol, burden)
    say.phase("running events ahead")
    with watch("control"):
        schedule = (Unforeseen if protocol.chooses_by_value else Foreseen)(
            scenario, protocol, burden, conditions
        )
    with watch("setup"):
        node_settings = configure(policies, protocol.n_nodes, training=training, updates=schedule.updates)
        updates = schedule.n_updates
        if schedule.updates is not None:
            updates = int(np.minimum(schedule.updates, node_settings.most_updates).sum())
        epochs = training.local_epochs * updates
        row_bytes = layout.row_size * np.dtype(scenario.executor.storage).itemsize
        spare = spare_rows(protocol.n_nodes, row_bytes)
        needed = needed_bytes(layout, row_bytes, training, protocol.n_nodes, spare)
        waiting += 0 if server is None else 2 * (server.n_versions - 1)
        if waiting:
            needed["inboxes"] = waiting * row_bytes
        rewritten = 2 * int(outgoing.rewrites.sum())  # what each pushed last, and what it trained it from
        if rewritten:
            needed["rewritten messages"] = rewritten * row_bytes
        if scenario.churn.model == "reset":
            needed["first versions"] = protocol.n_nodes * row_bytes
        check_fits(needed)
        candidates = None
        if protocol.chooses_by_value:
            candidates = draw_candidates(split, protocol.n_nodes, scenario.seed)
        executor = make_executor(
            scenario, protocol, model, feed, layout, training, node_settings, candidates, epochs
        )
    threads = ThreadPool(thread_count(scenario) if executor.parallel else 1)
    with watch("setup"):
        attacks = make_attacks(
            scenario, protocol, executor, threads, outgoing=outgoing, meetings=schedule.meetings,
            own_models=lambda nodes: executor.work.arena.rows[planner.current[nodes]],
        )  # fmt: skip
        pools = [pool for attack in attacks for pool in attack.pools]
        resets = scenario.churn.model == "reset"
        planner = make_planner(
            protocol, split, executor.work, pools, schedule, spare + waiting + rewritten,
            keeps_first=resets, inboxes=receivers, rewrites=outgoing.rewrites,
        )  # fmt: skip
        arena = executor.work.arena
        serving = None
        if server is not None:
            serving = Serving(server, protocol.n_users, arena, scenario.seed)
            receivers[protocol.n_users] = replace(receivers[protocol.n_users], serving=serving)
        reducing = Reducing(receivers, arena, scenario.seed)
        arena.grow(planner.capacity)
        if resets:
            arena.rows[protocol.n_nodes : 2 * protocol.n_nodes] = arena.rows[: protocol.n_nodes]
    if executor.parallel:
        say.phase("compiling kernels (once on a machine)")
    with watch("compile"):
        executor.warm_up()
        planner.warm_up()
        for attack in attacks:
            attack.warm_up()
    say.phase("setting up observers")
    with watch("setup"):
        deliveries, first_pool = Deliveries(schedule.meetings.n_messages), 0
        deliveries.learn(schedule.meetings)
        meters = []
        for attack in attacks:
            meter = Metered(attack, layout, outgoing.hides(Role.USER), deliveries, first_pool)
            meter.call(attack.foresee, meter.known(schedule.meetings))
            meters.append(meter)
            first_pool += len(attack.pools)
    needed["observers"] = sum(attack.state_bytes for attack in attacks)
    check_fits({"observers": needed["observers"]})
    return Prepared(
        scenario,
        split,
        protocol,
        executor,
        threads,
        planner,
        attacks,
        meters,
        policies,
        schedule,
        epochs,
        needed,
        watch.seconds,
        burden,
        deliveries,
        reducing,
        Encoding(outgoing, executor.work) if rewritten else None,
        serving,
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


def _parts(split: Split) -> tuple[Any, ...]:
    return split.train, split.validation, split.test
