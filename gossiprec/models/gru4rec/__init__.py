"""GRU4Rec: a gated recurrent unit that reads a user's items and predicts the next one.

References
----------
Hidasi et al., "Session-based recommendations with recurrent neural networks", ICLR 2016; sizes as in the RecBole
library: one layer, a dense layer back to the embedding's size, dropout of inputs, a tied item table.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from gossiprec.data.training_data import TrainingData
from gossiprec.models import MODELS
from gossiprec.models.base.kernel_interface import CompiledGradient, ModelKernels
from gossiprec.models.base.parameter_blocks import BlockRole, ParameterBlock, TensorMap, normal, uniform
from gossiprec.models.base.sequence_model import SequenceModel, SequenceOptions, dropout_mask
from gossiprec.models.feeds import SequenceFeed
from gossiprec.models.feeds.base import Columns

if TYPE_CHECKING:
    from torch import Tensor


class GRU4RecOptions(SequenceOptions):
    """Options of GRU4Rec."""

    hidden: int = Field(default=128, ge=1, le=4096)
    """size of the recurrent unit"""
    dropout: float = Field(default=0.3, ge=0, lt=1)
    """dropout rate of the inputs"""
    max_length: int = Field(default=50, ge=1, le=10**4)
    """number of most recent items of a sequence used"""


@MODELS.register("gru4rec")
class GRU4Rec(SequenceModel):
    """Score of item j after a sequence: ``v_j . (D h + c)``, h being the unit's state after its last item."""

    Options = GRU4RecOptions
    options: GRU4RecOptions
    feed = SequenceFeed

    def blocks(self) -> tuple[ParameterBlock, ...]:
        """Return ``items | shared``; there is no user row, because the history represents the user."""
        d, h = self.options.dim, self.options.hidden
        within, dense = uniform(1 / sqrt(h)), uniform(1 / sqrt(h))
        return (
            ParameterBlock("items", BlockRole.ITEM, (d,), normal(self.options.init_std)),
            ParameterBlock("input_weights", BlockRole.SHARED, (3 * h, d), within),
            ParameterBlock("recurrent_weights", BlockRole.SHARED, (3 * h, h), within),
            ParameterBlock("input_biases", BlockRole.SHARED, (3 * h,), within),
            ParameterBlock("recurrent_biases", BlockRole.SHARED, (3 * h,), within),
            ParameterBlock("dense_weights", BlockRole.SHARED, (d, h), dense),
            ParameterBlock("dense_biases", BlockRole.SHARED, (d,), dense),
        )

    def make_feed(self, split: TrainingData) -> SequenceFeed:
        """Return the feed of sequences."""
        return SequenceFeed.within(split, self.options.max_length)

    def draws(self, samples: Columns, draw: np.random.Generator) -> Columns:
        """Return the dropout factors of the inputs."""
        return dropout_mask((*samples["previous"].shape, self.options.dim), self.options.dropout, draw)

    @classmethod
    def kernels(cls) -> type[ModelKernels]:
        """Return the compiled form, which trains by the gradient."""
        from gossiprec.models.base.gradient_kernels import GradientKernels

        return GradientKernels

    def gradient(self) -> CompiledGradient:
        """Return the gradient by back-propagation through time."""
        from gossiprec.models.gru4rec.gradient import gradient

        return gradient(self.options.hidden, in_batch=self.options.in_batch)

    def states(self, p: TensorMap, batch: TensorMap) -> Tensor:
        """Return the state at each place, after the item before it."""
        import torch

        outputs = torch.stack(self._outputs(p, batch["previous"], batch.get("keep")), dim=1)
        return outputs @ p["dense_weights"].T + p["dense_biases"]

    def state_after(self, p: TensorMap, history: Tensor, user: Tensor) -> Tensor:
        """Return the state after the last item."""
        return self._outputs(p, history, None)[-1] @ p["dense_weights"].T + p["dense_biases"]

    def _outputs(self, p: TensorMap, sequence: Tensor, keep: Tensor | None) -> list[Tensor]:
        """Return the unit's output after each place, shapes (n, hidden); places without an item change nothing.

        Gates have the order and the biases of ``torch.nn.GRU``.
        """
        import torch

        is_item = (sequence >= 0)[..., None]
        rows = torch.where(is_item, p["items"][sequence.clamp(min=0)], 0.0)
        if keep is not None:
            rows = rows * keep
        given = rows @ p["input_weights"].T + p["input_biases"]
        state, outputs = torch.zeros_like(given[:, 0, : self.options.hidden]), []
        for place in range(sequence.shape[1]):
            reset, update, new = given[:, place].chunk(3, dim=-1)
            again = (state @ p["recurrent_weights"].T + p["recurrent_biases"]).chunk(3, dim=-1)
            update = torch.sigmoid(update + again[1])
            new = torch.tanh(new + torch.sigmoid(reset + again[0]) * again[2])
            state = torch.where(is_item[:, place], new + update * (state - new), state)
            outputs.append(state)
        return outputs


__all__ = ["GRU4Rec"]
