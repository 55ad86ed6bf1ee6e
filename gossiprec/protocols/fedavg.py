"""FedAvg: a star whose centre is the coordinator node; a round is its wake.

References
----------
McMahan et al., "Communication-efficient learning of deep networks from decentralized data", AISTATS 2017;
CDA paper (arXiv 2306.08929), section 2.1.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from gossiprec.compute.tape import Behaviour, Op
from gossiprec.options import Options
from gossiprec.protocols import PROTOCOLS
from gossiprec.protocols.base import I64, Protocol
from gossiprec.rng import generator
from gossiprec.sim.clock import WakeClock


class FedAvgOptions(Options):
    """Options of FedAvg."""

    rounds: int = Field(default=100, ge=1, description="wakes of the coordinator")
    participation: float = Field(
        default=1.0, gt=0, le=1, description="share of the clients asked in each round"
    )
    user_table: Literal["own", "averaged"] = Field(
        default="own",
        description="own: a client keeps its user's row; averaged: all rows travel and are averaged (published code)",
    )
    merge: Literal["samples", "mean"] = Field(
        default="samples", description="weight of a client in the average: its number of positives, or 1"
    )


@PROTOCOLS.register("fedavg")
class FedAvg(Protocol):
    """The coordinator sends its model to the round's clients; they adopt it, train, and answer; it averages.

    Answers that arrive after the next round has begun count for that round.
    """

    Options = FedAvgOptions
    options: FedAvgOptions
    has_coordinator = True

    @property
    def replies(self) -> bool:
        """Clients answer."""
        return True

    @property
    def roles(self) -> I64:
        """Clients, then the coordinator."""
        return np.append(np.zeros(self.n_users, np.int64), 1)

    @property
    def behaviours(self) -> Sequence[Behaviour]:
        """Clients and coordinator."""
        return [
            Behaviour(on_wake=(), on_receive=(Op.ADOPT, Op.TRAIN, Op.PUSH)),
            Behaviour(on_wake=(Op.PUSH,), on_receive=(Op.POOL,)),
        ]

    @functools.cached_property
    def clock(self) -> WakeClock:
        """The coordinator's: one round a unit of time."""
        return WakeClock([self.n_users], mean=1.0, law="constant", seed=self.seed)

    @property
    def wakes(self) -> int:
        """Rounds."""
        return self.options.rounds

    @property
    def _n_asked(self) -> int:
        return max(1, round(self.options.participation * self.n_users))

    @property
    def whole_user_table(self) -> bool:
        """As the scenario says."""
        return self.options.user_table == "averaged"

    def merge_weights(self, n_positives: I64) -> npt.NDArray[np.float64]:
        """Return the number of positives, or ones; the coordinator has no data."""
        weights = n_positives if self.options.merge == "samples" else np.ones_like(n_positives)
        return np.append(weights, 0).astype(float)

    @functools.cached_property
    def _round(self) -> list[int]:
        return [0]

    def on_wake(self, node: int, now: float) -> Sequence[int]:
        """Return the clients asked in this round: all, or a uniform sample in order of id."""
        number = self._round[0]
        self._round[0] = number + 1
        if self._n_asked == self.n_users:
            return range(self.n_users)
        draw = generator(self.seed, "participation", number)
        asked: list[int] = np.sort(draw.choice(self.n_users, self._n_asked, replace=False)).tolist()
        return asked

    def on_receive(self, node: int, message: int, now: float) -> Sequence[int]:
        """Clients answer the coordinator."""
        return () if node == self.n_users else (self.n_users,)

    def predicted_fraction_met(self, rounds: float) -> float | None:
        """Return the share of the clients asked at least once."""
        return float(1.0 - (1.0 - self.options.participation) ** rounds)
