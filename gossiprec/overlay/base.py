"""What all overlays are: the answer to *whom does this node send to now*."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from gossiprec.overlay.profiles import Profiles
from gossiprec.sim.availability import Availability


@dataclass(frozen=True)
class Setting:
    """Where an overlay is played.

    Attributes
    ----------
    n_nodes : int
    fanout : int
        Peers that a wake sends to, at most.
    seed : int
    availability : Availability
        When nodes are online.
    profiles : Profiles or None
        Of the nodes' users; None where nothing is known of them.
    """

    n_nodes: int
    fanout: int
    seed: int
    availability: Availability
    profiles: Profiles | None = None


class Views(ABC):
    """Whom each node may send to. A node's wakes are asked for in the order of time."""

    @abstractmethod
    def next_receivers(self, node: int, now: float) -> Sequence[int]:
        """Return whom the node sends to at its next wake, which is now: distinct others, perhaps none."""

    @abstractmethod
    def missed(self, node: int, now: float) -> None:
        """Let a wake pass that does not happen: its draws are not left for the next one."""
