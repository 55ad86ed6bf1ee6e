"""Synthetic clients of poisoners: their samples, their rows, and the gradients that clients with them would have."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from gossiprec.adversaries.poisoners import PoisonerContext, draw_user_rows, item_gradient, leaf_tensors
from gossiprec.base.arrays import F32, I32
from gossiprec.compute.messages import MessagePayload
from gossiprec.models.feeds.base import Columns
from gossiprec.rules.aggregators import ModelDelta


class FitOptions(Protocol):
    """Options of fitting a user's row."""

    @property
    def std(self) -> float:
        """Standard deviation of the normal distribution of the initial row."""

    @property
    def steps(self) -> int:
        """Steps of Adam."""

    @property
    def rate(self) -> float:
        """Learning rate."""


def draw_items(draw: np.random.Generator, n_items: int, count: int, *, without: I32) -> I32:
    """Return random items, ascending: up to `count`, and one fewer than there are at most."""
    free = np.setdiff1d(np.arange(n_items, dtype=np.int32), without)
    return np.sort(draw.choice(free, min(count, n_items - 1, len(free)), replace=False))


def client_samples(context: PoisonerContext, items: I32, seed: int, *, disliked: I32) -> Columns:
    """Return the samples of a client with some items; `disliked` items are the first of its negatives."""
    found = context.empty_feed.for_items(items).samples(0, update=0, negatives=context.negatives, seed=seed)
    samples = {name: column.copy() for name, column in found.items()}
    if "negatives" in samples:
        samples["negatives"][: len(disliked)] = disliked[: len(samples["negatives"])]
    else:
        places = np.flatnonzero(samples["labels"] == 0)[: len(disliked)]
        samples["items"][places] = disliked[: len(places)]
    return samples


def fit_client(
    context: PoisonerContext,
    sent: MessagePayload,
    samples: Columns,
    draw: np.random.Generator,
    options: FitOptions,
) -> F32:
    """Return a user's row, shape (1, user_width), after steps of Adam from N(0, std^2); the version stays as sent."""
    from gossiprec.compute.executors.user_row_fitting import fit_user_rows

    layout, frozen = context.formula.layout, np.append(sent.items.ravel(), sent.shared)
    start = draw_user_rows(draw, 1, layout, options.std)
    return fit_user_rows(
        context.formula.model, layout, start, [samples], lambda some: np.tile(frozen, (len(some), 1)),
        steps=options.steps, rate=options.rate,
    )  # fmt: skip


def client_gradient(
    context: PoisonerContext, sent: MessagePayload, user: F32, samples: Columns
) -> tuple[F32, ModelDelta]:
    """Return the gradient of a client's loss by its row, shape (1, user_width), and by the items that it touches."""
    import torch

    from gossiprec.compute.executors.tensors import to_tensor

    touched = np.unique(np.concatenate([samples[name] for name in ("items", "negatives") if name in samples]))
    items = touched.astype(np.int32)
    local = {
        name: np.searchsorted(items, column).astype(np.int32) if name in ("items", "negatives") else column
        for name, column in samples.items()
    }
    batch = {name: to_tensor(column) for name, column in local.items()}
    batch |= {"user": torch.zeros(1, dtype=torch.int64), "weights": torch.ones(len(local["items"]))}
    rows, shared = leaf_tensors(sent, items)
    row = torch.from_numpy(user.copy()).requires_grad_()
    loss = context.formula.model.loss(context.formula.blocks(row[0], rows, shared), batch)
    (slope,) = torch.autograd.grad(loss, row, retain_graph=True)
    return slope.numpy(), item_gradient(loss, items, rows, shared)
