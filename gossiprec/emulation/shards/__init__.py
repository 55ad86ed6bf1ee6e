"""A run divided among shards: one leads and the others follow, on Ray or as threads. Their groups and versions."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias

from gossiprec.base.errors import ResourceError
from gossiprec.compute.shards import ShardContext
from gossiprec.emulation.progress import Progress
from gossiprec.runs.manifest import package_versions
from gossiprec.scenario import Scenario
from gossiprec.scenario.registries import scenario_code_version

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.prepare import PreparedRun
    from gossiprec.emulation.scoring.metric_inputs import MetricInputs
    from gossiprec.emulation.scoring.utility import UtilityEvaluator


class NoFollowers:
    """The leader of an undivided run, which has no other shards to gather from."""

    def begin(self, after: int) -> None:
        """Start the other shards after `after` reports, in the present state of the run."""

    def gather_update_sizes(self) -> None:
        """Gather the sizes of messages that only other shards know."""

    def gather_metric_inputs(self, utility: UtilityEvaluator) -> Sequence[MetricInputs]:
        """Return the metric inputs of all shards; empty if this process has all models."""
        return ()

    def gather_observer_state(self) -> None:
        """Gather the results of single observers that a report needs."""

    def gather_full_state(self) -> None:
        """Gather the state that a checkpoint needs."""

    def release_remote_rows(self) -> None:
        """Free the rows and moments of nodes that other shards own."""

    def continue_or_end(self, *, end: bool, changed: bool) -> None:
        """Let the other shards continue to the next report, or end."""

    def summary(self) -> dict[str, Any]:
        """Return the summary of the shards."""
        return {}


class ShardGroup(AbstractContextManager["ShardGroup"]):
    """The other shards of a run: entered before the run is prepared, and left when it ends in any way.

    This class is the group of an undivided run, which has no others.

    Attributes
    ----------
    shard : ShardContext or None
        The shard of this process, which leads, or None if the run is not divided.
    """

    shard: ShardContext | None = None

    def start(self, prepared: PreparedRun) -> None:
        """Let the other shards prepare the run; it is already prepared here."""

    def __exit__(self, *error: object) -> None:
        """End the other shards."""


MakeShardGroup: TypeAlias = Callable[[Scenario, Progress], ShardGroup]


Versions = Mapping[str, str]


def local_versions(scenario: Scenario) -> Versions:
    """Return the versions that decide the numbers of a run in this process: code, plug-ins and libraries."""
    code, python = scenario_code_version(scenario), platform.python_version()
    return {"gossiprec": code, "python": python, **package_versions()}


def check_versions(own: Versions, theirs: Mapping[int, tuple[str, Versions]]) -> None:
    """Refuse shards with other versions, which could compute other numbers.

    Parameters
    ----------
    own : mapping of str to str
        The versions of shard 0.
    theirs : mapping of int to (str, mapping)
        The place of each other shard, and its versions.

    Raises
    ------
    ResourceError
        Names all differences.
    """
    differences = [
        f"shard {number} on {host}: {name} {versions.get(name, 'none')}, but {own.get(name, 'none')} in shard 0"
        for number, (host, versions) in sorted(theirs.items())
        for name in sorted({*own, *versions})
        if versions.get(name) != own.get(name)
    ]
    if differences:
        raise ResourceError(
            "all shards must have the same versions to compute the same bytes: "
            + "; ".join(differences)
            + "; install the same versions on all machines"
        )
