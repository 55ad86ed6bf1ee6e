"""Getting the shards of a run together, and going on when one dies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from gossiprec.compute.shards.exchange import ShardLostError
from gossiprec.compute.shards.seat import Seat
from gossiprec.emulation.run.progress import Progress
from gossiprec.errors import ResourceError
from gossiprec.scenario import Scenario

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.prepare import Prepared

T = TypeVar("T")


class Shards(AbstractContextManager["Shards"], ABC):
    """The other shards of a run, while it lasts: entered before it is set up, left when it has ended, however.

    Attributes
    ----------
    seat : Seat or None
        Of this process, which leads; None: the run is not divided.
    """

    seat: Seat | None = None

    @abstractmethod
    def start(self, prepared: Prepared) -> None:
        """Let the others set themselves up; the run is set up here."""


class NoShards(Shards):
    """A run that is not divided."""

    def start(self, prepared: Prepared) -> None:
        """Start nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End nothing."""


Gather: TypeAlias = Callable[[Scenario, Progress], Shards]


def gathered(scenario: Scenario, say: Progress, gather: Gather | None = None) -> Shards:
    """Return what gets a run's shards together: on Ray, unless the scenario wants no more than one.

    Raises
    ------
    ResourceError
        If Ray is not installed.
    """
    if scenario.executor.shards == 1:
        return NoShards()
    if gather is None:
        from gossiprec.emulation.shards.on_ray import RayShards

        gather = RayShards
    return gather(scenario, say)


def recovering(first: Callable[[], T], again: Callable[[], T], say: Progress, path: object) -> T:
    """Carry out a run; go on from its last checkpoint when a shard has died.

    Parameters
    ----------
    first : callable
        Carries it out.
    again : callable
        Goes on with it.
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
