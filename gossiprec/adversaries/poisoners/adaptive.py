"""Adaptive: a poisoner that knows the rule, and keeps its message within what the rule takes for honest.

References
----------
Ours, with the idea of M. Baruch, G. Baruch, Y. Goldberg, "A little is enough: circumventing defenses for distributed
learning", NeurIPS 2019: a message within a few standard deviations of the clients' passes rules that look for outliers.
There the attacker knows clients' updates; here it makes up clients.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from gossiprec.adversaries.poisoners import POISONERS, Poisoner, item_gradient, leaf_tensors
from gossiprec.adversaries.poisoners.synthetic_clients import (
    client_gradient,
    client_samples,
    draw_items,
    fit_client,
)
from gossiprec.base.arrays import F32, F64
from gossiprec.base.options import Options
from gossiprec.compute.messages import MessagePayload, PushContext
from gossiprec.rules.aggregators import ModelDelta


class AdaptivePoisonerOptions(Options):
    """Options of the adaptive poisoner."""

    evades: Literal["norm", "range", "similarity"] = "range"
    """norm: rows as long as the median of clients' (norm-bound, ucsu); range: each number within the clients' mean and
    `deviations` standard deviations (median, trimmed-mean, krum); similarity: like norm, plus noise of the same length
    that makes poisoners unlike one another (foolsgold)"""
    deviations: float = Field(default=1.0, gt=0)
    """standard deviations from the mean"""
    clients: int = Field(default=10, ge=2, le=10_000)
    """number of synthetic clients per message"""
    items: int = Field(default=30, ge=1, le=10**6)
    """random items of each"""
    steps: int = Field(default=20, ge=0, le=10_000)
    """Adam steps that fit its row to them"""
    rate: float = Field(default=0.01, gt=0)
    """learning rate of these steps"""
    std: float = Field(default=0.01, gt=0)
    """standard deviation of the normal distribution of its initial row"""
    weights: Literal["mean", "none"] = "mean"
    """change of the shared weights: the clients' mean, or none. With `scale: matched` use none: the number that brings
    the targets' rows to a client's length can be 10,000, and would multiply the weights, too"""


@POISONERS.register("adaptive")
class AdaptivePoisoner(Poisoner):
    """A poisoner that promotes targets to synthetic clients within what the rule keeps.

    The clients have the targets among their negatives, as most clients that touch an unpopular item have. Their
    gradients show what is honest; the aim is the mean over them of the gradient of ``-log sigmoid(s_t)`` by the
    targets' rows. Shared weights get the clients' mean, or no change.
    """

    Options = AdaptivePoisonerOptions
    options: AdaptivePoisonerOptions
    needs_labels = False

    def gradient(self, sent: MessagePayload, push: PushContext) -> ModelDelta:
        """Return the gradient of the targets' rows and the shared weights."""
        import torch
        from torch.nn.functional import softplus

        context, options, draw = self.context, self.options, push.generator("poison")
        users, honest, shared = [], [], []
        for _ in range(options.clients):
            taken = draw_items(draw, len(sent.items), options.items, without=context.targets)
            samples = client_samples(context, taken, int(draw.integers(2**63)), disliked=context.targets)
            users.append(fit_client(context, sent, samples, draw, options))
            _, found = client_gradient(context, sent, users[-1], samples)
            rows = np.zeros_like(sent.items)
            rows[found.items] = found.rows
            honest.append(rows[context.targets])
            shared.append(found.shared)
        rows_, shared_ = leaf_tensors(sent, context.targets)
        scores = context.formula.scores(torch.from_numpy(np.concatenate(users)), rows_, shared_)
        aim = item_gradient(softplus(-context.sign * scores).mean(), context.targets, rows_, shared_)
        within = self._within(aim.rows.astype(np.float64), np.array(honest, np.float64), draw)
        change: F32 = np.asarray(np.mean(shared, axis=0, dtype=np.float32))
        if options.weights == "none":
            change = np.zeros_like(change)
        return ModelDelta(context.targets, within.astype(np.float32), change)

    def _within(self, aim: F64, honest: F64, draw: np.random.Generator) -> F64:
        """Return the rows to send, given the aim, (n_targets, width), and the clients' rows, (n_clients, ...)."""
        if self.options.evades == "range":
            return honest.mean(axis=0) + self.options.deviations * honest.std(axis=0) * np.sign(aim)
        if self.options.evades == "similarity":
            noise = draw.standard_normal(aim.shape)
            along = (noise * aim).sum(axis=1, keepdims=True) / np.maximum(
                np.square(aim).sum(axis=1, keepdims=True), 1e-300
            )
            noise -= along * aim
            aim = unit_rows(aim) + unit_rows(noise)
        lengths: F64 = np.median(np.linalg.norm(honest, axis=2), axis=0)
        return lengths[:, None] * unit_rows(aim)


def unit_rows(rows: F64 | F32) -> F64:
    """Return rows of length 1; zero rows stay."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, norms, out=np.zeros(rows.shape), where=norms > 0)
