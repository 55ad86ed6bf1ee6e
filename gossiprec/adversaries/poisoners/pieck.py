"""PIECK: targets become like popular items, which are those with rows that change most between two versions.

References
----------
J. Zhang, H. Li, D. Rong, Y. Zhao, K. Chen, L. Shou, "Preventing the popular item embedding based attack in federated
recommendations", ICDE 2024 (arXiv 2502.12958); published code: junzhang-zj/PIECK, MF-FRS/attack.py.

Notes
-----
Only the abstract was readable; losses are by the behaviour of the code. There, the first message follows arbitrary
items, as nothing was mined yet; here it is no change. The code of `uea` adds up gradients from batch to batch, which
multiplies them by a constant: here it is their mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from gossiprec.adversaries.poisoners import (
    POISONERS,
    ModelFormula,
    VersionWatcher,
    item_gradient,
    largest_first,
    leaf_tensors,
    no_change,
)
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import Options
from gossiprec.base.registry import registry_name
from gossiprec.compute.messages import MessagePayload, PushContext
from gossiprec.models import Layout, Model
from gossiprec.rules.aggregators import ModelDelta

if TYPE_CHECKING:  # a scenario can be read without torch
    from torch import Tensor


class PIECKOptions(Options):
    """Options of PIECK."""

    variant: Literal["ipe", "uea"] = "uea"
    """ipe: align the targets with popular items; uea: promote them to users with the rows of popular items"""
    popular: int = Field(default=10, ge=1, le=10**6)
    """number of popular items"""
    changes: int = Field(default=1, ge=1, le=10**6)
    """number of changes between versions that are added up to find them"""
    balance: float = Field(default=0.9, gt=0)
    """factor of both parts of the loss of ipe (tau)"""


@POISONERS.register("pieck")
class PIECK(VersionWatcher):
    """A poisoner that mines popular items, in one of two variants.

    `ipe`: minus the mean of weighted cosines between a target's and the popular items' rows, separately for cosines
    above 0 and others, times `balance`; the weight falls linearly with the rank. `uea`: the mean cross-entropy of the
    targets, labelled 1, over users with the popular items' rows, which stay as they are.
    """

    Options = PIECKOptions
    options: PIECKOptions
    needs_labels = False

    @classmethod
    def check(cls, model: Model, layout: Layout, name: str) -> None:
        """Refuse models without labels, or in which users' and items' rows differ in size."""
        ModelFormula.check(model, layout, name, labels=False)
        if layout.user_width != layout.item_width:
            raise ScenarioError(
                f"attackers: {name} takes rows of items for rows of users, but in {registry_name(model)} they have "
                f"{layout.item_width} and {layout.user_width} numbers; choose a model such as gmf, ncf or mf"
            )

    def gradient(self, sent: MessagePayload, push: PushContext) -> ModelDelta:
        """Return the gradient of the targets' rows and the shared weights; none before items were mined."""
        import torch

        targets, (seen, change, moved) = self.context.targets, self.item_changes(sent, push)
        if 1 <= seen <= self.options.changes:
            moved += np.linalg.norm(change, axis=1)
        if not seen:
            return no_change(sent)
        best = largest_first(moved, self.options.popular, without=targets)
        popular = torch.from_numpy(sent.items[best])
        rows, shared = leaf_tensors(sent, targets)
        loss = (
            self._aligned(popular, rows)
            if self.options.variant == "ipe"
            else self._wanted(popular, rows, shared)
        )
        return item_gradient(self.context.sign * loss, targets, rows, shared)

    def _aligned(self, popular: Tensor, rows: Tensor) -> Tensor:
        """Return the loss of popularity enhancement, the mean over targets."""
        import torch
        from torch.nn.functional import cosine_similarity

        weight = torch.arange(len(popular), 0, -1, dtype=rows.dtype)
        each = (weight / weight.sum())[:, None] * cosine_similarity(popular[:, None], rows[None], dim=2)
        above = each.detach() > 0
        parts = [(each * part).sum(dim=0) / part.sum(dim=0).clamp(min=1) for part in (above, ~above)]
        return -self.options.balance * (parts[0] + parts[1]).mean()

    def _wanted(self, popular: Tensor, rows: Tensor, shared: Tensor) -> Tensor:
        """Return the loss of users with popular items' rows, the mean over users and targets."""
        from torch.nn.functional import softplus

        scores = self.context.formula.scores(popular, rows, shared)
        return softplus(-scores).mean()
