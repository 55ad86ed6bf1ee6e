"""SimGCL on clients: two noisy views of each positive item, contrasted with the others of the client.

References
----------
Yu et al., "Are graph augmentations necessary? Simple graph contrastive learning for recommendation", SIGIR 2022;
as a baseline of the CL4FedRec paper (specification, section 3.6). A client has one user and so no other to contrast it
with: the users' term is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from gossiprec.base.options import Options
from gossiprec.federated import RECOMMENDERS, AnalyticTerm, Recommender
from gossiprec.models.base import Layout
from gossiprec.models.base.contrastive import draw_view_noise, info_nce, noisy_views
from gossiprec.models.base.kernel_interface import CompiledGradient
from gossiprec.models.base.parameter_blocks import TensorMap
from gossiprec.models.feeds.base import Columns

if TYPE_CHECKING:
    from torch import Tensor


class SimGCLRecommenderOptions(Options):
    """Options of SimGCL."""

    weight: float = Field(default=0.5, gt=0)
    """lambda, weight of the contrastive loss"""
    temperature: float = Field(default=0.2, gt=0)
    """tau"""
    noise: float = Field(default=0.1, gt=0)
    """epsilon, norm of the noise"""


@RECOMMENDERS.register("simgcl")
class SimGCLRecommender(Recommender):
    """The mean InfoNCE of two noisy views over a client's positives, as an added loss."""

    Options = SimGCLRecommenderOptions
    options: SimGCLRecommenderOptions
    loss_weights = ("weight",)

    def draws(self, layout: Layout, samples: Columns, draw: np.random.Generator) -> tuple[Columns, Columns]:
        """Return the proportions of two noises for every sample."""
        return {}, draw_view_noise(samples, self.negatives + 1, layout.item_width, draw)

    def analytic_term(self, gradient: CompiledGradient) -> AnalyticTerm | None:
        """Return the analytic gradient of the contrastive loss, or None."""
        from gossiprec.federated import term_kernels

        options = self.options
        if options.temperature < term_kernels.LEAST_TEMPERATURE:
            return None
        numbers = np.array([options.weight, options.temperature, options.noise])
        return AnalyticTerm(term_kernels.add_simgcl, numbers, of_samples="item_noise")

    def loss(self, p: TensorMap, batch: TensorMap, extras: TensorMap) -> Tensor:
        """Return L_rec + lambda L_cl."""
        options, each = self.options, self.negatives + 1
        present, rows = batch["weights"][::each], p["items"][batch["items"][::each]]
        one, other = noisy_views(rows, batch["item_noise"][::each], options.noise)
        contrast = info_nce(one, other, present, options.temperature) / present.sum().clamp(min=1.0)
        return self.model.loss(p, batch) + options.weight * contrast
