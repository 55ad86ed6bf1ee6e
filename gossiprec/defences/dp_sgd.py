"""DP-SGD: every sample's gradient, or every local update, is clipped, and gets noise.

References
----------
M. Abadi et al., "Deep learning with differential privacy", CCS 2016, algorithm 1; CDA paper (arXiv 2306.08929),
section 7.6. The semantics follow Opacus, not the paper's code: see ``docs/policies.md``.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveFloat

from gossiprec.base.arrays import F64, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import LARGEST, Options
from gossiprec.base.registry import registry_name
from gossiprec.compute.local_update import NO_LIMIT, NodeSettings, TrainingSettings
from gossiprec.defences import (
    POLICIES,
    Policy,
    PrivacySpent,
    compute_epsilon,
    compute_epsilons,
    max_epochs,
    min_epsilon,
    min_noise_multiplier,
    round_up_float32,
)
from gossiprec.models.base import Model
from gossiprec.models.base.parameter_blocks import Layout

LEAST_NOISE = 1e-6
"""Least effective noise multiplier: sums in float32 have errors of this size."""


class DPSGDOptions(Options):
    """Options of DP-SGD."""

    plans_noise: ClassVar[bool] = True
    """Whether noise is planned by the number of updates and samples, which then cannot change."""
    epsilon: Annotated[float, Field(gt=0)] | Literal["inf"]
    """privacy budget of each node; inf: no limit, and without noise_multiplier samples are only clipped"""
    delta: float = Field(default=1e-6, gt=0, lt=1)
    """probability with which epsilon may not hold"""
    unit: Literal["interaction", "user"] = "interaction"
    """what epsilon protects: a sample, of which each gradient is clipped; or all data of the user, by one clip of each
    whole local update"""
    clip_norm: PositiveFloat = 2.0
    """C: largest Euclidean norm of a sample's gradient, or of a local update"""
    noise_multiplier: Literal["auto"] | Annotated[float, Field(gt=0)] = "auto"
    """sigma: noise has standard deviation sigma C; auto: the smallest value that keeps epsilon until the end"""
    steps: Annotated[int, Field(ge=1, le=LARGEST)] | None = None
    """local epochs for which auto computes the noise, after which a node stops training; default: all local epochs
    of the node; unit user: local updates"""


