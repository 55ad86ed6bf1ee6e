"""Pairwise masks: a coordinator learns the mean of its clients' models, and none of the models."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import Options
from gossiprec.base.rng import generator
from gossiprec.compute.messages import Transform
from gossiprec.defences import POLICIES, Policy


class PairwiseMasksOptions(Options):
    """Options of the policy."""

    scale: float = Field(default=1.0, gt=0, description="standard deviation of the mask of a pair")


class Masks(Transform):
    """Add a mask for each pair of clients that answer in a round; one adds it, the other subtracts it."""

    rewrites = True

    def __init__(self, scale):
        self.scale = scale

    def encode(self, payload, base, push):
        """Return the payload with the masks that the node shares with each other node of its cohort."""
        others = push.cohort[push.cohort != push.node]
        if not len(others):
            raise ScenarioError(
                f"policies: pairwise-masks: node {push.node} is the only client of round {push.round}, so no other "
                "mask hides its model; let at least two clients answer in a round (fedavg: participation)"
            )
        numbers, begin = payload.flat.astype(np.float64), 0 if payload.users is None else payload.users.size
        for other in others.tolist():
            low, high = sorted((push.node, other))
            draw = generator(push.seed, "pairwise-masks", low * 2**15 + high, push.round)
            mask = draw.normal(0.0, self.scale, len(numbers) - begin)
            numbers[begin:] += mask if push.node == low else -mask
        return payload.with_numbers(numbers.astype(np.float32))


@POLICIES.register("pairwise-masks")
class PairwiseMasks(Policy):
    """The policy of a scenario with `policies: [{name: pairwise-masks, nodes: all}]`, fedavg and `merge: mean`."""

    Options = PairwiseMasksOptions

    def transform(self):
        """Return the masking of outgoing models."""
        return Masks(self.options.scale)
