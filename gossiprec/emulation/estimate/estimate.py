"""Estimates of a run without preparing it: sizes, events, memory and wall time.

The events of a small run are played, and all counts are exact. Otherwise counts follow from the protocol: they are
exact if every message arrives and no node is ever offline, and upper bounds if not. Data that would take long to
generate are not generated; a smaller data set with the same distribution gives the sizes of the users' data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.adversaries.attacks.base import AttackMemoryInputs
from gossiprec.base.errors import ResourceError
from gossiprec.data.data_sizes import DataSizes
from gossiprec.emulation.assembly.components import note_large_deltas
from gossiprec.emulation.assembly.data_loading import data_sizes, estimated_data_sizes
from gossiprec.emulation.assembly.executor_selection import require_ray, thread_count
from gossiprec.emulation.estimate.counts import (
    EstimateInputs,
    EventCounts,
    Sure,
    estimate_from_sizes,
)
from gossiprec.emulation.estimate.libraries import pictures_bytes
from gossiprec.emulation.estimate.memory import MemoryInputs, check_memory, estimate_memory, process_bytes
from gossiprec.emulation.estimate.timing import PredictedDuration, predict_duration, run_kind, training_work
from gossiprec.emulation.progress import NullProgress, Progress, Stopwatch
from gossiprec.models import BlockRole
from gossiprec.modes.base import RunMode, TrainingOutline
from gossiprec.modes.whole_models import FEW_EPOCHS
from gossiprec.network.protocols import Protocol
from gossiprec.scenario import Scenario
from gossiprec.scenario.plugins import check_modules

MOST_PLAYED = 60_000
"""Upper bound of wakes and messages that are played to count them, which takes half a second."""


@dataclass(frozen=True)
class RunEstimate:
    """An estimate of a run.

    Attributes
    ----------
    sizes : dict
        As in a summary.
    sure : {"exact", "about", "at most"}
        The precision of the event counts.
    drawn : bool
        Whether the data were read or generated; otherwise the interactions are estimated, too.
    needed : dict of str to int
        Bytes by part, estimated for observers.
    bytes_to_draw : int
        Bytes that generating the data takes, before the run.
    fraction_met, fraction_heard : float or None
        The share of users that a single observer, or a coordinator, can have met by the end.
    kind : str
        The run's kind: runs of one kind take time in proportion to `work`.
    work : float
        See :mod:`~gossiprec.emulation.estimate.timing`.
    duration : PredictedDuration or None
        None if no run has finished on this machine yet.
    """

    sizes: dict[str, Any]
    sure: Sure
    drawn: bool
    needed: dict[str, int]
    bytes_to_draw: int
    fraction_met: float | None
    fraction_heard: float | None
    kind: str
    work: float
    duration: PredictedDuration | None

    def check_fits(self) -> None:
        """Refuse a run that does not fit into memory.

        Raises
        ------
        ResourceError
        """
        check_memory({"generating the data": self.bytes_to_draw})
        check_memory(self.needed)


def estimate_run(
    scenario: Scenario,
    progress: Progress | None = None,
    *,
    outline: Callable[[Scenario], DataSizes] = data_sizes,
    played: bool = True,
    kept_kernels: bool = False,
) -> RunEstimate:
    """Return the estimate of a scenario's run, in seconds for any size; data files are read first.

    Parameters
    ----------
    scenario : Scenario
    progress : Progress, optional
        Receives progress messages.
    outline : callable
        Returns the known sizes of the data.
    played : bool
        Whether events of small runs are played, so that counts are exact.
    kept_kernels : bool
        As in :func:`~gossiprec.emulation.assembly.prepare.prepare`; a small run is then prepared to check the cache.

    Raises
    ------
    ScenarioError, DataError
        If the scenario does not fit its data, or the data cannot be read.
    ResourceError
        If a module that the run needs cannot be imported.
    """
    say = progress or NullProgress()
    check_modules(scenario)
    if scenario.executor.shards > 1:
        require_ray("set executor.name to auto")
    say.phase("reading data")
    data = outline(scenario)
    if data.split.understood:
        say.phase(f"read {data.split.understood}")
    note_large_deltas(scenario, data.split, say)
    if kept_kernels and played and data.whole:
        scenario = _with_executor(scenario, data, say)
    return _foreseen(scenario, data, say, played=played)


def check_memory_early(scenario: Scenario) -> None:
    """Refuse a run that does not fit into memory before data are generated that take long.

    Raises
    ------
    ScenarioError, DataError
        If :func:`estimate_run` raises it.
    ResourceError
    """
    data = estimated_data_sizes(scenario)
    if data is not None:
        _foreseen(scenario, data, NullProgress(), played=False).check_fits()


def _foreseen(scenario: Scenario, data: DataSizes, say: Progress, *, played: bool) -> RunEstimate:
    world = estimate_from_sizes(scenario, data)
    few = world.counts.n_wakes + world.counts.n_messages <= MOST_PLAYED
    if played and data.whole and few:
        world = _played(scenario, data, say)
    extent, counts, protocol = world.extent, world.counts, world.extent.protocol
    trains = executor_of(scenario, world)
    threads = thread_count(scenario) if trains == "fused" else 1
    compiled = world.model.kernels() if trains == "fused" else None
    prospect = AttackMemoryInputs(
        n_users=data.n_users,
        layout=extent.layout,
        storage=scenario.executor.storage,
        own_items=float(data.split.train.sizes.mean()),
        keeps=_kept_at_a_time(extent.mode, protocol, counts.n_messages / max(protocol.n_users, 1)),
        ranked_on_sight=compiled is not None and compiled.ranks_open and not world.hides_user,
    )
    observers = sum(ATTACKS[each.name].expected_bytes(each.options, prospect) for each in scenario.observers)
    samples = extent.mode.samples_per_epoch(float(extent.samples.mean()), protocol.n_users)
    needed = process_bytes(extent, trains) | estimate_memory(extent).bytes | {"observers": round(observers)}
    kind = run_kind(scenario, trains)
    work = training_work(world.model, extent.layout, epochs=counts.epochs, samples=samples)
    return RunEstimate(
        sizes={**run_sizes(scenario, data, protocol, counts), "executor": trains, "threads": threads},
        sure=counts.sure,
        drawn=data.whole,
        needed=needed | pictures_bytes(scenario, needed),
        bytes_to_draw=data.bytes_to_draw,
        fraction_met=protocol.predicted_fraction_met(protocol.wakes),
        fraction_heard=protocol.predicted_fraction_heard(protocol.wakes),
        kind=kind,
        work=work,
        duration=predict_duration(kind, work, threads) if work > 0 else None,
    )


def run_sizes(scenario: Scenario, data: DataSizes, protocol: Protocol, counts: EventCounts) -> dict[str, Any]:
    """Return the sizes of a run for its summary, without its executor."""
    return {
        "scenario": scenario.name,
        "seed": scenario.seed,
        "dataset": data.split.name,
        "nodes": data.n_users,
        **({"poisoners": protocol.n_users - data.n_users} if scenario.attackers else {}),
        **({"coordinator": protocol.n_users} if protocol.has_coordinator else {}),
        "items": data.split.n_items,
        "interactions": data.n_interactions,
        "wakes": counts.n_wakes,
        "messages": counts.n_messages,
        "node_updates": counts.epochs,
        "virtual_time": counts.virtual_time,
    }


def executor_of(scenario: Scenario, world: EstimateInputs) -> str:
    """Return the name of the executor that trains."""
    extent = world.extent
    outline = TrainingOutline(
        scenario, world.model, extent.training, world.recommender, world.settings, world.counts.epochs, extent.layout
    )  # fmt: skip
    return extent.mode.training_executor(outline)


def _played(scenario: Scenario, data: DataSizes, say: Progress) -> EstimateInputs:
    """Return the estimate inputs that follow from playing the events."""
    from gossiprec.emulation.assembly.control_setup import (  # these import the engine
        build_and_schedule,
        count_local_epochs,
        make_node_settings,
    )

    cast, schedule = build_and_schedule(scenario, data.split, say, Stopwatch())
    settings = make_node_settings(cast, schedule.updates)
    counts = EventCounts(
        schedule.n_wakes,
        schedule.n_messages,
        count_local_epochs(cast, schedule, settings),
        schedule.virtual_time,
        "at most" if schedule.depends_on_values else "exact",
    )
    extent = MemoryInputs.of(cast, n_wakes=counts.n_wakes, n_messages=counts.n_messages)
    hides = bool(cast.outgoing.hides(BlockRole.USER).any())
    return EstimateInputs(extent, counts, cast.model, cast.recommender, settings, hides)


def _with_executor(scenario: Scenario, data: DataSizes, say: Progress) -> Scenario:
    """Return the scenario with compiled kernels if ``executor: auto`` finds all of them in the cache.

    Nothing is compiled. A run that is too large to be played has too many local epochs for this choice.
    """
    world = estimate_from_sizes(scenario, data)
    nodes_train = world.extent.mode.nodes_hold_models
    if scenario.executor.computes != "auto" or not nodes_train or world.counts.epochs >= FEW_EPOCHS:
        return scenario
    from gossiprec.emulation.assembly.control_setup import build_and_schedule
    from gossiprec.emulation.assembly.prepare import with_kept_kernels  # imports this module

    watch = Stopwatch()
    try:
        prepared = with_kept_kernels(*build_and_schedule(scenario, data.split, say, watch), watch)
    except ResourceError:
        return scenario
    return scenario if prepared is None else prepared.scenario


def _kept_at_a_time(mode: RunMode, protocol: Protocol, heard: float) -> float:
    """Return the largest share of users whom a single adversary has met and will meet again.

    With the share f(t) that it has met by t, those met both before and after t are f(t) + f(T - t) - f(T), which is
    largest at half time.

    Parameters
    ----------
    heard : float
        The number of messages that it receives in the whole run.
    """
    if mode.depends_on_values(protocol):  # later contacts are not known, so that every pair keeps its rows
        return 1.0
    half, all_ = (protocol.predicted_fraction_met(wakes) for wakes in (protocol.wakes / 2, protocol.wakes))
    if half is None or all_ is None:
        return min(1.0, heard / 2 / protocol.n_users)
    share = 2 * half - all_
    spread = math.sqrt(share * (1 - share) / protocol.n_users)  # of many moments the fullest counts
    return min(1.0, share + spread)
