"""Views of embeddings, and losses that contrast them.

All functions but the last three, which are for whole tables, work under ``torch.func.vmap``.

References
----------
van den Oord, Li, Vinyals, "Representation learning with contrastive predictive coding", 2018 (InfoNCE); Yu et al.,
"Are graph augmentations necessary?" (SimGCL), SIGIR 2022, eq. 7 (noise of the embedding's own signs).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from gossiprec.models.feeds.base import Columns

if TYPE_CHECKING:
    from torch import Tensor

TINY = 1e-12
"""Lower bound of norms in divisions."""


def normalise_embeddings(rows: Tensor) -> Tensor:
    """Return rows scaled to Euclidean norm 1; rows of zeros are unchanged."""
    norm = (rows * rows).sum(-1, keepdim=True).clamp(min=TINY * TINY).sqrt()
    return rows / norm


def signed_noise(rows: Tensor, uniform: Tensor, size: float) -> Tensor:
    """Return noise of norm `size` with the signs of `rows` and the proportions of `uniform`, without gradient."""
    return size * normalise_embeddings(uniform * rows.detach().sign())


def draw_view_noise(samples: Columns, each: int, width: int, draw: np.random.Generator) -> Columns:
    """Return the proportions of two noises per positive item, ``item_noise`` of shape (n_samples, 2, width).

    A positive is the first of `each` samples, which share its numbers.
    """
    noise = draw.random((len(samples["items"]) // each, 2, width), np.float32)
    return {"item_noise": noise.repeat(each, axis=0)}


def noisy_views(rows: Tensor, uniform: Tensor, size: float) -> tuple[Tensor, Tensor]:
    """Return two views of `rows` with the noises drawn by :func:`draw_view_noise`."""
    one, other = (rows + signed_noise(rows, uniform[:, k], size) for k in range(2))
    return one, other


def info_nce(one: Tensor, other: Tensor, present: Tensor, temperature: float) -> Tensor:
    """Return the InfoNCE of each row's two views among the second views of all, summed over the rows present.

    Parameters
    ----------
    one, other : Tensor, shape (n, d)
    present : Tensor, shape (n,)
        1 for a row, 0 for padding.
    temperature : float

    Notes
    -----
    A row's own similarity is read from the matrix of all. If it were computed separately, its derivative and the one of
    the matrix would cancel after rounding instead of before: if both views are nearly equal, the remainder is noise,
    and Adam takes whole steps along it.
    """
    import torch

    logits = normalise_embeddings(one) @ normalise_embeddings(other).T / temperature
    among = torch.logsumexp(
        torch.where(present[None, :] > 0, logits, -torch.inf * torch.ones_like(logits)), dim=1
    )
    own = logits.diagonal()
    return (torch.where(present > 0, among - own, torch.zeros_like(own))).sum()


def mean_info_nce(one: Tensor, other: Tensor, temperature: float) -> Tensor:
    """Return the mean InfoNCE of each row's two views among the second views of all, as softmax cross-entropy."""
    import torch
    from torch.nn.functional import cross_entropy

    logits = (normalise_embeddings(one) / temperature) @ normalise_embeddings(other).T
    return cross_entropy(logits, torch.arange(len(one), device=one.device))


def sum_info_nce(one: Tensor, other: Tensor, rows: Tensor, temperature: float) -> Tensor:
    """Return the InfoNCE of some rows' two views among the second views of all, summed over `rows`.

    Parameters
    ----------
    one, other : Tensor, shape (n, d)
    rows : Tensor of int64, shape (n_rows,)
        A row that is there more than once counts as often, and is computed once.
    temperature : float

    Notes
    -----
    The slopes by the views are computed with the loss, in the matrix of its exponentials. By autograd a step of `sgl`
    with all rows takes a third longer.
    """
    import torch

    some, times = torch.unique(rows, return_counts=True)
    views = normalise_embeddings(one[some]), normalise_embeddings(other)
    with torch.no_grad():
        a, b = views
        matrix, own = (a / temperature) @ b.T, (torch.arange(len(some), device=some.device), some)
        matrix -= matrix.amax(1, keepdim=True)
        logits = matrix[own]
        totals = matrix.exp_().sum(1)
        lost: Tensor = (times * (totals.log() - logits)).sum()
        matrix *= (times / (temperature * totals))[:, None]
        matrix[own] -= times / temperature
        slopes = matrix @ b, matrix.T @ a
    for view, slope in zip(views, slopes, strict=True):
        lost = lost + ((view - view.detach()) * slope).sum()  # zero, with this slope
    return lost


def make_layer_noise(size: float, draw: np.random.Generator) -> Callable[[Tensor], Tensor]:
    """Return a function that adds noise of norm `size`, with the rows' signs, to a layer (SimGCL, eq. 7)."""
    import torch

    def changed(rows: Tensor) -> Tensor:
        noise = torch.from_numpy(draw.random(tuple(rows.shape), np.float32))
        noise *= size / noise.square().sum(1, keepdim=True).sqrt()
        return rows + noise.mul_(rows.detach().sign())

    return changed
