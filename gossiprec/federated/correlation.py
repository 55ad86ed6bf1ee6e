"""Decorrelated items: clients reduce the correlation between the dimensions of their items' rows.

References
----------
The CL4FedRec paper's proof of concept (specification, section 3.2), eq. 12 and 13: L_uni is the Frobenius norm of the
correlation matrix of the item table's dimensions, over their number d, its diagonal included as published; L = L_rec +
alpha L_uni. Left open by the paper: which side computes it, and of which rows. Here each client does, of the
rows that it trains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from gossiprec.base.options import Options
from gossiprec.federated import RECOMMENDERS, AnalyticTerm, Recommender
from gossiprec.models.base.contrastive import TINY, normalise_embeddings
from gossiprec.models.base.kernel_interface import CompiledGradient
from gossiprec.models.base.parameter_blocks import TensorMap

if TYPE_CHECKING:
    from torch import Tensor


class CorrelationOptions(Options):
    """Options of the proof of concept."""

    alpha: float = Field(default=1.0, ge=0)
    """weight of the correlation loss; 0.5 to 4 in the paper"""


@RECOMMENDERS.register("correlation")
class Correlation(Recommender):
    """The correlation of the dimensions of the items in a client's step, each item counted once, as an added loss."""

    Options = CorrelationOptions
    options: CorrelationOptions
    loss_weights = ("alpha",)

    def analytic_term(self, gradient: CompiledGradient) -> AnalyticTerm:
        """Return the analytic gradient of the correlation."""
        from gossiprec.federated import term_kernels

        return AnalyticTerm(term_kernels.add_correlation, np.array([self.options.alpha]))

    def loss(self, p: TensorMap, batch: TensorMap, extras: TensorMap) -> Tensor:
        """Return L_rec + alpha L_uni (eq. 13)."""
        import torch

        times = torch.zeros_like(p["items"][:, 0]).scatter_add(0, batch["items"].long(), batch["weights"])
        return self.model.loss(p, batch) + self.options.alpha * correlation_loss(p["items"], times > 0)


def correlation_loss(rows: Tensor, present: Tensor) -> Tensor:
    """Return L_uni (eq. 12) of the present rows, from 1/sqrt(d) to 1; 0 for a single row.

    Parameters
    ----------
    rows : Tensor, shape (n, d)
    present : Tensor of bool, shape (n,)
    """
    there = present[:, None].to(rows.dtype)
    mean = (rows * there).sum(0) / there.sum().clamp(min=1.0)
    columns = normalise_embeddings(((rows - mean) * there).T)  # a column without variance stays zero
    squares = (columns @ columns.T).square().sum()
    return squares.clamp(min=TINY * TINY).sqrt() / rows.shape[1]
