"""Local differential privacy of messages: they are clipped to a norm, and noise is added.

References
----------
FedCL: clip to L1 norm 1, Laplace noise of scale ``2 delta / epsilon``; PerFedRec++: clip to a largest absolute value,
Laplace noise, and for an upload an epsilon of ``2 delta / lambda``, which holds for each number. C. Dwork,
A. Roth, "The algorithmic foundations of differential privacy", 2014, theorems 3.6 (Laplace) and 3.16 (composition);
for the Gaussian :mod:`gossiprec.defences`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field, PositiveFloat

from gossiprec.base.arrays import F32, F64, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import Options
from gossiprec.compute.messages import MessagePayload, PushContext, Transform
from gossiprec.compute.plan.tape import MERGING, Behaviour, Op
from gossiprec.defences import POLICIES, Policy, PrivacySpent, compute_epsilons

ORDER = {"l1": 1, "l2": 2, "linf": np.inf}
ACCOUNTED = {"laplace": "l1", "gaussian": "l2"}
"""The norm for which each distribution of noise has a known epsilon."""


class LDPOptions(Options):
    """Options of local differential privacy."""

    norm: Literal["l1", "l2", "linf"] = "l1"
    """norm of a message that `bound` limits; linf: of each of its numbers"""
    bound: PositiveFloat = 1.0
    """largest norm: larger messages are scaled down; linf: values are clipped"""
    noise: Literal["laplace", "gaussian"] = "laplace"
    """distribution of the noise on each value"""
    scale: float = Field(ge=0)
    """scale of the noise: b of the Laplace distribution, sigma of the Gaussian; 0: clip only"""
    of: Literal["model", "update"] = "model"
    """model: clip and perturb the model; update: clip and perturb its difference from the received model (fedavg)"""
    delta: float = Field(default=1e-6, gt=0, lt=1)
    """for Gaussian noise: probability with which epsilon may not hold"""


@dataclass(frozen=True)
class ClipAndNoise(Transform):
    """A transform that clips messages, or their difference from the received model, and adds noise."""

    options: LDPOptions
    rewrites = True

    def encode(
        self, payload: MessagePayload, base: MessagePayload | None, push: PushContext
    ) -> MessagePayload:
        """Return the noisy payload; the user's row, which was never received, is not taken as a difference."""
        start = self._start(payload, base)
        clipped = self._clipped(_flat(payload) - start)
        return _like(payload, (start + clipped + self._noise(push, len(start))).astype(np.float32))

    def _start(self, payload: MessagePayload, base: MessagePayload | None) -> F64:
        start = np.zeros(len(_flat(payload)))
        # without training since the last push the payload equals the received model
        if self.options.of == "update":
            n_own = 0 if payload.users is None else payload.users.size
            start[n_own:] = _flat(payload if base is None else base)[n_own:]
        return start

    def _clipped(self, sent: F64) -> F64:
        bound, norm = self.options.bound, float(np.linalg.norm(sent, ORDER[self.options.norm]))
        if self.options.norm == "linf":
            return np.clip(sent, -bound, bound)
        return sent * (bound / norm) if norm > bound else sent

    def _noise(self, push: PushContext, count: int) -> F64:
        draw = push.generator("ldp")
        sample = draw.laplace if self.options.noise == "laplace" else draw.normal
        return sample(0.0, self.options.scale, count)


@POLICIES.register("ldp")
class LDP(Policy):
    """Each message is one noisy answer about its user: two users' messages differ by up to twice the bound.

    With Laplace noise of scale b and the L1 norm a message spends epsilon ``2 bound / b``, and messages add up. With
    Gaussian noise of deviation s and the L2 norm it is a Gaussian mechanism with noise multiplier ``s / (2 bound)``.
    With Laplace noise and the norm linf (values are clipped) each number spends ``2 bound / b``, and numbers add up,
    over a message and over messages. Other combinations are not accounted.
    """

    Options = LDPOptions
    options: LDPOptions

    def check_behaviour(self, behaviour: Behaviour) -> None:
        """Refuse updates if their base is not a model that another node has sent."""
        merges = MERGING & behaviour.on_any_receive
        if self.options.of == "update" and merges != {Op.ADOPT}:
            raise ScenarioError(
                "policies: ldp: of: found 'update', but in gossip an update is relative to a model that "
                "contains the node's own earlier training, which would be sent without noise; set of to "
                "'model', or use fedavg"
            )

    def transform(self) -> Transform:
        """Return the transform that clips and adds noise."""
        return ClipAndNoise(self.options)

    def privacy_spent(self, updates: I64, pushes: I64) -> PrivacySpent | None:
        """Return epsilon of each node by its number of pushes."""
        options, count = self.options, pushes[self.nodes].astype(np.float64)
        if ACCOUNTED[options.noise] != options.norm or options.scale == 0:
            return None
        multiplier = np.full(len(self.nodes), options.scale / (2.0 * options.bound))
        if options.noise == "laplace":
            return PrivacySpent(self.nodes, count / multiplier, multiplier, 0.0)
        return PrivacySpent(
            self.nodes, compute_epsilons(multiplier, count, options.delta), multiplier, options.delta
        )

    def privacy_spent_by_coordinate(self, coordinates: I64) -> PrivacySpent | None:
        """Return epsilon of each node by the numbers that it has sent, if each is clipped and perturbed by itself."""
        options = self.options
        if (options.norm, options.noise) != ("linf", "laplace") or options.scale == 0:
            return None
        each = 2.0 * options.bound / options.scale
        multiplier = np.full(len(self.nodes), 1.0 / each)
        sent = coordinates[self.nodes].astype(np.float64)
        return PrivacySpent(self.nodes, sent * each, multiplier, 0.0, each)


def _flat(payload: MessagePayload) -> F32:
    return np.concatenate([part.ravel() for part in payload.parts])


def _like(payload: MessagePayload, flat: F32) -> MessagePayload:
    """Return the numbers in the shapes of a payload."""
    parts = np.split(flat, np.cumsum([part.size for part in payload.parts])[:-1])
    shaped = [part.reshape(old.shape) for part, old in zip(parts, payload.parts, strict=True)]
    return MessagePayload(None if payload.users is None else shaped[0], shaped[-2], shaped[-1])
