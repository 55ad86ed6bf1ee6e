"""Server momentum: the coordinator continues in the direction of earlier rounds.

References
----------
T.-M. H. Hsu, H. Qi, M. Brown, "Measuring the effects of non-identical data distribution for federated visual
classification", 2019, section 4.3 (FedAvgM).
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from gossiprec.base.arrays import F32
from gossiprec.base.options import Options
from gossiprec.rules.servers import SERVERS, ClientAnswers, Downlink, RoundContext, Server


class MomentumOptions(Options):
    """Options of server momentum."""

    beta: float = Field(default=0.9, ge=0, lt=1)
    """fraction of the previous step that is added"""
    learning_rate: float = Field(default=1.0, gt=0)
    """size of a step"""


@SERVERS.register("momentum")
class Momentum(Server):
    """The new version is the last plus the step ``v = beta v + (aggregated - last)``.

    In a round without answers nothing moves. With beta 0 and learning rate 1 it is FedAvg.
    """

    Options = MomentumOptions
    options: MomentumOptions
    needs_answers = False
    checkpointed = ("step",)

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._step: F32 | None = None

    def round(self, published: F32, aggregated: F32, answers: ClientAnswers, round: RoundContext) -> Downlink:
        """Return the version after a step."""
        if not len(answers.clients):
            return Downlink(published[None])
        difference = aggregated - published
        self._step = difference if self._step is None else self.options.beta * self._step + difference
        return Downlink((published + self.options.learning_rate * self._step)[None])
