"""A-ra: items are trained on random users that are assumed to have taken them.

References
----------
D. Rong, Q. He, J. Chen, "Poisoning deep learning based recommender model in federated learning scenarios", IJCAI 2022
(arXiv 2204.13594); published code: rdz98/PoisonFedDLRS, attack.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from gossiprec.adversaries.poisoners import POISONERS, Poisoner, draw_user_rows, item_gradient, leaf_tensors
from gossiprec.base.options import Options
from gossiprec.compute.messages import MessagePayload, PushContext
from gossiprec.rules.aggregators import ModelDelta

if TYPE_CHECKING:  # a scenario can be read without torch
    from torch import Tensor


class ARaOptions(Options):
    """Options of A-ra."""

    users: int = Field(default=10, ge=1, le=10_000)
    """number of synthetic users per message"""
    std: float = Field(default=0.01, gt=0)
    """standard deviation of the normal distribution of their rows"""


@POISONERS.register("a-ra")
class ARa(Poisoner):
    """Synthetic users with random rows that have taken the targets.

    The gradient is of the mean over these users of the model's loss, with the targets as their only samples, labelled
    1, or 0 to demote them; it is taken with respect to the targets' rows and the shared weights.
    """

    Options = ARaOptions
    options: ARaOptions

    def gradient(self, sent: MessagePayload, push: PushContext) -> ModelDelta:
        """Return the gradient over new users at each push."""
        import torch

        context, options = self.context, self.options
        drawn = draw_user_rows(push.generator("poison"), options.users, context.formula.layout, options.std)
        rows, shared = leaf_tensors(sent, context.targets)
        users = self.harden_users(torch.from_numpy(drawn), rows.detach(), shared.detach())
        wanted = torch.full((len(rows),), float(context.sign > 0))
        loss = context.formula.loss(users, rows, shared, wanted).mean()
        return item_gradient(loss, context.targets, rows, shared)

    def harden_users(self, users: Tensor, rows: Tensor, shared: Tensor) -> Tensor:
        """Return the users unchanged."""
        return users
