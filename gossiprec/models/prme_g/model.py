"""Personalised ranking metric embedding with geography: the next-place model of the community-detection study.

References
----------
Feng et al., "Personalized ranking metric embedding for next new POI recommendation", IJCAI 2015; the CDA paper
(arXiv 2306.08929), eq. 2 and Table 3.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from gossiprec.arrays import F32
from gossiprec.geodesy import EARTH_RADIUS_KM
from gossiprec.models import MODELS
from gossiprec.models.base import Layout, Model
from gossiprec.options import Options

if TYPE_CHECKING:
    import torch


class PRMEGOptions(Options):
    """Options of PRME-G; defaults of Table 3 of the CDA paper."""

    dim: int = Field(default=60, ge=1, le=1024, description="embedding size d of each of the two spaces")
    alpha: float = Field(default=0.2, ge=0, le=1, description="weight of the preference space")
    window_hours: float = Field(
        default=6.0,
        gt=0,
        description="longest time since the visit before for which the order of places counts",
    )
    l2: float = Field(
        default=0.03, ge=0, description="L2 penalty on the parameters that a sample touches, for each sample"
    )
    init_std: float = Field(default=0.01, gt=0, description="standard deviation of the initial embeddings")
    loss_reduction: Literal["sum", "mean"] = Field(
        default="sum",
        description="over the samples of a batch; sum: a batch moves as far as its samples one by one",
    )


@MODELS.register("prme-g")
class PRMEG(Model):
    """Score of place k for user u who was at j before: ``-D(u, j -> k)``.

    ``D = w_jk (alpha |u - P_k|^2 + (1 - alpha) |S_k - S_j|^2)`` with ``w_jk = (1 + km_jk)^0.25`` if the visit at j is
    known and not longer ago than the window, else ``D = |u - P_k|^2``. P_k and S_k are item k's row, side by side.

    A sample is (positive k, negative n, previous j); its loss is ``-log sigmoid(D(n) - D(k))`` plus half of `l2` times
    the squares of all numbers in it.

    Notes
    -----
    Eq. 2 calls D a probability; it is a distance, so the score is its negative. The published code has no batches: it
    steps after each sample, which ``loss_reduction: sum`` comes close to (docs/models.md: what a mean does instead).
    """

    Options = PRMEGOptions
    options: PRMEGOptions
    trains_on_moves = True

    def __init__(self, options: PRMEGOptions, places: F32 | None = None) -> None:
        super().__init__(options)
        self.places = places

    def with_places(self, places: F32) -> PRMEG:
        """Return the model of items at `places`, shape (n_items, 3): unit vectors."""
        return PRMEG(self.options, places)

    def layout(self, n_items: int, n_users: int = 1) -> Layout:
        """Return ``[users | items]``, an item's row being ``[P | S]``."""
        dim = self.options.dim
        return Layout(user_width=dim, item_width=2 * dim, n_shared=0, n_items=n_items, n_users=n_users)

    def initial_user(self, rng: np.random.Generator) -> F32:
        """Draw a user row from N(0, init_std^2)."""
        return rng.normal(0.0, self.options.init_std, self.options.dim).astype(np.float32)

    def initial_common(self, n_items: int, rng: np.random.Generator) -> F32:
        """Draw both item tables from N(0, init_std^2)."""
        return rng.normal(0.0, self.options.init_std, n_items * 2 * self.options.dim).astype(np.float32)

    def module(self, layout: Layout) -> torch.nn.Module:
        """Return the torch module."""
        module: torch.nn.Module = _module_class()(layout, self.options, self.places)
        return module

    def loss(self, logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Return ``-log sigmoid(D(negative) - D(positive))`` of the samples, `logits` being the differences."""
        from torch.nn.functional import binary_cross_entropy_with_logits

        return self._reduced(
            binary_cross_entropy_with_logits(logits, labels, weights, reduction="sum"), weights
        )

    def batch_loss(
        self,
        call: Callable[..., Any],
        user: torch.Tensor,
        items: torch.Tensor,
        labels: torch.Tensor,
        weights: torch.Tensor,
    ) -> torch.Tensor:
        """Return the loss of samples (positive, negative, previous), shape (n, 3), with its penalty."""
        differences, squares = call(user, items[:, 0], items[:, 2], items[:, 1])
        penalty = self.options.l2 / 2 * self._reduced((squares * weights).sum(), weights)
        return self.loss(differences, labels, weights) + penalty

    def _reduced(self, total: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return total / weights.sum() if self.options.loss_reduction == "mean" else total


@functools.cache
def _module_class() -> Any:
    """Define the torch module on first use: reading a scenario must not import torch."""
    import torch

    class PRMEGModule(torch.nn.Module):
        """PRME-G of one node.

        ``forward(user, items, contexts)`` returns the score of each item after the visit at each context (-1: not
        known, as without `contexts`); with `negatives` the gain of each item over its negative, and the sum of squares.
        """

        places: torch.Tensor

        def __init__(self, layout: Layout, options: PRMEGOptions, places: F32 | None) -> None:
            super().__init__()
            self.users = torch.nn.Parameter(torch.zeros(layout.n_users, options.dim))
            self.items = torch.nn.Parameter(torch.zeros(layout.n_items, 2 * options.dim))
            self.alpha = options.alpha
            self.has_places = places is not None
            known = np.zeros((0, 3), np.float32) if places is None else places
            if len(known) not in (0, layout.n_items):
                raise ValueError(f"{len(known)} places for {layout.n_items} items")
            self.register_buffer("places", torch.from_numpy(known))

        def forward(
            self,
            user: torch.Tensor,
            items: torch.Tensor,
            contexts: torch.Tensor | None = None,
            negatives: torch.Tensor | None = None,
        ) -> Any:
            preference, sequence = self.items.chunk(2, dim=-1)
            own = self.users[user]
            near = (own - preference[items]).square().sum(-1)
            if contexts is None:
                return -near
            if not self.has_places:
                raise ValueError("scores after a visit need places: use Model.with_places")
            previous = contexts.clamp(min=0)
            known = contexts >= 0
            score = -self._distance(near, items, previous, known, sequence)
            if negatives is None:
                return score
            far = (own - preference[negatives]).square().sum(-1)
            moved = (
                sequence[items].square() + sequence[negatives].square() + sequence[previous].square()
            ).sum(-1)
            stayed = (own.square() + preference[items].square() + preference[negatives].square()).sum(-1)
            other = -self._distance(far, negatives, previous, known, sequence)
            return score - other, stayed + torch.where(known, moved, 0.0)

        def _distance(
            self,
            near: torch.Tensor,
            items: torch.Tensor,
            previous: torch.Tensor,
            known: torch.Tensor,
            sequence: torch.Tensor,
        ) -> torch.Tensor:
            """Return D (CDA paper, eq. 2); `near` is its preference part."""
            chords = (self.places[items] - self.places[previous]).square().sum(-1).sqrt()
            km = 2 * EARTH_RADIUS_KM * torch.arcsin((chords / 2).clamp(max=1.0))
            weight = (1 + km).sqrt().sqrt()
            step = (sequence[items] - sequence[previous]).square().sum(-1)
            return torch.where(known, weight * (self.alpha * near + (1 - self.alpha) * step), near)

    return PRMEGModule
