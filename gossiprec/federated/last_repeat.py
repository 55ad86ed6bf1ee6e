"""Repeated negatives as in one published code: an item's row learns only from the last of its samples.

References
----------
Published code of A-ra and A-hum (PoisonFedDLRS; specification, section 3.3), which adds a client's gradients to the
table by an assignment that keeps one of several. User rows and shared weights learn from all samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gossiprec.federated import RECOMMENDERS, AnalyticTerm, Recommender
from gossiprec.models.base import Layout
from gossiprec.models.base.kernel_interface import CompiledGradient
from gossiprec.models.base.parameter_blocks import TensorMap
from gossiprec.models.feeds.base import Columns

if TYPE_CHECKING:
    from torch import Tensor


@RECOMMENDERS.register("last-repeat")
class LastRepeat(Recommender):
    """Training without an added loss, in which only the last sample of an item counts in the gradient of its row."""

    def draws(self, layout: Layout, samples: Columns, draw: np.random.Generator) -> tuple[Columns, Columns]:
        """Return a mask of the samples that are the last ones of their items."""
        items = samples["items"]
        from_behind = np.unique(items[::-1], return_index=True)[1]
        is_last = np.zeros(len(items), np.bool_)
        is_last[len(items) - 1 - from_behind] = True
        return {}, {"is_last": is_last}

    def analytic_term(self, gradient: CompiledGradient) -> AnalyticTerm:
        """Return the term that removes the other samples' part from an item's slope; it needs no draws."""
        from gossiprec.federated import term_kernels

        return AnalyticTerm(term_kernels.keep_last_repeats, np.array([float(gradient.summed)]))

    def loss(self, p: TensorMap, batch: TensorMap, extras: TensorMap) -> Tensor:
        """Return L_rec; samples that are not the last look up a copy of the item table that has no gradient."""
        import torch

        items = p["items"]
        looked_up = torch.where(batch["is_last"], batch["items"], batch["items"] + len(items))
        twice = torch.cat([items, items.detach()])
        return self.model.loss({**p, "items": twice}, {**batch, "items": looked_up})
