"""Adam at the coordinator: what clients have changed is taken for a gradient, against its sign.

References
----------
D. P. Kingma, J. Ba, "Adam: a method for stochastic optimization", ICLR 2015, algorithm 1. FedAdam, without correction
for the start of its means, is `adaptive`.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import numpy as np
from pydantic import Field

from gossiprec.arrays import F32, F64
from gossiprec.options import Options
from gossiprec.servers import SERVERS
from gossiprec.servers.base import Answers, Downlink, Round, Server

Decay: TypeAlias = Annotated[float, Field(ge=0, lt=1)]


class AdamOptions(Options):
    """Options of Adam at the coordinator."""

    learning_rate: float = Field(default=0.01, gt=0, description="size of a step")
    betas: tuple[Decay, Decay] = Field(
        default=(0.9, 0.999), description="decay of the mean change and of its mean square"
    )
    eps: float = Field(default=1e-8, gt=0, description="term against division by zero")


@SERVERS.register("adam")
class Adam(Server):
    """The new version is the last plus ``learning_rate * m / (sqrt(v) + eps)``, m and v being corrected means.

    As in any dense Adam, what nobody changes in a round still moves by its means. In a round without answers nothing
    moves, and no step is counted.
    """

    Options = AdamOptions
    options: AdamOptions
    changing = ("mean", "square", "steps")

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._mean: F64 | None = None
        self._square: F64 | None = None
        self._steps = 0

    def round(self, published: F32, aggregated: F32, answers: Answers, round: Round) -> Downlink:
        """Take a step."""
        if not len(answers.clients):
            return Downlink(published[None])
        (beta1, beta2), change = self.options.betas, aggregated.astype(np.float64) - published
        if self._mean is None or self._square is None:
            self._mean, self._square = np.zeros_like(change), np.zeros_like(change)
        self._steps += 1
        self._mean = beta1 * self._mean + (1.0 - beta1) * change
        self._square = beta2 * self._square + (1.0 - beta2) * np.square(change)
        mean = self._mean / (1.0 - beta1**self._steps)
        square = self._square / (1.0 - beta2**self._steps)
        step = self.options.learning_rate * mean / (np.sqrt(square) + self.options.eps)
        return Downlink((published + step).astype(np.float32)[None])
