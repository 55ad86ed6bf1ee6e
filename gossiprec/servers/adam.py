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
from gossiprec.jit import compiled
from gossiprec.numerics.reused import ReusedMemory
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
        self._memory = ReusedMemory()

    def round(self, published: F32, aggregated: F32, answers: Answers, round: Round) -> Downlink:
        """Take a step."""
        if not len(answers.clients):
            return Downlink(published[None])
        if self._mean is None or self._square is None:
            self._mean, self._square = np.zeros(published.shape), np.zeros(published.shape)
        self._steps += 1
        (found,), (beta1, beta2) = self._memory.empty(published.shape), self.options.betas
        step = compiled(_step)
        columns = (published, aggregated, self._mean, self._square, found)
        numbers = (beta1, beta2, 1.0 - beta1**self._steps, 1.0 - beta2**self._steps)
        edges = np.linspace(0, len(found), round.threads.size + 1).astype(int).tolist()

        def step_in(part: int) -> None:
            some = slice(edges[part], edges[part + 1])
            step(
                *(column[some] for column in columns), *numbers, self.options.learning_rate, self.options.eps
            )

        round.threads.run(step_in)
        return Downlink(found[None])


def _step(
    published: F32, aggregated: F32, mean: F64, square: F64, found: F32, beta1: float, beta2: float,
    mean_part: float, square_part: float, rate: float, eps: float,
) -> None:  # fmt: skip
    """Set `found` to the next version, and go on with both means, of which a part is there yet: in one pass."""
    for k in range(len(published)):
        change = np.float64(aggregated[k]) - np.float64(published[k])
        mean[k] = beta1 * mean[k] + (1.0 - beta1) * change
        square[k] = beta2 * square[k] + (1.0 - beta2) * (change * change)
        step = rate * (mean[k] / mean_part) / (np.sqrt(square[k] / square_part) + eps)
        found[k] = np.float64(published[k]) + step
