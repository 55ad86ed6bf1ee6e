"""The mean, if it has the lower loss on public data: an example, not a good rule."""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F32
from gossiprec.base.options import Options
from gossiprec.rules import ReportsFindings, RootDataOptions, UsesRootData
from gossiprec.rules.aggregators import AGGREGATORS, Aggregator, Inbox


class KeepIfBetterOptions(Options):
    """Options of the rule."""

    root: RootDataOptions = RootDataOptions()
    """what is public"""


@AGGREGATORS.register("keep-if-better")
class KeepIfBetter(UsesRootData, ReportsFindings, Aggregator):
    """The rule that takes the mean of the models only if it lowers the loss."""

    Options = KeepIfBetterOptions
    is_robust = False
    measures = ("root_loss",)
    last = float("nan")

    def reduce(self, own: F32, inbox: Inbox) -> F32:
        """Return the better one of the mean and the own model."""
        mean = np.concatenate([models.mean(axis=0) for _, models in inbox.received()])
        losses = [self.root.loss(model, self.root.first_rows, 0) for model in (own, mean)]
        self.last = min(losses)
        return (own, mean)[int(np.argmin(losses))]

    def findings(self) -> dict[str, float]:
        """Return the lower loss of the last round."""
        return {"root_loss": self.last}
