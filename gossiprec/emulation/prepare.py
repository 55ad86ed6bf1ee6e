"""From a scenario to everything a run needs, before the first local update."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gossiprec.attacks import Attack
from gossiprec.compute.appraisal import Candidates
from gossiprec.compute.crew import Crew
from gossiprec.compute.executors import Executor
from gossiprec.compute.planner import Planner
from gossiprec.compute.waves import WaveRunner
from gossiprec.data import load_split
from gossiprec.data.split import Split
from gossiprec.emulation.attendance import make_presence
from gossiprec.emulation.carrier import Carrier
from gossiprec.emulation.conditions import Load, make_conditions
from gossiprec.emulation.course import Course, Foreseen, Unforeseen
from gossiprec.emulation.machinery import (
    make_executor,
    make_planner,
    needed_bytes,
    spare_rows,
    thread_count,
    training_settings,
)
from gossiprec.emulation.memory import check_events_fit, check_fits
from gossiprec.emulation.metering import Metered
from gossiprec.emulation.places import on_its_data
from gossiprec.emulation.population import make_attacks, make_load, make_policies, treat
from gossiprec.emulation.progress import Progress, Silent, Stopwatch
from gossiprec.models import MODELS
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
    """

    scenario: Scenario
    split: Split
    protocol: Protocol
    executor: Executor
    crew: Crew
    planner: Planner
    attacks: list[Attack]
    meters: list[Metered]
    policies: list[Policy]
    course: Course
    epochs: int
    needed: dict[str, int]
    seconds: dict[str, float]
    load: Load

    def carrier(self, watch: Stopwatch | None = None) -> Carrier:
        """Return what carries out the tape."""
        wave_size = self.scenario.executor.wave_size
        runner = WaveRunner(
            self.executor,
            self.meters,
            crew=self.crew,
            wave_size=None if wave_size == "unlimited" else wave_size,
        )
        return Carrier(
            course=self.course, protocol=self.protocol, planner=self.planner, executor=self.executor,
            attacks=self.attacks, runner=runner, watch=watch or Stopwatch(),
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
            "nodes": self.protocol.n_nodes,
            "items": self.split.n_items,
            "interactions": int(sum(part.sizes.sum() for part in _parts(self.split))),
            "wakes": self.course.n_wakes,
            "messages": self.course.n_messages,
            "node_updates": self.epochs,
            "virtual_time": self.course.virtual_time,
            "executor": self.executor.name,
            "threads": self.crew.size,
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
        model, data = on_its_data(MODELS[scenario.model.name](scenario.model.options), split)
        layout = model.layout(split.n_items, split.n_users if protocol.whole_user_table else 1)
        policies = make_policies(scenario, protocol, model, layout)
        burden = make_load(policies, protocol, layout, data, training)
    with watch("control"):
        protocol.presence = make_presence(scenario, protocol, say.phase)
    with watch("compile"):
        conditions = make_conditions(scenario, protocol, burden)
    say.phase("running events ahead")
    with watch("control"):
        course = (Unforeseen if protocol.chooses_by_value else Foreseen)(
            scenario, protocol, burden, conditions
        )
    with watch("setup"):
        treatment = treat(policies, protocol.n_nodes, training=training, updates=course.updates)
        updates = course.n_updates
        if course.updates is not None:
            updates = int(np.minimum(course.updates, treatment.most_updates).sum())
        epochs = training.local_epochs * updates
        row_bytes = layout.row_size * np.dtype(scenario.executor.storage).itemsize
        spare = spare_rows(protocol.n_nodes, row_bytes)
        needed = needed_bytes(layout, row_bytes, training, protocol.n_nodes, spare)
        check_fits(needed)
        candidates = None
        if protocol.chooses_by_value:
            candidates = Candidates.draw(split, protocol.n_nodes, scenario.seed)
        executor = make_executor(
            scenario, protocol, model, data, layout, training, treatment, candidates, epochs
        )
    crew = Crew(thread_count(scenario) if executor.parallel else 1)
    with watch("setup"):
        attacks = make_attacks(
            scenario, split, protocol, executor, crew,
            meetings=course.meetings, own_rows=lambda: planner.current,
        )  # fmt: skip
        pools = [pool for attack in attacks for pool in attack.pools]
        planner = make_planner(protocol, split, executor.work, pools, course, spare)
        executor.work.arena.grow(planner.capacity)
    if executor.parallel:
        say.phase("compiling kernels (once on a machine)")
    with watch("compile"):
        executor.warm_up()
        planner.warm_up()
        for attack in attacks:
            attack.warm_up()
    say.phase("setting up observers")
    with watch("setup"):
        first_pool = 0
        meters = [Metered(attack) for attack in attacks]
        for meter in meters:
            meter.call(meter.attack.foresee, course.meetings, first_pool)
            first_pool += len(meter.attack.pools)
    needed["observers"] = sum(attack.state_bytes for attack in attacks)
    check_fits({"observers": needed["observers"]})
    return Prepared(
        scenario,
        split,
        protocol,
        executor,
        crew,
        planner,
        attacks,
        meters,
        policies,
        course,
        epochs,
        needed,
        watch.seconds,
        burden,
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
