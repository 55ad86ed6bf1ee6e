"""The carrier of a run, which gives nodes their versions: it computes them here, reads stored ones, or asks shards.

A run has exactly one carrier. This module has the plain one, which computes all versions in this process. The others
are files of :mod:`gossiprec.emulation.carriers`, loaded only by a run that asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gossiprec.adversaries.attacks import Attack
from gossiprec.adversaries.attacks.observations import KnownDeliveries
from gossiprec.base.arrays import I64
from gossiprec.base.registry import Registry
from gossiprec.compute.waves import WaveOptions, WaveRunner
from gossiprec.emulation.assembly.components import RunComponents
from gossiprec.emulation.assembly.schedule import Schedule
from gossiprec.scenario import Scenario

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.prepare import PreparedRun
    from gossiprec.emulation.assembly.tape_runner import TapeRunner
    from gossiprec.emulation.run.run_options import RunOptions
    from gossiprec.emulation.scoring.metric_inputs import MetricInputs
    from gossiprec.emulation.scoring.utility import UtilityEvaluator


class Carrier(AbstractContextManager["Carrier"]):
    """The carrier that computes all versions in this process.

    It is entered before the run is prepared, and left when the run ends in any way.

    Attributes
    ----------
    computes : bool
        Whether tasks are run: not if all models come from stored versions of chosen reports.
    trains : bool
        Whether models are trained.
    is_divided : bool
        Whether other processes compute the versions of some nodes.
    """

    computes = trains = True
    is_divided = False

    def __exit__(self, *error: object) -> None:
        """End what the carrier has started."""

    def check(self, components: RunComponents, schedule: Schedule) -> None:
        """Refuse a run that the carrier cannot carry, before memory is reserved.

        Raises
        ------
        ScenarioError
        """

    def divide(
        self, components: RunComponents, attacks: Sequence[Attack], deliveries: KnownDeliveries
    ) -> I64 | None:
        """Divide the nodes among processes; return those of this process, ascending, or None if it has all.

        Raises
        ------
        ScenarioError
            If the run cannot be divided.
        """
        return None

    def check_room(self, prepared: PreparedRun) -> None:
        """Refuse a new run for which the disk has no room.

        Raises
        ------
        ResourceError
        """

    def start(self, prepared: PreparedRun) -> None:
        """Let other processes prepare the run; it is already prepared here."""

    def make_runner(self, prepared: PreparedRun, options: WaveOptions) -> WaveRunner:
        """Return the runner of plans."""
        return WaveRunner(prepared.executor, prepared.meters, options)

    def share_values(self, found: I64) -> I64:
        """Return the values that the process with the coordinator found."""
        return found

    def bring(self, nodes: I64) -> None:
        """Bring the present models of some nodes into the store of this process."""

    def begin(self, after: int, tape_runner: TapeRunner) -> None:
        """Begin the events after `after` reports, in the present state of the run."""

    def gather_update_sizes(self) -> None:
        """Gather the sizes of messages that only other processes know."""

    def read_models(self, current: I64) -> bool:
        """Bring the nodes' models at a report into their rows; return whether they are known."""
        return True

    def gather_metric_inputs(self, utility: UtilityEvaluator) -> Sequence[MetricInputs]:
        """Return the metric inputs of all processes; empty if this one has all models."""
        return ()

    def write(self, current: I64, *, last: bool) -> None:
        """Store the versions of a report."""

    def gather_observer_state(self) -> None:
        """Gather the results of single observers that a report needs."""

    def gather_full_state(self) -> None:
        """Gather the state that a checkpoint needs."""

    def release_remote_rows(self) -> None:
        """Free the rows and moments of nodes that other processes own."""

    def continue_or_end(self, after: int, *, end: bool, changed: bool) -> None:
        """Continue with the events after `after` reports, with new settings of training if they changed, or end."""

    def summary(self) -> dict[str, Any]:
        """Return sections of the summary."""
        return {}


PLAIN = Carrier()
"""The plain carrier, which has no state."""
CARRIERS: Registry[Callable[[Scenario, RunOptions, Path], Carrier]] = Registry(
    "carrier", "gossiprec.emulation.carriers"
)
"""Functions that return the carrier of a scenario's run in a folder."""


def make_carrier(scenario: Scenario, options: RunOptions, folder: Path) -> Carrier:
    """Return the carrier of a run in a folder.

    Raises
    ------
    ResourceError
        If the run is divided and Ray is not installed.
    """
    if scenario.evaluate.stored_reports is not None:
        return CARRIERS["versions"](scenario, options, folder)
    return CARRIERS["shards"](scenario, options, folder) if scenario.executor.shards > 1 else PLAIN
