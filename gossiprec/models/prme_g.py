"""Personalised ranking metric embedding with geography: the next-place model of the community-detection study.

References
----------
Feng et al., "Personalized ranking metric embedding for next new POI recommendation", IJCAI 2015; the CDA paper
(arXiv 2306.08929), eq. 2 and Table 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy import float32
from pydantic import Field

from gossiprec.base.errors import DataError
from gossiprec.base.geodesy import EARTH_RADIUS_KM, unit_vectors
from gossiprec.base.options import Options
from gossiprec.data.training_data import TrainingData, Visits
from gossiprec.models import MODELS
from gossiprec.models.base import Model
from gossiprec.models.base.kernel_interface import ModelKernels
from gossiprec.models.base.parameter_blocks import BlockRole, Layout, ParameterBlock, normal
from gossiprec.models.feeds import TransitionFeed

if TYPE_CHECKING:
    from torch import Tensor


class PRMEGOptions(Options):
    """Options of PRME-G; defaults of Table 3 of the CDA paper."""

    dim: int = Field(default=60, ge=1, le=1024)
    """embedding size d of each of the two spaces"""
    alpha: float = Field(default=0.2, ge=0, le=1)
    """weight of the preference space"""
    window_hours: float = Field(default=6.0, gt=0)
    """longest time since the previous visit for which the order of places is learned"""
    l2: float = Field(default=0.03, ge=0)
    """L2 penalty on the parameters that a sample touches, for each sample"""
    init_std: float = Field(default=0.01, gt=0)
    """standard deviation of the initial embeddings"""
    loss_reduction: Literal["sum", "mean"] = "sum"
    """reduction over the samples of a batch; sum: a batch moves about as much as its samples one by one"""

    @property
    def summed(self) -> bool:
        """Whether the loss is the sum over the samples."""
        return self.loss_reduction == "sum"


@MODELS.register("prme-g")
class PRMEG(Model):
    """Score of place k for user u who was at j before: ``-D(u, j -> k)``.

    ``D = w_jk (alpha |u - P_k|^2 + (1 - alpha) |S_k - S_j|^2)`` with ``w_jk = (1 + km_jk)^0.25`` if the visit at j is
    known and within the window, else ``D = |u - P_k|^2``. P_k and S_k are the two halves of item k's row. A sample is
    (positive k, negative n, previous j); its loss is ``-log sigmoid(D(n) - D(k))`` plus half of `l2` times
    the sum of squares of all its parameters.

    Notes
    -----
    Eq. 2 calls D a probability; it is a distance, so the score is its negative. The published code has no batches: it
    steps after each sample, which ``loss_reduction: sum`` approximates (docs/models.md shows the effect of a mean).
    """

    Options = PRMEGOptions
    options: PRMEGOptions
    feed = TransitionFeed
    predicts_probabilities = False

    @classmethod
    def kernels(cls) -> type[ModelKernels]:
        """Return the compiled form."""
        from gossiprec.models.base.kernel_template import template_kernels
        from gossiprec.models.base.template_pairs import PairFunctions

        moves = PairFunctions(set_weights, add_penalty, 3, "places", numbers)
        return template_kernels(score, add_gradient, pairs=moves)

    def bind_to_data(self, split: TrainingData) -> PRMEG:
        """Return the model of items at known places: unit vectors, ``constants["places"]``, (n_items, 3)."""
        fitted = PRMEG(self.options)
        fitted.constants = {"places": unit_vectors(_check_ins(split).coordinates)}
        return fitted

    def make_feed(self, split: TrainingData) -> TransitionFeed:
        """Return the check-in transitions; a previous visit counts within the window."""
        return TransitionFeed.within(split, _check_ins(split), 60.0 * self.options.window_hours)

    def sample_cost(self, layout: Layout) -> float:
        """Return the time of a sample, in merges (docs/models.md has both times, for large rows)."""
        return 60.0 * layout.item_width / layout.row_size

    def blocks(self) -> tuple[ParameterBlock, ...]:
        """Return ``users | items``; an item's part is P and S."""
        dim, embedding = self.options.dim, normal(self.options.init_std)
        return (
            ParameterBlock("users", BlockRole.USER, (dim,), embedding),
            ParameterBlock("items", BlockRole.ITEM, (2, dim), embedding),
        )

    def score(self, p: Mapping[str, Tensor], query: Mapping[str, Tensor]) -> Tensor:
        """Return ``-D``; only the preference part if the previous visit is unknown (``previous`` is -1 or missing)."""
        near = self._gap(p, query["user"], query["items"])
        if "previous" not in query:
            return -near
        return -self._distance(p, near, query["items"], query["previous"])

    def loss(self, p: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> Tensor:
        """Return ``-log sigmoid(D(negative) - D(positive))`` plus the penalty on the parameters of each sample."""
        import torch
        from torch.nn.functional import binary_cross_entropy_with_logits

        own, weights = p["users"][batch["user"]], batch["weights"]
        preference, sequence = p["items"].unbind(1)
        items, negatives, previous = batch["items"], batch["negatives"], batch["previous"]
        near, far = self._gap(p, batch["user"], items), self._gap(p, batch["user"], negatives)
        gain = self._distance(p, far, negatives, previous) - self._distance(p, near, items, previous)
        moved = sequence[items].square() + sequence[negatives].square()
        moved = (moved + sequence[previous.clamp(min=0)].square()).sum(-1)
        stayed = (own.square() + preference[items].square() + preference[negatives].square()).sum(-1)
        squares = stayed + torch.where(previous >= 0, moved, 0.0)
        lost = binary_cross_entropy_with_logits(gain, torch.ones_like(gain), weights, reduction="sum")
        penalty = self.options.l2 / 2 * self._reduced((squares * weights).sum(), weights)
        return self._reduced(lost, weights) + penalty

    def _reduced(self, total: Tensor, weights: Tensor) -> Tensor:
        return total if self.options.summed else total / weights.sum()

    @staticmethod
    def _gap(p: Mapping[str, Tensor], user: Tensor, items: Tensor) -> Tensor:
        """Return squared distances of the user and items in the preference space."""
        return (p["users"][user] - p["items"][:, 0][items]).square().sum(-1)

    def _distance(self, p: Mapping[str, Tensor], near: Tensor, items: Tensor, previous: Tensor) -> Tensor:
        """Return D (CDA paper, eq. 2); `near` is its preference part."""
        import torch

        places, sequence, before = p["places"], p["items"][:, 1], previous.clamp(min=0)
        chords = (places[items] - places[before]).square().sum(-1).sqrt()
        km = 2 * EARTH_RADIUS_KM * torch.arcsin((chords / 2).clamp(max=1.0))
        weight = (1 + km).sqrt().sqrt()
        step = (sequence[items] - sequence[before]).square().sum(-1)
        alpha = self.options.alpha
        return torch.where(previous >= 0, weight * (alpha * near + (1 - alpha) * step), near)


def _check_ins(split: TrainingData) -> Visits:
    found = split.check_ins
    lacking = "neither places nor times" if found is None else "places without times"
    if found is None or np.isnan(found.train.gap_minutes).all():
        raise DataError(
            f"model.name: 'prme-g' learns the order of moves between places, but {split.name} has {lacking}; "
            "use a data set with both: foursquare-nyc, gowalla and synthetic-checkins"
        )
    return found


DIAMETER = float32(2.0 * EARTH_RADIUS_KM)


def numbers(options: PRMEGOptions) -> tuple[float, float]:
    """Return the weight of the preference space, and the factor of the penalty."""
    return options.alpha, options.l2


def set_weights(weights, places, item, context, numbers):  # type: ignore[no-untyped-def]
    """Set the weights of both distances in D, and whether the previous item is known."""
    weights[0], weights[1], weights[2] = float32(1.0), float32(0.0), float32(0.0)
    if context >= 0:
        square, alpha = float32(0.0), float32(numbers[0])
        for axis in range(3):
            gap = places[item, axis] - places[context, axis]
            square += gap * gap
        half = min(np.sqrt(square) * float32(0.5), float32(1.0))
        travel = np.sqrt(np.sqrt(float32(1.0) + DIAMETER * np.arcsin(half)))
        weights[0], weights[1] = travel * alpha, travel * (float32(1.0) - alpha)
        weights[2] = float32(1.0)


def score(p, room, shape):  # type: ignore[no-untyped-def]
    """Return ``-D``, for :func:`gossiprec.models.base.kernel_template.template_kernels`."""
    dim, near, step = len(p.user), float32(0.0), float32(0.0)
    for k in range(dim):
        gap = p.item[k] - p.user[k]
        near += gap * gap
    if p.weights[2] > float32(0.0):
        for k in range(dim):
            gap = p.item[dim + k] - p.context[dim + k]
            step += gap * gap
    return -(p.weights[0] * near + p.weights[1] * step)


def add_gradient(p, error, slopes, room, shape):  # type: ignore[no-untyped-def]
    """Add the derivatives of the score, times `error`."""
    dim, factor = len(p.user), float32(2.0) * error * p.weights[0]
    for k in range(dim):
        slope = factor * (p.item[k] - p.user[k])
        slopes.item[k] -= slope
        slopes.user[k] += slope
    if p.weights[2] > float32(0.0):
        factor = float32(2.0) * error * p.weights[1]
        for k in range(dim):
            slope = factor * (p.item[dim + k] - p.context[dim + k])
            slopes.item[dim + k] -= slope
            slopes.context[dim + k] += slope


def add_penalty(p, other, share, slopes, of_other, numbers):  # type: ignore[no-untyped-def]
    """Add the gradient of the penalty on the parameters of a sample, times `share`."""
    dim, factor = len(p.user), share * float32(numbers[1])
    for k in range(dim):
        slopes.user[k] += factor * p.user[k]
        slopes.item[k] += factor * p.item[k]
    for k in range(dim):
        of_other.item[k] += factor * other.item[k]
    if p.weights[2] > float32(0.0):
        for k in range(dim):
            slopes.item[dim + k] += factor * p.item[dim + k]
            slopes.context[dim + k] += factor * p.context[dim + k]
        for k in range(dim):
            of_other.item[dim + k] += factor * other.item[dim + k]


__all__ = ["PRMEG"]