@POLICIES.register("dp-sgd")
class DPSGD(Policy):
    """Per-sample clipping to C, Gaussian noise of deviation sigma C on every parameter, division by the batch size.

    With ``noise_multiplier: auto`` a node gets the noise with which its own number of local epochs spends exactly
    epsilon. With a fixed multiplier it trains until one more local update would spend more.

    With ``unit: user`` the node trains as without the policy; then the change of its model by the whole local update is
    clipped to C and gets the noise. A local update is one Gaussian mechanism of all data of the user.
    """

    Options = DPSGDOptions
    modules = ("dp_accounting",)
    options: DPSGDOptions

    def __init__(self, options: Any, nodes: I64) -> None:
        super().__init__(options, nodes)
        self._noise: F64 = np.zeros(len(nodes))
        self._epochs = 1

    def check(self, model: Model, layout: Layout) -> None:
        """Refuse models with a loss that is not a mean over samples."""
        if self.options.unit == "interaction" and not model.has_sample_gradients:
            raise ScenarioError(
                f"policies: dp-sgd clips each sample's gradient, but the loss of {registry_name(model)} is "
                "not a mean over samples; set unit to user, or choose another model"
            )

    def configure(
        self, node_settings: NodeSettings, *, training: TrainingSettings, updates: I64 | None
    ) -> None:
        """Set clipping, noise and the limit of updates."""
        by_user = self.options.unit == "user"
        self._epochs = 1 if by_user else training.local_epochs
        limit = self._most_updates()
        node_settings.most_updates[self.nodes] = np.minimum(node_settings.most_updates[self.nodes], limit)
        if updates is None and (limit == NO_LIMIT and self.options.noise_multiplier == "auto"):
            raise ScenarioError(
                "policies: dp-sgd: with this protocol and train_on: receive, model values determine how "
                "often a node trains; set steps or noise_multiplier, or use train_on: wake"
            )
        known = (
            node_settings.most_updates if updates is None else np.minimum(updates, node_settings.most_updates)
        )
        planned = known[self.nodes]
        clips, noise = (
            (node_settings.update_clip, node_settings.update_noise)
            if by_user
            else (node_settings.clip_norm, node_settings.noise_multiplier)
        )
        clips[self.nodes] = np.float32(self.options.clip_norm)
        noise[self.nodes] = self._noise_multipliers(np.maximum(planned, 1))
        self._noise = noise[self.nodes].astype(np.float64)

    def privacy_spent(self, updates: I64, pushes: I64) -> PrivacySpent:
        """Return epsilon of each node."""
        epochs = (updates[self.nodes] * self._epochs).astype(np.float64)
        delta = self.options.delta
        return PrivacySpent(self.nodes, compute_epsilons(self._noise, epochs, delta), self._noise, delta)

    def _most_updates(self) -> int:
        """Return the number of local updates after which a node must stop."""
        options, epochs = self.options, self._epochs
        if options.noise_multiplier == "auto":
            if options.steps is not None and options.steps < epochs:
                raise ScenarioError(
                    f"policies: dp-sgd: steps: found {options.steps}, but a local update takes {epochs} local epochs "
                    "(training.local_epochs); raise steps"
                )
            return NO_LIMIT if options.steps is None else options.steps // epochs
        noise = float(round_up_float32(options.noise_multiplier))
        first = compute_epsilon(noise, epochs, options.delta)
        if not math.isfinite(first) or noise < LEAST_NOISE:
            raise ScenarioError(
                f"policies: dp-sgd: noise_multiplier: found {options.noise_multiplier:g}, too small for the accountant "
                f"(below {LEAST_NOISE:g} the noise is lost in rounding); increase it"
            )
        if options.steps is not None:
            raise ScenarioError(
                "policies: dp-sgd: steps requires noise_multiplier 'auto'; with a fixed noise_multiplier a "
                "node stops when its budget is spent"
            )
        if options.epsilon == "inf":
            return NO_LIMIT
        most = max_epochs(noise, self._budget(), options.delta) // epochs
        if most == 0:
            raise ScenarioError(
                f"policies: dp-sgd: noise_multiplier: found {options.noise_multiplier:g}, with which the first local "
                f"update spends epsilon {first:.4g} of {options.epsilon:g}; raise noise_multiplier or epsilon"
            )
        return min(most, NO_LIMIT)

    def _noise_multipliers(self, planned: I64) -> Any:
        """Return the noise multiplier of each node, given its number of local updates."""
        options = self.options
        if options.noise_multiplier != "auto":
            return round_up_float32(options.noise_multiplier)
        if options.epsilon == "inf":
            return np.float32(0.0)
        if compute_epsilon(LEAST_NOISE, 1, options.delta) <= self._budget():
            raise ScenarioError(
                f"policies: dp-sgd: epsilon: found {options.epsilon:g}, for which the noise would be lost in "
                "rounding; set it to 'inf'"
            )
        one = min_noise_multiplier(self._budget(), options.delta)
        if options.steps is not None:
            planned = np.full_like(planned, options.steps // self._epochs)
        return np.array(
            [round_up_float32(one * math.sqrt(count * self._epochs)) for count in planned.tolist()]
        )

    def _budget(self) -> float:
        epsilon, least = float(self.options.epsilon), min_epsilon(self.options.delta)
        if epsilon <= least:
            raise ScenarioError(
                f"policies: dp-sgd: epsilon: found {epsilon:g}, but the accountant cannot prove an epsilon below "
                f"{least:.3g} at delta {self.options.delta:g}, however large the noise is; increase epsilon or delta"
            )
        return epsilon
