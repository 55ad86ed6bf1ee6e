"""A-hum: items are trained on synthetic users that dislike the targets.

References
----------
See :mod:`gossiprec.adversaries.poisoners.a_ra`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from gossiprec.adversaries.poisoners import POISONERS
from gossiprec.adversaries.poisoners.a_ra import ARa, ARaOptions

if TYPE_CHECKING:  # a scenario can be read without torch
    from torch import Tensor


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

    def harden_users(self, users: Tensor, rows: Tensor, shared: Tensor) -> Tensor:
        """Return the users after the steps."""
        import torch

        dislike = torch.full((len(rows),), float(self.context.sign < 0))
        for _ in range(self.options.steps):
            users = users.detach().requires_grad_()
            loss = self.context.formula.loss(
                users, rows, shared, dislike
            ).sum()  # each user's gradient is its own
            (slope,) = torch.autograd.grad(loss, users)
            users = users.detach() - self.options.rate * slope
        return users.detach()
