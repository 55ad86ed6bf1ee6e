"""PSMU-style, a reconstruction: items are trained on a synthetic user against that user's recommendations.

References
----------
W. Yuan, Q. V. H. Nguyen, T. He, L. Chen, H. Yin, "Manipulating federated recommender systems: poisoning with synthetic
users and its countermeasures", SIGIR 2023 (arXiv 2304.03054).

Notes
-----
**A reconstruction.** No code is public, and the paper was not available when this was written: this version is based
on a few sentences about it in arXiv 2403.20107 ("randomly constructed users generate poisoned gradients, improved by
adding targets' alternative items"). All numbers are our choice. Name it "PSMU-style" in what you publish.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from gossiprec.adversaries.poisoners import POISONERS, Poisoner, item_gradient, leaf_tensors
from gossiprec.adversaries.poisoners.synthetic_clients import client_samples, draw_items, fit_client
from gossiprec.base.arrays import I32
from gossiprec.base.options import Options
from gossiprec.compute.messages import MessagePayload, PushContext
from gossiprec.rules.aggregators import ModelDelta

if TYPE_CHECKING:  # a scenario can be read without torch
    from torch import Tensor


NONE = np.zeros(0, np.int32)


class PSMUOptions(Options):
    """Options of the reconstruction."""

    items: int = Field(default=30, ge=1, le=10**6)
    """number of items of the synthetic user, drawn at random"""
    steps: int = Field(default=20, ge=0, le=10_000)
    """Adam steps that fit its row to these items"""
    rate: float = Field(default=0.01, gt=0)
    """learning rate of these steps"""
    alternatives: int = Field(default=5, ge=0, le=10**6)
    """number of top-ranked items that compete with the targets"""
    weight: float = Field(default=1.0, ge=0)
    """weight of the competing items in the loss"""
    std: float = Field(default=0.01, gt=0)
    """standard deviation of the normal distribution of its initial row"""


@POISONERS.register("psmu")
class PSMU(Poisoner):
    """A reconstruction of PSMU: a synthetic user prefers the targets to the model's recommendations.

    At each push a user with random items is created and its row is fitted to them; items and shared weights stay as
    they were sent. Its alternatives are the items on top of its list. The loss is, with logits s,
    ``sum_t -log sigmoid(s_t) + weight * sum_t,a -log sigmoid(s_t - s_a)``; its gradient is with respect to the rows
    of targets and alternatives and the shared weights. To demote targets, s_t and s_t - s_a change their sign.
    """

    Options = PSMUOptions
    options: PSMUOptions
    needs_labels = False

    def gradient(self, sent: MessagePayload, push: PushContext) -> ModelDelta:
        """Return the gradient over a new user at each push."""
        import torch
        from torch.nn.functional import softplus

        context, draw = self.context, push.generator("poison")
        taken = self.profile(sent, push, draw)
        samples = client_samples(context, taken, int(draw.integers(2**63)), disliked=NONE)
        user = torch.from_numpy(fit_client(context, sent, samples, draw, self.options))
        rivals = self._rivals(sent, user, taken)
        items = np.union1d(context.targets, rivals).astype(np.int32)
        rows, shared = leaf_tensors(sent, items)
        scores = context.formula.scores(user, rows, shared)[0]
        wanted = scores[np.searchsorted(items, context.targets)]
        lead = wanted[:, None] - scores[np.searchsorted(items, rivals)]
        loss = softplus(-context.sign * wanted).sum()
        loss = loss + self.options.weight * softplus(-context.sign * lead).sum()
        return item_gradient(loss, items, rows, shared)

    def profile(self, sent: MessagePayload, push: PushContext, draw: np.random.Generator) -> I32:
        """Return the synthetic user's items, ascending: random ones."""
        return draw_items(draw, len(sent.items), self.options.items, without=NONE)

    def _rivals(self, sent: MessagePayload, user: Tensor, taken: I32) -> I32:
        """Return the items that the model ranks on top of the user's list; ties go to the lower ids."""
        import torch

        with torch.no_grad():
            rows, shared = torch.from_numpy(sent.items), torch.from_numpy(sent.shared)
            scores = self.context.formula.scores(user, rows, shared)[0].numpy().copy()
        scores[taken] = scores[self.context.targets] = -np.inf
        best = np.argsort(-scores, kind="stable")[: self.options.alternatives]
        return np.sort(best[np.isfinite(scores[best])]).astype(np.int32)
