"""UNION on clients: a positive item should be nearer to another positive than to items that the user has not taken.

References
----------
UNION (the published code of FedRec, ``client.py``), as a baseline of the CL4FedRec paper (specification, section 3.6):
scalar products without temperature, one other positive, 15 items not taken, weight 1. Its filter of the server is a
defence and not part of it. The items not taken are drawn among the negatives of the same step, which the client
touches anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from gossiprec.base.options import Options
from gossiprec.federated import RECOMMENDERS, AnalyticTerm, Recommender
from gossiprec.models.base import Layout
from gossiprec.models.base.kernel_interface import CompiledGradient
from gossiprec.models.base.parameter_blocks import TensorMap
from gossiprec.models.feeds.base import Columns

if TYPE_CHECKING:
    from torch import Tensor


class UnionOptions(Options):
    """Options of UNION."""

    weight: float = Field(default=1.0, gt=0)
    """weight of the contrastive loss"""
    others: int = Field(default=15, ge=1, le=1000)
    """K, number of negatives per positive"""


@RECOMMENDERS.register("union")
class Union(Recommender):
    """The mean softmax cross-entropy of one other positive among items that were not taken, as an added loss."""

    Options = UnionOptions
    options: UnionOptions
    loss_weights = ("weight",)

    def draws(self, layout: Layout, samples: Columns, draw: np.random.Generator) -> tuple[Columns, Columns]:
        """Return the indices of another positive and of negatives for every positive, repeated for its negatives."""
        each = self.negatives + 1
        n = len(samples["items"]) // each
        ahead = 1 + draw.integers(max(n - 1, 1), size=n)
        positive = (np.arange(n) + ahead) % max(n, 1) * each  # another, if there is another
        of_others = draw.integers(max(n * self.negatives, 1), size=(n, self.options.others))
        negative = of_others // self.negatives * each + 1 + of_others % self.negatives
        compared = np.concatenate([positive[:, None], negative], axis=1).astype(np.int32)
        return {}, {"compared": compared.repeat(each, axis=0)}

    def analytic_term(self, gradient: CompiledGradient) -> AnalyticTerm:
        """Return the analytic gradient of the contrastive loss."""
        from gossiprec.federated import term_kernels

        return AnalyticTerm(term_kernels.add_union, np.array([self.options.weight]), of_samples="compared")

    def loss(self, p: TensorMap, batch: TensorMap, extras: TensorMap) -> Tensor:
        """Return L_rec plus the weight times L_cl."""
        import torch

        each = self.negatives + 1
        present, items = batch["weights"][::each], batch["items"]
        anchors = p["items"][items[::each]]
        compared = p["items"][items[batch["compared"][::each]]]
        near = (compared * anchors[:, None]).sum(-1)
        contrast = torch.logsumexp(near, dim=1) - near[:, 0]
        mean = (contrast * present).sum() / present.sum().clamp(min=1.0)
        return self.model.loss(p, batch) + self.options.weight * mean
