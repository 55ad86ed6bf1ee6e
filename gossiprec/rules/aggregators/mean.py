"""The mean: every model has the same weight."""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F32
from gossiprec.rules.aggregators import AGGREGATORS, Aggregator, Inbox, RoundSums, as_summable_rows


@AGGREGATORS.register("mean")
class Mean(Aggregator):
    """The weighted mean of the models, all with weight 1.

    A coordinator pools answers as they arrive into the weighted mean. A gossip node averages pairwise, so that
    earlier arrivals fade, unless ``protocol.average`` is ``all``. An inbox is reduced to the weighted mean, up to
    rounding.
    """

    streaming = True
    propagates_nonfinite = True
    from_sums = True

    def reduce(self, own: F32, inbox: Inbox) -> F32:
        """Return the weighted mean; it includes the own model in gossip, but not a coordinator's."""
        share = inbox.model_weights / inbox.model_weights.sum()
        summing = as_summable_rows(inbox.rows)
        if summing is not None and not inbox.own_weight:
            return summing.weighted_sum(inbox.row_index, share)
        out = np.empty_like(own)
        for columns, models in inbox.models(own):
            out[columns] = (share[:, None] * models).sum(axis=0)
        return out

    def reduce_sums(self, own: F32, sums: RoundSums) -> F32:
        """Return the own model plus the mean change."""
        return (own + sums.total / sums.weight).astype(np.float32)
