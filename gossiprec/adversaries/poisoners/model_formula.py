"""A model's formula for synthetic users, with derivatives by torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gossiprec.base.arrays import F32, I32
from gossiprec.base.errors import ScenarioError
from gossiprec.base.registry import registry_name
from gossiprec.compute.messages import MessagePayload
from gossiprec.models import BlockRole, Layout, Model
from gossiprec.models.feeds import PointwiseFeed
from gossiprec.rules.aggregators.base import ModelDelta

if TYPE_CHECKING:  # a scenario can be read without torch
    from torch import Tensor


class ModelFormula:
    """The public part of a model that was sent: its scores and its training loss.

    Parameters
    ----------
    model : Model
    layout : Layout
    """

    def __init__(self, model: Model, layout: Layout) -> None:
        self.model = model
        self.layout = replace(layout, n_users=1)

    @staticmethod
    def check(model: Model, layout: Layout, name: str) -> None:
        """Refuse a model without user rows, or one that does not learn from labelled items.

        Raises
        ------
        ScenarioError
        """
        what = None
        if not issubclass(model.feed, PointwiseFeed):
            what = "does not learn from single items with labels"
        elif not model.predicts_probabilities:
            what = "does not predict probabilities"
        elif not layout.user_width:
            what = "has no user rows"
        elif layout.of(BlockRole.PRIVATE):
            what = "has private weights"
        if what is not None:
            raise ScenarioError(
                f"attackers: {name} trains items on synthetic users, but {registry_name(model)} {what}; "
                "choose a model such as gmf, ncf, or mf with loss: bce"
            )

    def scores(self, users: Tensor, rows: Tensor, shared: Tensor) -> Tensor:
        """Return the logits of all `rows` for all `users`, shape (n_users, n_rows), also under derivatives."""
        import torch

        query = {"user": torch.zeros(1, dtype=torch.int64), "items": torch.arange(len(rows))}
        found = torch.func.vmap(lambda user: self.model.score(self._named(user, rows, shared), query))
        scores: Tensor = found(users)
        return scores

    def loss(self, users: Tensor, rows: Tensor, shared: Tensor, labels: Tensor) -> Tensor:
        """Return the model's loss for each of `users` given the labels of `rows`, shape (n_users,)."""
        import torch

        batch = {
            "user": torch.zeros(1, dtype=torch.int64), "items": torch.arange(len(rows)), "labels": labels,
            "weights": torch.ones_like(labels),
        }  # fmt: skip
        found = torch.func.vmap(lambda user: self.model.loss(self._named(user, rows, shared), batch))
        losses: Tensor = found(users)
        return losses

    def _named(self, user: Tensor, rows: Tensor, shared: Tensor) -> Mapping[str, Tensor]:
        tables = {"users": user[None], "items": rows}
        return self.layout.named(tables | self.layout.shared_blocks(shared))


def leaf_tensors(sent: MessagePayload, items: I32) -> tuple[Tensor, Tensor]:
    """Return some items' rows and the shared weights as leaf tensors for derivatives."""
    import torch

    rows, shared = torch.from_numpy(sent.items[items]), torch.from_numpy(sent.shared.copy())
    return rows.requires_grad_(), shared.requires_grad_()


def item_gradient(loss: Tensor, items: I32, rows: Tensor, shared: Tensor) -> ModelDelta:
    """Return the derivative of a loss with respect to some items' rows and the shared weights."""
    import torch

    parts = torch.autograd.grad(loss, (rows, shared), allow_unused=True, materialize_grads=True)
    of_rows, of_shared = (part.numpy() for part in parts)
    return ModelDelta(items, of_rows, of_shared)


def draw_user_rows(draw: np.random.Generator, count: int, layout: Layout, std: float) -> F32:
    """Draw rows of synthetic users from N(0, std^2), shape (count, user_width)."""
    return draw.normal(0.0, std, (count, layout.user_width)).astype(np.float32)
