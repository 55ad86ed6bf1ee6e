"""Adaptive server optimization: the coordinator takes Adam's steps along the aggregated delta.

References
----------
S. J. Reddi et al., "Adaptive federated optimization", ICLR 2021, algorithm 2 (FedAdam). As there, the means of
gradient and square have no bias correction.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F32
from gossiprec.base.options import Options
from gossiprec.rules.servers import SERVERS, ClientAnswers, Downlink, RoundContext, Server


class AdaptiveOptions(Options):
    """Options of adaptive server optimization."""

    learning_rate: float = Field(default=0.01, gt=0)
    """size of a step"""
    beta1: float = Field(default=0.9, ge=0, lt=1)
    """decay rate of the mean difference"""
    beta2: float = Field(default=0.99, ge=0, lt=1)
    """decay rate of the mean square"""
    tau: float = Field(default=1e-3, gt=0)
    """degree of adaptivity, added to the root of the mean square"""


@SERVERS.register("adaptive")
class Adaptive(Server):
    """The new version is the last plus ``learning_rate * m / (sqrt(v) + tau)``, m and v being means.

    In a round without answers nothing moves.
    """

    Options = AdaptiveOptions
    options: AdaptiveOptions
    needs_answers = False
    checkpointed = ("mean", "square")

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._mean: F32 | None = None
        self._square: F32 | None = None

    def round(self, published: F32, aggregated: F32, answers: ClientAnswers, round: RoundContext) -> Downlink:
        """Return the version after a step."""
        if not len(answers.clients):
            return Downlink(published[None])
        options, difference = self.options, aggregated - published
        if self._mean is None or self._square is None:
            self._mean, self._square = np.zeros_like(difference), np.full_like(difference, options.tau**2)
        self._mean = options.beta1 * self._mean + (1.0 - options.beta1) * difference
        self._square = self.next_square(self._square, difference)
        step = options.learning_rate * self._mean / (np.sqrt(self._square) + options.tau)
        version = (published + step).astype(np.float32, copy=False)
        return Downlink(version[None])

    def next_square(self, square: F32, difference: F32) -> F32:
        """Return the mean square after a round, given the one before and the aggregated delta."""
        found = self.options.beta2 * square + (1.0 - self.options.beta2) * np.square(difference)
        return found.astype(np.float32, copy=False)
