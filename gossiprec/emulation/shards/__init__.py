"""A run divided among shards: one leads and the others follow, on Ray or as threads. Their groups and versions."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias

from gossiprec.base.errors import ResourceError
from gossiprec.compute.shards import ShardContext
from gossiprec.emulation.progress import Progress
from gossiprec.runs.manifest import package_versions
from gossiprec.scenario import Scenario
from gossiprec.scenario.registries import scenario_code_version

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.prepare import PreparedRun


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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the other shards."""


MakeShardGroup: TypeAlias = Callable[[Scenario, Progress], ShardGroup]


Versions = Mapping[str, str]


def local_versions(scenario: Scenario) -> Versions:
    """Return the versions that decide the numbers of a run in this process: code, plug-ins and libraries."""
    return {
        "gossiprec": scenario_code_version(scenario),
        "python": platform.python_version(),
        **package_versions(),
    }


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
