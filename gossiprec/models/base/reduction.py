"""Reductions of a loss over the samples of a step: mean or sum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from gossiprec.base.options import Options

if TYPE_CHECKING:
    from torch import Tensor


class ReductionOptions(Options):
    """The option of models with a loss that is by default the mean over samples."""

    loss_reduction: Literal["mean", "sum"] = Field(
        default="mean",
        description="reduction of the loss over the samples of a step; sum: as L_rec is defined in the "
        "CL4FedRec and PDC-FRS papers, so that additional losses weigh less (dp-sgd always divides "
        "by the batch size)",
    )

    @property
    def summed(self) -> bool:
        """Whether the loss is the sum over the samples."""
        return self.loss_reduction == "sum"

    def reduced(self, total: Tensor, weights: Tensor) -> Tensor:
        """Return the loss of a step.

        Parameters
        ----------
        total : Tensor
            Sum over the samples.
        weights : Tensor, shape (n,)
            1 for a sample, 0 for padding.
        """
        return total if self.summed else total / weights.sum()
