"""PFedRec: a score function of its own for every client, and items that it fine-tunes.

References
----------
C. Zhang, G. Long, T. Zhou, P. Yan, Z. Zhang, C. Zhang, B. Yang, "Dual personalization on federated recommendation",
IJCAI 2023, and its public code (Zhangcx19/IJCAI-23-PFedRec). The score function is one linear unit on an item's row:
its weights are the user's row of matrix factorisation. Where the paper is silent, this follows the code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F32, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import Options
from gossiprec.base.registry import registry_name
from gossiprec.base.rng import generator
from gossiprec.federated import (
    RECOMMENDERS,
    AnalyticTerm,
    CoordinatorContext,
    CoordinatorHook,
    PersonalModels,
    Recommender,
)
from gossiprec.models.base import Layout
from gossiprec.models.base.kernel_interface import CompiledGradient
from gossiprec.models.base.parameter_blocks import TensorMap
from gossiprec.models.mf import MF
from gossiprec.rules.servers import ClientAnswers, Extras, RoundContext

if TYPE_CHECKING:
    from torch import Tensor


class PFedRecOptions(Options):
    """Options of PFedRec."""

    item_rate: float | None = Field(default=None, gt=0)
    """learning rate of the item rows; null: that of the training, which the score function always has"""
    bias: bool = True
    """whether the last number of a user's row is the bias of its score function; that of an item's row is then 1"""
    personal_items: bool = True
    """true: clients that have trained the present version recommend by their own items; false: by the common ones"""


@RECOMMENDERS.register("pfedrec")
class PFedRec(Recommender):
    """In each step the client's score function moves first, and then its items, by the new score function."""

    Options = PFedRecOptions
    options: PFedRecOptions

    def check(self, layout: Layout, *, full_batches: bool) -> None:
        """Refuse models other than a linear unit on an item's row."""
        options = self.model.options
        if not isinstance(self.model, MF) or options.loss != "bce":
            raise ScenarioError(
                f"recommender: pfedrec requires a linear score function trained on cross-entropy, which "
                f"{registry_name(self.model)} with these options is not; set model to {{name: mf, loss: bce}}"
            )
        if self.options.bias and options.dim < 2:
            raise ScenarioError(
                f"model.dim: found {options.dim}, but the last number of a row is the bias with pfedrec; "
                "expected 2 or more; raise it, or set recommender.bias to false"
            )

    def loss(self, p: TensorMap, batch: TensorMap, extras: TensorMap) -> Tensor:
        """Return a sum of losses with the gradient of the two steps.

        The gradient by the user's row is the model's. The gradient by the items is the model's after a step of gradient
        descent of the user's row, times the quotient of the two learning rates.
        """
        import torch

        rows, rate = p["items"], self.options.item_rate or self.learning_rate
        if self.options.bias:
            rows = hold_last(rows, 1)
        held = rows.detach()

        def by_user(users: Tensor) -> Tensor:
            return self.model.loss({**p, "users": users, "items": held}, batch)

        user = p["users"].detach()
        moved = (user - self.learning_rate * torch.func.grad(by_user)(user)).detach()
        scaled = held + rate / self.learning_rate * (rows - held)
        return by_user(p["users"]) + self.model.loss({**p, "users": moved, "items": scaled}, batch)

    def analytic_term(self, gradient: CompiledGradient) -> AnalyticTerm:
        """Return the term that replaces the items' slopes by those of the second step."""
        from gossiprec.federated import term_kernels

        ratio = (self.options.item_rate or self.learning_rate) / self.learning_rate
        numbers = np.array([self.learning_rate, ratio, float(self.options.bias)])
        return AnalyticTerm(term_kernels.specialise_second_step(gradient.fill), numbers)

    def personal_models(self, clients: I64, version: F32, extras: Extras) -> PersonalModels | None:
        """Return the present version, to which each client adds its whole change."""
        if not self.options.personal_items:
            return None
        return PersonalModels(version[None], np.zeros(len(clients), np.int64), 1.0)

    def coordinator_hook(self, context: CoordinatorContext) -> CoordinatorHook:
        """Return the coordinator's part, which gives all clients the same first score function."""
        return FirstScoreFunction(context.layout, context.seed, bias=self.options.bias)


def hold_last(rows: Tensor, count: int) -> Tensor:
    """Return rows with the same values, of which the last `count` numbers have no gradient."""
    import torch

    return torch.cat([rows[:, :-count], rows[:, -count:].detach()], dim=1)


class FirstScoreFunction(CoordinatorHook):
    """The score function of all clients at the start: uniform as in a new linear unit of torch.

    Parameters
    ----------
    layout : Layout
    seed : int
    bias : bool
        Whether a user's row holds a bias after its weights, and an item's row a one.
    tail : int
        Numbers after these that the score function does not use: zeros in users' rows.
    """

    def __init__(self, layout: Layout, seed: int, *, bias: bool, tail: int = 0) -> None:
        self._layout, self._seed, self._bias, self._tail = layout, seed, bias, tail

    def start(self, version: F32, users: F32) -> tuple[F32, F32]:
        """Return the version, with ones for the bias, and one drawn row for all users."""
        width, first = users.shape[1] - self._tail, version.copy()
        bound = 1 / np.sqrt(width - self._bias)
        row = np.zeros(users.shape[1], np.float32)
        row[:width] = generator(self._seed, "score-function").uniform(-bound, bound, width)
        if self._bias:
            self._layout.version_tables(first)["items"][:, width - 1] = 1
        return first, np.tile(row, (len(users), 1))

    def step(self, version: F32, answers: ClientAnswers, round: RoundContext) -> tuple[F32, Extras]:
        """Return the version as aggregated, and no extras."""
        return version, {}
