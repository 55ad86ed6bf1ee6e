"""The mean by samples: the weight of a model is the number of its node's positives.

References
----------
McMahan et al., "Communication-efficient learning of deep networks from decentralized data", AISTATS 2017.
"""

from __future__ import annotations

from gossiprec.base.arrays import F64, I64
from gossiprec.rules.aggregators import AGGREGATORS
from gossiprec.rules.aggregators.mean import Mean


@AGGREGATORS.register("samples")
class SampleWeightedMean(Mean):
    """The mean of the models, weighted by the positives of their nodes."""

    def weights(self, n_positives: I64) -> F64:
        """Return the number of positives."""
        return n_positives.astype(float)
