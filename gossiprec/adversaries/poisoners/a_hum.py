"""A-hum: items are trained on synthetic users that dislike the targets.

References
----------
See :mod:`gossiprec.adversaries.poisoners.a_ra`.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from gossiprec.adversaries.poisoners import POISONERS, UserGradients
from gossiprec.adversaries.poisoners.a_ra import ARa, ARaOptions
from gossiprec.base.arrays import F32


class AHumOptions(ARaOptions):
    """Options of A-hum."""

    steps: int = Field(default=30, ge=0, le=10_000)
    """number of steps that make users hard; 0: A-ra"""
    rate: float = Field(default=0.001, gt=0)
    """learning rate of these steps (plain gradient descent)"""


@POISONERS.register("a-hum")
class AHum(ARa):
    """A-ra with users that were first trained to dislike the targets.

    The training is gradient descent on each user's row by the model's loss with the targets labelled 0, or 1 to
    demote them; items and shared weights are those that the node was sent.
    """

    Options = AHumOptions
    options: AHumOptions

    def harden_users(self, users: F32, gradients: UserGradients) -> F32:
        """Return the users after the steps."""
        rate, dislike = np.float32(self.options.rate), float(self.context.sign < 0)
        for _ in range(self.options.steps):
            users = users - rate * gradients(users, dislike).users
        return users
