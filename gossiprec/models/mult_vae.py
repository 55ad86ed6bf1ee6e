"""Mult-VAE: a variational autoencoder of sets of items, with a multinomial likelihood.

References
----------
Liang et al., "Variational autoencoders for collaborative filtering", WWW 2018, section 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from gossiprec.base.options import Options
from gossiprec.models import MODELS
from gossiprec.models.base.parameter_blocks import BlockRole, ParameterBlock, TensorMap, normal
from gossiprec.models.base.sequence_model import SequenceModel, dropout_mask
from gossiprec.models.feeds import SetFeed
from gossiprec.models.feeds.base import Columns

if TYPE_CHECKING:
    from torch import Tensor


class MultVAEOptions(Options):
    """Options of Mult-VAE."""

    loss: ClassVar[str] = "all"
    in_batch: ClassVar[bool] = False
    dim: int = Field(default=64, ge=1, le=4096)
    """width of the latent vector z"""
    hidden: int = Field(default=128, ge=1, le=4096)
    """width of the hidden layers of encoder and decoder"""
    dropout: float = Field(default=0.5, ge=0, lt=1)
    """share of a user's items that drop out of the input in a step"""
    kl_weight: float = Field(default=0.2, ge=0)
    """beta, the weight of the divergence of z from N(0, I)"""
    init_std: float = Field(default=0.05, gt=0)
    """standard deviation of the initial weights"""


@MODELS.register("mult-vae")
class MultVAE(SequenceModel):
    """A user is the set of its items; the score of item j is ``w_j . tanh(A z + a) + b_j``.

    z is the mean that the encoder finds for the set, and in training a draw around it. The loss of a user is
    ``-sum_j log softmax(scores)_j + beta KL`` over its items; that of a batch is the mean over its users.

    Notes
    -----
    The paper raises beta from 0 to its value during training; here it is constant. If other nodes score a model, as
    attacks do, the set of its user is unknown, and empty.
    """

    Options = MultVAEOptions
    options: MultVAEOptions  # type: ignore[assignment]
    feed = SetFeed
    has_sample_gradients = True
    needs_all_items = True

    def blocks(self) -> tuple[ParameterBlock, ...]:
        """Return rows of items, ``[w | b]`` and the input's, and the layers of encoder and decoder."""
        dim, hidden, initial = self.options.dim, self.options.hidden, normal(self.options.init_std)
        shared = BlockRole.SHARED
        return (
            ParameterBlock("items", BlockRole.ITEM, (hidden + 1,), initial),
            ParameterBlock("inputs", BlockRole.ITEM, (hidden,), initial),
            ParameterBlock("input_offset", shared, (hidden,)),
            ParameterBlock("encoder", shared, (2 * dim, hidden), initial),
            ParameterBlock("encoder_offset", shared, (2 * dim,)),
            ParameterBlock("decoder", shared, (hidden, dim), initial),
            ParameterBlock("decoder_offset", shared, (hidden,)),
        )

    def draws(self, samples: Columns, draw: np.random.Generator) -> Columns:
        """Return which items drop out, and the noise of z."""
        items = samples["items"]
        noise = draw.standard_normal((len(items), self.options.dim), np.float32)
        return {**dropout_mask(items.shape, self.options.dropout, draw), "noise": noise}

    def state_after(self, p: TensorMap, history: Tensor, user: Tensor) -> Tensor:
        """Return the states after the mean of z for sets of items."""
        return self._decoded(p, self._encoded(p, history)[0])

    def states(self, p: TensorMap, batch: TensorMap) -> Tensor:
        """Return the state of a list at every place."""
        return self._drawn(p, batch)[0][:, None].expand(-1, batch["items"].shape[1], -1)

    def loss(self, p: TensorMap, batch: TensorMap) -> Tensor:
        """Return the mean over users of the negative log likelihood of their sets, and of the divergence."""
        import torch

        (state, divergence), items = self._drawn(p, batch), batch["items"]
        logits, learnt = state @ p["items"].T, items >= 0
        own = logits.gather(-1, items.clamp(min=0))
        lost = ((torch.logsumexp(logits, dim=-1)[:, None] - own) * learnt).sum(-1)
        weights = batch["weights"]
        return ((lost + self.options.kl_weight * divergence) * weights).sum() / weights.sum().clamp(min=1.0)

    def _drawn(self, p: TensorMap, batch: TensorMap) -> tuple[Tensor, Tensor]:
        """Return the states of a step, with its draws if there are any, and the divergence of each list."""
        mean, log_variance = self._encoded(p, batch["items"], batch.get("keep"))
        divergence = (mean.square() + log_variance.exp() - 1 - log_variance).sum(-1) / 2
        noise = batch.get("noise")
        z = mean if noise is None else mean + noise * (log_variance / 2).exp()
        return self._decoded(p, z), divergence

    def _encoded(self, p: TensorMap, items: Tensor, keep: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return mean and logarithm of the variance of z for lists of items, -1 for none; the input has length 1."""
        import torch

        known = (items >= 0).to(p["inputs"].dtype)
        values = known / known.sum(-1, keepdim=True).clamp(min=1.0).sqrt()
        values = values if keep is None else values * keep
        rows = torch.where(known[..., None] > 0, p["inputs"][items.clamp(min=0)], 0.0)
        hidden = (values[:, None] @ rows)[:, 0]
        hidden = torch.tanh(hidden + p["input_offset"])
        both, dim = hidden @ p["encoder"].T + p["encoder_offset"], self.options.dim
        return both[..., :dim], both[..., dim:]

    def _decoded(self, p: TensorMap, z: Tensor) -> Tensor:
        """Return the hidden layer of the decoder, and 1 for the bias of an item."""
        import torch

        state = torch.tanh(z @ p["decoder"].T + p["decoder_offset"])
        return torch.cat([state, torch.ones_like(state[..., :1])], dim=-1)
