"""The trimmed mean: number by number, without the largest and the smallest.

References
----------
D. Yin, Y. Chen, K. Ramchandran, P. Bartlett, "Byzantine-robust distributed learning: towards optimal statistical
rates", ICML 2018, definition 2.
"""

from __future__ import annotations

import math

import numpy as np
from pydantic import Field

from gossiprec.aggregators import AGGREGATORS
from gossiprec.aggregators.base import Aggregator, Inbox
from gossiprec.arrays import F32
from gossiprec.options import Options


class TrimmedMeanOptions(Options):
    """Options of the trimmed mean."""

    share: float = Field(
        default=0.1,
        ge=0,
        lt=0.5,
        description="of the models, rounded up: so many values are dropped at each end",
    )


@AGGREGATORS.register("trimmed-mean")
class TrimmedMean(Aggregator):
    """Of each number, the mean of the values that are left when the largest and the smallest are dropped.

    Weights are not used. If so many would be dropped that none is left, one or two are: it is then the median. With one
    or two models nothing is dropped.
    """

    Options = TrimmedMeanOptions
    options: TrimmedMeanOptions

    def reduce(self, own: F32, inbox: Inbox) -> F32:
        """Return the mean of what is left; a value that is not a number counts as the largest."""
        n, out = len(inbox.model_weights), np.empty_like(own)
        dropped = min(math.ceil(self.options.share * n - 1e-9), (n - 1) // 2)
        for columns, models in inbox.models(own):
            out[columns] = np.sort(models, axis=0)[dropped : n - dropped].mean(axis=0)
        return out
