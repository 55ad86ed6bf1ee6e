"""Views of embeddings and the losses that contrast them; all of it works under ``torch.func.vmap``.

References
----------
van den Oord, Li, Vinyals, "Representation learning with contrastive predictive coding", 2018 (InfoNCE); Yu et al.,
"Are graph augmentations necessary?" (SimGCL), SIGIR 2022, eq. 7 (noise of the embedding's own signs).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gossiprec.feeds.base import Columns

if TYPE_CHECKING:
    from torch import Tensor

TINY = 1e-12
"""Least norm that is divided by."""


def normalise_embeddings(rows: Tensor) -> Tensor:
    """Return rows of Euclidean norm 1; rows of zeros stay."""
    norm = (rows * rows).sum(-1, keepdim=True).clamp(min=TINY * TINY).sqrt()
    return rows / norm


def signed_noise(rows: Tensor, uniform: Tensor, size: float) -> Tensor:
    """Return noise of norm `size` with the signs of `rows`, in the proportions of `uniform`, constant to gradients."""
    return size * normalise_embeddings(uniform * rows.detach().sign())


def draw_view_noise(samples: Columns, each: int, width: int, draw: np.random.Generator) -> Columns:
    """Return the proportions of two noises on every positive item, ``item_noise`` of shape (n_samples, 2, width).

    A positive comes as the first of `each` samples, which all have its numbers.
    """
    noise = draw.random((len(samples["items"]) // each, 2, width), np.float32)
    return {"item_noise": noise.repeat(each, axis=0)}


def noisy_views(rows: Tensor, uniform: Tensor, size: float) -> tuple[Tensor, Tensor]:
    """Return two views of `rows` with the noises that :func:`draw_view_noise` has drawn for them."""
    one, other = (rows + signed_noise(rows, uniform[:, k], size) for k in range(2))
    return one, other


def info_nce(one: Tensor, other: Tensor, present: Tensor, temperature: float) -> Tensor:
    """Return the InfoNCE of the two views of each row among the second views of all: a sum over the rows present.

    Parameters
    ----------
    one, other : Tensor, shape (n, d)
    present : Tensor, shape (n,)
        1 for a row, 0 for padding.
    temperature : float

    Notes
    -----
    A row's own similarity is read from the matrix of all. Computed a second time, its derivative and the matrix's would
    cancel after rounding instead of before: where both views are nearly the same, what is left is noise, and Adam makes
    whole steps of it.
    """
    import torch

    logits = normalise_embeddings(one) @ normalise_embeddings(other).T / temperature
    among = torch.logsumexp(
        torch.where(present[None, :] > 0, logits, -torch.inf * torch.ones_like(logits)), dim=1
    )
    own = logits.diagonal()
    return (torch.where(present > 0, among - own, torch.zeros_like(own))).sum()
