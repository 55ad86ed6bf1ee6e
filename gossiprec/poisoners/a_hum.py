"""A-hum: items are trained on made-up users who are hard to win.

References
----------
As :mod:`gossiprec.poisoners.a_ra`.
"""

from __future__ import annotations

import torch
from pydantic import Field

from gossiprec.poisoners import POISONERS
from gossiprec.poisoners.a_ra import ARa, ARaOptions


class AHumOptions(ARaOptions):
    """Options of A-hum."""

    steps: int = Field(default=30, ge=0, le=10_000, description="that make users hard; 0: A-ra")
    rate: float = Field(
        default=0.001, gt=0, description="learning rate of these steps, plain gradient descent"
    )


@POISONERS.register("a-hum")
class AHum(ARa):
    """As A-ra, with users who were trained before to dislike the targets.

    That is gradient descent on each user's row by the model's loss, were the targets labelled 0, items and shared
    weights being those that the node was sent.
    """

    Options = AHumOptions
    options: AHumOptions

    def hardened(self, users: torch.Tensor, rows: torch.Tensor, shared: torch.Tensor) -> torch.Tensor:
        """Return the users after the steps."""
        dislike = torch.zeros(len(rows))
        for _ in range(self.options.steps):
            users = users.detach().requires_grad_()
            loss = self.world.formula.loss(
                users, rows, shared, dislike
            ).sum()  # each user's gradient is its own
            (slope,) = torch.autograd.grad(loss, users)
            users = users.detach() - self.options.rate * slope
        return users.detach()
