"""Central training: a coordinator that holds all interactions; no messages are sent.

It shows the cost of federation by comparison: the same model, data, and draws of first rows and negatives.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gossiprec.base.arrays import F64, I64
from gossiprec.base.options import Count, Options
from gossiprec.compute.plan.tape import Behaviour, Op
from gossiprec.network.protocols import PROTOCOLS, CoordinatedProtocol


class CentralOptions(Options):
    """Options of central training."""

    epochs: Count = 100
    """wakes of the coordinator, each of training.local_epochs epochs"""


@PROTOCOLS.register("central")
class Central(CoordinatedProtocol):
    """The coordinator trains one model of all users and items on all interactions, at each of its wakes."""

    Options = CentralOptions
    options: CentralOptions
    whole_user_table = True
    messages_per_wake = 0

    @classmethod
    def mode_of(cls, options: CentralOptions) -> str:
        """Return the mode in which only the coordinator holds data."""
        return "central"

    @property
    def role_behaviours(self) -> Sequence[Behaviour]:
        """Users do nothing."""
        return [Behaviour(on_wake=(), on_receive=()), Behaviour(on_wake=(Op.TRAIN,), on_receive=())]

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
