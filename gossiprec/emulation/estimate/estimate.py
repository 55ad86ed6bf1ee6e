"""Estimates of a run without preparing it: sizes, events, memory and wall time.

The events of a small run are played, and all counts are exact. Otherwise counts follow from the protocol
(:mod:`gossiprec.emulation.assembly.run_size`). Data that would take long to generate are not generated; a smaller
data set with the same distribution gives the sizes of the users' data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gossiprec.base.errors import ResourceError
from gossiprec.emulation.assembly.components import note_large_deltas
from gossiprec.emulation.assembly.data_loading import DataSizes, data_sizes
from gossiprec.emulation.assembly.memory import check_memory
from gossiprec.emulation.assembly.run_size import (
    Accuracy,
    EstimateInputs,
    estimate_from_sizes,
    memory_needed,
    observer_bytes,
    run_sizes,
)
from gossiprec.emulation.assembly.shard_partition import require_ray
from gossiprec.emulation.estimate.timing import PredictedDuration, predict_duration, run_kind, training_work
from gossiprec.emulation.progress import NullProgress, Progress, Stopwatch
from gossiprec.scenario import Scenario
from gossiprec.scenario.registries import check_modules

MAX_PLAYED = 60_000
"""Upper bound of wakes and messages that are played to count them, which takes 0.5 s."""


@dataclass(frozen=True)
class RunEstimate:
    """An estimate of a run.

    Attributes
    ----------
    sizes : dict
        As in a summary.
    count_accuracy : {"exact", "about", "at most"}
        The precision of the event counts.
    data_loaded : bool
        Whether the data were read or generated; otherwise the interactions are estimated, too.
    memory_bytes : dict of str to int
        Bytes by part, estimated for observers.
    bytes_by_observer : list of int
        Of each entry of the scenario's observers.
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
    uncompiled : str or None
        What keeps the training from running compiled, which makes it slow.
    """

    sizes: dict[str, Any]
    count_accuracy: Accuracy
    data_loaded: bool
    memory_bytes: dict[str, int]
    bytes_by_observer: list[int]
    bytes_to_draw: int
    fraction_met: float | None
    fraction_heard: float | None
    kind: str
    work: float
    duration: PredictedDuration | None
    uncompiled: str | None = None

    def check_fits(self) -> None:
        """Refuse a run that does not fit into memory.

        Raises
        ------
        ResourceError
        """
        check_memory(self.memory_bytes)
        check_memory({"generating the data": self.bytes_to_draw})


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
    progress = progress or NullProgress()
    check_modules(scenario)
    if scenario.executor.shards > 1:
        require_ray("set executor.name to auto")
    progress.phase("reading data")
    data = outline(scenario)
    if data.split.source_summary:
        progress.phase(f"read {data.split.source_summary}")
    note_large_deltas(scenario, data.split, progress)
    if kept_kernels and played and data.whole:
        scenario = _with_executor(scenario, data, progress)
    inputs = estimate_from_sizes(scenario, data)
    if played and data.whole and inputs.counts.n_wakes + inputs.counts.n_messages <= MAX_PLAYED:
        from gossiprec.emulation.assembly.schedule import build_and_schedule, scheduled_inputs  # the engine

        inputs = scheduled_inputs(*build_and_schedule(scenario, data.split, progress, Stopwatch()))
    return make_run_estimate(data, inputs)


def _with_executor(scenario: Scenario, data: DataSizes, progress: Progress) -> Scenario:
    """Return the scenario with compiled kernels if ``executor: auto`` finds all of them in the cache.

    Nothing is compiled. Runs too large to be played have too many local epochs for this choice.
    """
    inputs = estimate_from_sizes(scenario, data)
    mode = inputs.extent.mode
    is_long = inputs.counts.epochs >= mode.few_epochs
    if scenario.executor.computing_executor != "auto" or not mode.nodes_hold_models or is_long:
        return scenario
    from gossiprec.emulation.assembly.prepare import prepare_with_cached_kernels
    from gossiprec.emulation.assembly.schedule import build_and_schedule

    stopwatch = Stopwatch()
    try:
        parts = build_and_schedule(scenario, data.split, progress, stopwatch)
        prepared = prepare_with_cached_kernels(*parts, stopwatch)
    except ResourceError:
        return scenario
    return scenario if prepared is None else prepared.components.scenario


def make_run_estimate(data: DataSizes, inputs: EstimateInputs) -> RunEstimate:
    """Return the estimate of a run that follows from its sizes and counts."""
    extent, counts, model = inputs.extent, inputs.counts, inputs.outline.model
    scenario, protocol, executor = extent.scenario, extent.protocol, inputs.training_executor
    is_threaded = executor == "fused" or scenario.protocol.name == "central"
    threads = scenario.executor.thread_count() if is_threaded else 1
    observers = observer_bytes(data, inputs)
    samples = extent.mode.samples_per_epoch(float(extent.samples.mean()), protocol.n_users)
    kind = run_kind(scenario, executor)
    work = training_work(model, extent.layout, epochs=counts.epochs, samples=samples)
    return RunEstimate(
        sizes={**run_sizes(scenario, data, protocol, counts), "executor": executor, "threads": threads},
        count_accuracy=counts.accuracy,
        data_loaded=data.whole,
        memory_bytes=memory_needed(inputs, observers),
        bytes_by_observer=observers,
        bytes_to_draw=data.bytes_to_draw,
        fraction_met=protocol.predicted_fraction_met(protocol.wakes),
        fraction_heard=protocol.predicted_fraction_heard(protocol.wakes),
        kind=kind,
        work=work,
        duration=predict_duration(kind, work, threads) if work > 0 else None,
        uncompiled=extent.mode.uncompiled_part(inputs.outline) if executor == "batched" else None,
    )
