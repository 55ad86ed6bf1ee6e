"""Generalised matrix factorisation: the model of the community-detection study.

References
----------
He et al., "Neural collaborative filtering", WWW 2017, eq. 9; the CDA paper (arXiv 2306.08929), eq. 1.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from gossiprec.arrays import F32
from gossiprec.models import MODELS
from gossiprec.models.base import Layout, Model
from gossiprec.options import Options

if TYPE_CHECKING:
    import torch


class GMFOptions(Options):
    """Options of GMF."""

    dim: int = Field(default=8, ge=1, le=1024, description="embedding size d")
    init_std: float = Field(default=0.01, gt=0, description="standard deviation of the initial embeddings")


@MODELS.register("gmf")
class GMF(Model):
    """Score of item j for user u: ``sigmoid(h . (u * v_j) + b)``.

    Shared weights are the output unit: h (dim,) and its bias b.

    Notes
    -----
    Embeddings start from N(0, init_std^2) and h from the LeCun-uniform law, as in the published code; the paper
    writes N(0, 0.01), which its code reads as a standard deviation.
    """

    Options = GMFOptions
    options: GMFOptions

    def layout(self, n_items: int, n_users: int = 1) -> Layout:
        """Return ``[users | items | h | b]``."""
        dim = self.options.dim
        return Layout(user_width=dim, item_width=dim, n_shared=dim + 1, n_items=n_items, n_users=n_users)

    def initial_user(self, rng: np.random.Generator) -> F32:
        """Draw a user row from N(0, init_std^2)."""
        return rng.normal(0.0, self.options.init_std, self.options.dim).astype(np.float32)

    def initial_common(self, n_items: int, rng: np.random.Generator) -> F32:
        """Draw the item table from N(0, init_std^2), h from U(-sqrt(3/dim), sqrt(3/dim)); the bias is 0."""
        dim = self.options.dim
        items = rng.normal(0.0, self.options.init_std, n_items * dim)
        weight = rng.uniform(-1.0, 1.0, dim) * np.sqrt(3.0 / dim)
        return np.concatenate([items, weight, [0.0]]).astype(np.float32)

    def module(self, layout: Layout) -> torch.nn.Module:
        """Return the torch module."""
        module: torch.nn.Module = _module_class()(layout, self.options.dim)
        return module

    def loss(self, logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Return the binary cross-entropy (CDA paper, eq. 3)."""
        from torch.nn.functional import binary_cross_entropy_with_logits

        return binary_cross_entropy_with_logits(logits, labels, weights, reduction="sum") / weights.sum()


@functools.cache
def _module_class() -> Any:
    """Define the torch module on first use: reading a scenario must not import torch."""
    import torch

    class GMFModule(torch.nn.Module):
        """GMF of one node: ``forward(user, items)`` returns the logits of `items` for row `user` of the user table."""

        def __init__(self, layout: Layout, dim: int) -> None:
            super().__init__()
            self.users = torch.nn.Parameter(torch.zeros(layout.n_users, dim))
            self.items = torch.nn.Parameter(torch.zeros(layout.n_items, dim))
            self.weight = torch.nn.Parameter(torch.zeros(dim))
            self.bias = torch.nn.Parameter(torch.zeros(1))

        def forward(self, user: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
            return (self.items[items] * (self.weight * self.users[user])).sum(-1) + self.bias

    return GMFModule
