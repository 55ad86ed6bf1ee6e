"""PipAttack-style, a reconstruction: targets look popular to a classifier of item rows, and are taken by the poisoner.

References
----------
S. Zhang, H. Yin, T. Chen, Z. Huang, Q. V. H. Nguyen, L. Cui, "PipAttack: poisoning federated recommender systems for
manipulating item promotion", WSDM 2022 (arXiv 2110.10926).

Notes
-----
**A reconstruction.** No code of its authors is public, and only the abstract could be read; the explicit boosting is by
its behaviour in junzhang-zj/PIECK. The classifier is a softmax regression on three levels of popularity (the top 10 %,
the next 45 %, the others), which is trained again at each push. The paper also bounds the distance from an honest
gradient: use ``scale: matched`` and ``clip``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field

from gossiprec.adversaries.poisoners import POISONERS, Poisoner, draw_user_rows, item_gradient, leaf_tensors
from gossiprec.adversaries.poisoners.fedrecattack import adam_step
from gossiprec.base.arrays import F32, F64, I64
from gossiprec.base.options import Options
from gossiprec.compute.messages import MessagePayload, PushContext
from gossiprec.models import Layout
from gossiprec.rules.aggregators import ModelDelta

LEVELS = (0.1, 0.45)
"""Fractions of the items that are popular, and of those of medium popularity."""


class PipAttackOptions(Options):
    """Options of the reconstruction."""

    weight: float = Field(default=1.0, ge=0)
    """weight of the classifier's loss"""
    steps: int = Field(default=100, ge=0, le=10_000)
    """Adam steps that train the classifier"""
    rate: float = Field(default=0.1, gt=0)
    """learning rate of these steps"""
    std: float = Field(default=0.01, gt=0)
    """standard deviation of the normal distribution of the poisoner's initial row"""


@POISONERS.register("pipattack")
class PipAttack(Poisoner):
    """A reconstruction of PipAttack: explicit boosting by the poisoner's own user, and popularity obfuscation.

    The loss is the mean over targets of ``-log sigmoid(s_t)``, for the poisoner's user, plus `weight` times minus the
    log of the classifier's probability of the top level. The user's row descends the first part. To demote targets,
    s_t changes its sign and the level is the lowest.
    """

    Options = PipAttackOptions
    options: PipAttackOptions
    needs_labels = False
    knows = frozenset({"popularity"})

    @classmethod
    def memory_numbers(cls, options: Any, layout: Layout, n_users: int) -> int:
        """Return the width of the poisoner's user row."""
        return layout.user_width

    def gradient(self, sent: MessagePayload, push: PushContext) -> ModelDelta:
        """Return the gradient of the targets' rows and the shared weights."""
        import torch
        from torch.nn.functional import cross_entropy, softplus

        context, options = self.context, self.options
        own = push.memory
        if not own.any():
            own[:] = draw_user_rows(push.generator("poison"), 1, context.formula.layout, options.std)[0]
        user = torch.from_numpy(own[None].copy()).requires_grad_()
        rows, shared = leaf_tensors(sent, context.targets)
        boosting = softplus(-context.sign * context.formula.scores(user, rows, shared)).mean()
        (slope,) = torch.autograd.grad(boosting, user, retain_graph=True)
        assert context.popularity is not None, "knows declares popularity"
        weights = torch.from_numpy(
            train_classifier(sent.items, context.popularity, options.steps, options.rate)
        )
        wanted = torch.full((len(rows),), 0 if context.sign > 0 else len(LEVELS))
        obfuscation = cross_entropy(rows @ weights[:-1] + weights[-1], wanted)
        own -= np.float32(context.rate) * slope.numpy()[0]
        return item_gradient(boosting + options.weight * obfuscation, context.targets, rows, shared)


def train_classifier(rows: F32, popularity: I64, steps: int, rate: float) -> F32:
    """Return the weights and, last, the offsets of a softmax regression on levels; shape (width + 1, n_levels)."""
    rank = np.empty(len(popularity), np.int64)
    rank[np.argsort(-popularity, kind="stable")] = np.arange(len(popularity))
    ends = np.ceil(np.cumsum(LEVELS) * len(rank) - 1e-9)
    wanted = np.eye(len(LEVELS) + 1)[np.searchsorted(ends, rank, side="right")]
    inputs = np.append(rows.astype(np.float64), np.ones((len(rows), 1)), axis=1)
    state = np.zeros((3, inputs.shape[1], wanted.shape[1]), np.float32)
    for step in range(1, steps + 1):
        logits: F64 = inputs @ state[0]
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        slope = inputs.T @ (chances - wanted) / len(rows)
        adam_step(state, slope.astype(np.float32), step, rate)
    return state[0].copy()
