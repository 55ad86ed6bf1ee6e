"""LightGCN with an additional loss: two views of the users and items of a batch are contrasted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from gossiprec.models.base.contrastive import mean_info_nce
from gossiprec.models.base.parameter_blocks import TensorMap
from gossiprec.models.lightgcn.model import LightGCN, LightGCNOptions

if TYPE_CHECKING:
    from torch import Tensor


class ContrastOptions(LightGCNOptions):
    """Options of LightGCN and of the contrastive loss."""

    weight: float = Field(default=0.1, gt=0)
    """lambda, weight of the contrastive loss"""
    temperature: float = Field(default=0.2, gt=0)
    """tau"""


class ContrastiveLightGCN(LightGCN):
    """LightGCN plus `weight` times the InfoNCE of two views, which a step adds to `p` as ``one`` and ``other``.

    A view has a row for every user, then for every item. Without views there is no contrastive loss.
    """

    options: ContrastOptions
    has_sample_gradients = False
    at_clients = False

    def loss(self, p: TensorMap, batch: TensorMap) -> Tensor:
        """Return L_rec + lambda L_cl."""
        import torch

        loss = super().loss(p, batch)
        if "one" not in p:
            return loss
        users, items = (torch.unique(batch[name]) for name in ("user", "items"))
        contrast = sum(
            mean_info_nce(p["one"][some], p["other"][some], self.options.temperature)
            for some in self.groups(users, items + len(p["users"]))
        )
        return loss + self.options.weight * contrast

    def groups(self, users: Tensor, items: Tensor) -> Sequence[Tensor]:
        """Return groups of view rows to contrast with one another: by default users, and items.

        Parameters
        ----------
        users, items : Tensor
            Rows of the users and of the positive items of a batch, each once.
        """
        return users, items
