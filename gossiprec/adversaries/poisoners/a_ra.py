"""A-ra: items are trained on random users that are assumed to have taken them.

References
----------
D. Rong, Q. He, J. Chen, "Poisoning deep learning based recommender model in federated learning scenarios", IJCAI 2022
(arXiv 2204.13594); published code: rdz98/PoisonFedDLRS, attack.py.
"""

from __future__ import annotations

from pydantic import Field

from gossiprec.adversaries.poisoners import POISONERS, Poisoner, UserGradients, draw_user_rows
from gossiprec.base.arrays import F32
from gossiprec.base.options import Options
from gossiprec.compute.messages import MessagePayload, PushContext
from gossiprec.rules.aggregators import ModelDelta


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
        context, options = self.context, self.options
        drawn = draw_user_rows(push.generator("poison"), options.users, context.formula.layout, options.std)
        gradients = context.formula.gradients(sent, context.targets)
        found = gradients(self.harden_users(drawn, gradients), float(context.sign > 0))
        return ModelDelta(context.targets, found.rows, found.shared)

    def harden_users(self, users: F32, gradients: UserGradients) -> F32:
        """Return the users unchanged."""
        return users
