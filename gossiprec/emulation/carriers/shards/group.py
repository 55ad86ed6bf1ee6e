"""The other shards of a divided run, on Ray or as threads, and the versions that all of them must have."""

from __future__ import annotations

import platform
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
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

    Attributes
    ----------
    shard : ShardContext
        The shard of this process, which leads.
    """

    shard: ShardContext

    @abstractmethod
    def start(self, prepared: PreparedRun) -> None:
        """Let the other shards prepare the run; it is already prepared here."""


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
