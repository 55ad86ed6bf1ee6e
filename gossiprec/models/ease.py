"""EASE: a linear autoencoder of sets of items, which predicts no item from itself.

References
----------
Steck, "Embarrassingly shallow autoencoders for sparse data", WWW 2019, eq. 2 and 8.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from pydantic import Field

from gossiprec.base.options import Options
from gossiprec.data.training_data import TrainingData
from gossiprec.models import MODELS
from gossiprec.models.base.parameter_blocks import BlockRole, Layout, ParameterBlock, TensorMap
from gossiprec.models.base.sequence_model import SequenceModel
from gossiprec.models.feeds import SetFeed
from gossiprec.models.feeds.base import Feed

if TYPE_CHECKING:
    from torch import Tensor


class EASEOptions(Options):
    """Options of EASE."""

    loss: ClassVar[str] = "all"
    in_batch: ClassVar[bool] = False
    l2: float = Field(default=100.0, gt=0)
    """lambda, the weight of the squared norm of all weights; the published code has 100 to 1000"""


@MODELS.register("ease")
class EASE(SequenceModel):
    """Score of item j for a user with the set x: ``sum_i x_i B_ij``, with ``B_jj = 0``.

    B minimises ``|X - X B|^2 + l2 |B|^2``. The row of item j is column j of B.

    Notes
    -----
    A coordinator with all data (`central`) computes the minimum in one step, whatever `training` says. Elsewhere nodes
    take gradient steps on their users' parts of the same sum.
    """

    Options = EASEOptions
    options: EASEOptions  # type: ignore[assignment]
    feed = SetFeed
    has_sample_gradients = True
    needs_all_items = True
    n_items = 0
    n_users = 1

    def bind_to_data(self, split: TrainingData) -> Self:
        """Return the model with a weight for each pair of items."""
        bound = copy.copy(self)
        bound.n_items, bound.n_users = split.n_items, split.n_users
        return bound

    def layout(self, n_items: int, n_users: int = 1) -> Layout:
        """Return the layout of one version; an item's row is as long as there are items in the data."""
        bound = copy.copy(self)
        bound.n_items = self.n_items or n_items
        return super(EASE, bound).layout(n_items, n_users)

    def blocks(self) -> tuple[ParameterBlock, ...]:
        """Return ``items``: the weights by which all items predict an item, zero at first."""
        return (ParameterBlock("items", BlockRole.ITEM, (self.n_items,)),)

    def state_after(self, p: TensorMap, history: Tensor, user: Tensor) -> Tensor:
        """Return sets of items as vectors of zeros and ones."""
        known = (history >= 0).to(p["items"].dtype)
        none = known.new_zeros(*known.shape[:-1], p["items"].shape[-1])
        return none.scatter_add(-1, history.clamp(min=0), known)

    def states(self, p: TensorMap, batch: TensorMap) -> Tensor:
        """Return the set of a list at every place."""
        items = batch["items"]
        return self.state_after(p, items, batch["user"])[:, None].expand(-1, items.shape[1], -1)

    def loss(self, p: TensorMap, batch: TensorMap) -> Tensor:
        """Return the mean over users of their squared errors, and the users' share of the penalty."""
        import torch

        x, rows, weights = self.state_after(p, batch["items"], batch["user"]), p["items"], batch["weights"]
        rows = rows - torch.diag_embed(rows.diagonal())
        lost = (x - x @ rows.T).square().sum(-1)
        return (lost * weights).sum() / weights.sum().clamp(min=1.0) + self.options.l2 / self.n_users * (
            rows.square().sum()
        )

    def solve(self, feed: Feed) -> dict[str, Tensor]:
        """Return the items' rows at the minimum: ``B = I - P / diag(P)`` with ``P = (X'X + l2 I)^-1``."""
        import torch

        positives, n_items = feed.positives, feed.n_items
        x = torch.zeros(len(positives), n_items, dtype=torch.float64)
        owners, items = (part.astype(np.int64) for part in (positives.row_of_each_value, positives.values))
        x[torch.from_numpy(owners), torch.from_numpy(items)] = 1
        inverse = torch.linalg.inv(x.T @ x + self.options.l2 * torch.eye(n_items, dtype=torch.float64))
        rows = -inverse / inverse.diagonal()[:, None]  # symmetric: row j is column j over P_jj
        return {"items": rows.fill_diagonal_(0)}
