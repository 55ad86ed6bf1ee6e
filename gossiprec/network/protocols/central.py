"""Central training: a coordinator that holds all interactions; no messages are sent.

It shows the cost of federation by comparison: the same model, data, and draws of first rows and negatives.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F64, I64
from gossiprec.base.options import LARGEST, Options
from gossiprec.compute.plan.tape import Behaviour, Op
from gossiprec.network.protocols import PROTOCOLS
from gossiprec.network.protocols.base import Protocol
from gossiprec.network.sim.clock import WakeClock


class CentralOptions(Options):
    """Options of central training."""

    epochs: int = Field(
        default=100,
        ge=1,
        le=LARGEST,
        description="wakes of the coordinator, each of training.local_epochs epochs",
    )


@PROTOCOLS.register("central")
class Central(Protocol):
    """The coordinator trains one model of all users and items on all interactions, at each of its wakes."""

    Options = CentralOptions
    options: CentralOptions
    has_coordinator = True
    peers_meet = False
    whole_user_table = True
    messages_per_wake = 0

    @classmethod
    def mode_of(cls, options: CentralOptions) -> str:
        """Return the mode in which only the coordinator holds data."""
        return "central"

    @property
    def roles(self) -> I64:
        """Users, then the coordinator."""
        return np.append(np.zeros(self.n_users, np.int64), 1)

    @property
    def behaviours(self) -> Sequence[Behaviour]:
        """Users do nothing."""
        return [Behaviour(on_wake=(), on_receive=()), Behaviour(on_wake=(Op.TRAIN,), on_receive=())]

    @functools.cached_property
    def clock(self) -> WakeClock:
        """The coordinator's clock: one wake per unit of time."""
        return WakeClock([self.n_users], mean=1.0, law="constant", seed=self.seed)

    @property
    def wakes(self) -> int:
        """Number of epochs."""
        return self.options.epochs

    def merge_weights(self, n_positives: I64) -> F64:
        """Return ones: nothing is merged."""
        return np.ones(self.n_nodes)

    def on_wake(self, node: int, now: float) -> Sequence[int]:
        """Return no receivers."""
        return ()
