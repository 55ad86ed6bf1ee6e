"""Groups of shards: connecting them, continuing after a loss, and comparing their versions."""

from __future__ import annotations

import platform
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from gossiprec.base.errors import ResourceError
from gossiprec.compute.shards.channel import ShardLostError
from gossiprec.compute.shards.row_routing import ShardContext
from gossiprec.emulation.progress import Progress
from gossiprec.runs.manifest import package_versions
from gossiprec.scenario import Scenario
from gossiprec.scenario.registries import scenario_code_version

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.prepare import PreparedRun


T = TypeVar("T")


class ShardGroup(AbstractContextManager["ShardGroup"], ABC):
    """The other shards of a run: entered before the run is prepared, and left when it ends in any way.

    Attributes
    ----------
    seat : Seat or None
        The shard of this process, which leads, or None if the run is not divided.
    """

    seat: ShardContext | None = None

    @abstractmethod
    def start(self, prepared: PreparedRun) -> None:
        """Let the other shards prepare the run; it is already prepared here."""


class SingleProcess(ShardGroup):
    """The group of a run that is not divided."""

    def start(self, prepared: PreparedRun) -> None:
        """Start nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End nothing."""


MakeShardGroup: TypeAlias = Callable[[Scenario, Progress], ShardGroup]


def retry_after_shard_loss(first: Callable[[], T], again: Callable[[], T], say: Progress, path: object) -> T:
    """Carry out a run, and resume it from its last checkpoint when a shard has died.

    Parameters
    ----------
    first : callable
        Carries out the run.
    again : callable
        Resumes the run.
    say : Progress
    path : path
        The run directory.

    Raises
    ------
    ResourceError
        If the same shard dies twice.
    """
    dead: dict[int, str] = {}
    attempt = first
    while True:
        try:
            return attempt()
        except ShardLostError as lost:
            if lost.number in dead:
                raise ResourceError(
                    f"shard {lost.number} died twice ({dead[lost.number]}; then {lost.reason}): its machine "
                    "may be out of memory (check dmesg), or its process is being killed; use more or "
                    f"smaller shards, and resume with: gossiprec resume {path}"
                ) from lost
            dead[lost.number] = lost.reason
            say.note(f"{lost}; restarting that shard and resuming from the last checkpoint")
            attempt = again


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
    wrong = []
    for number, (where, versions) in sorted(theirs.items()):
        for name in sorted({*own, *versions}):
            here, there = own.get(name, "none"), versions.get(name, "none")
            if here != there:
                wrong.append(f"shard {number} on {where}: {name} {there}, but {here} in shard 0")
    if wrong:
        raise ResourceError(
            "all shards must have the same versions to compute the same bytes: "
            + "; ".join(wrong)
            + "; install the same versions on all machines"
        )
