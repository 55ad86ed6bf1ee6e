"""Estimates of a run without preparing it: sizes, events, memory and wall time.

The events of a small run are played, and all counts are exact. Otherwise counts follow from the protocol
(:mod:`gossiprec.emulation.estimate.run_estimate`). Data that would take long to generate are not generated; a smaller
data set with the same distribution gives the sizes of the users' data.
"""

from __future__ import annotations

from collections.abc import Callable

from gossiprec.base.errors import ResourceError
from gossiprec.data.data_sizes import DataSizes
from gossiprec.emulation.assembly.components import note_large_deltas
from gossiprec.emulation.assembly.data_loading import data_sizes
from gossiprec.emulation.assembly.executor_selection import require_ray
from gossiprec.emulation.estimate.memory import (
    MemoryInputs,
)
from gossiprec.emulation.estimate.run_estimate import (
    EstimateInputs,
    EventCounts,
    RunEstimate,
    estimate_from_sizes,
    make_run_estimate,
)
from gossiprec.emulation.progress import NullProgress, Progress, Stopwatch
from gossiprec.models import BlockRole
from gossiprec.scenario import Scenario
from gossiprec.scenario.registries import check_modules

MAX_PLAYED = 60_000
"""Upper bound of wakes and messages that are played to count them, which takes half a second."""


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
    if data.split.source_summary:
        say.phase(f"read {data.split.source_summary}")
    note_large_deltas(scenario, data.split, say)
    if kept_kernels and played and data.whole:
        scenario = _with_executor(scenario, data, say)
    world = estimate_from_sizes(scenario, data)
    if played and data.whole and world.counts.n_wakes + world.counts.n_messages <= MAX_PLAYED:
        world = _play_events(scenario, data, say)
    return make_run_estimate(scenario, data, world)


def _play_events(scenario: Scenario, data: DataSizes, say: Progress) -> EstimateInputs:
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
    mode = world.extent.mode
    is_long = world.counts.epochs >= mode.few_epochs
    if scenario.executor.computes != "auto" or not mode.nodes_hold_models or is_long:
        return scenario
    from gossiprec.emulation.assembly.control_setup import build_and_schedule
    from gossiprec.emulation.assembly.prepare import with_kept_kernels

    watch = Stopwatch()
    try:
        prepared = with_kept_kernels(*build_and_schedule(scenario, data.split, say, watch), watch)
    except ResourceError:
        return scenario
    return scenario if prepared is None else prepared.scenario
