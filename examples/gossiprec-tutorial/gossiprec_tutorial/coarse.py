"""Coarse messages: outgoing numbers are rounded at random to multiples of a step."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from gossiprec.base.options import Options
from gossiprec.compute.messages import MessagePayload, Transform
from gossiprec.defences import POLICIES, Policy


class CoarseOptions(Options):
    """Options of the policy."""

    step: float = Field(default=0.01, gt=0, description="numbers in messages are multiples of it")


class Rounding(Transform):
    """Round up or down at random, so that the mean over many messages does not change."""

    rewrites = True

    def __init__(self, step):
        self.step = step

    def encode(self, payload, base, push):
        """Return the rounded payload; draws depend only on seed, node and push."""
        draw = push.generator("coarse")

        def rounded(part):
            if part is None:  # withheld by another policy
                return None
            return (np.floor(part / self.step + draw.random(part.shape)) * self.step).astype(np.float32)

        return MessagePayload(rounded(payload.users), rounded(payload.items), rounded(payload.shared))


@POLICIES.register("coarse")
class Coarse(Policy):
    """The policy of a scenario with `policies: [{name: coarse, nodes: all, step: 0.05}]`."""

    Options = CoarseOptions

    def transform(self):
        """Return the rounding of outgoing messages."""
        return Rounding(self.options.step)
