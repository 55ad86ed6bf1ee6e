"""Compiled gradient of PDC-FRS's users' loss."""

from __future__ import annotations

import numpy as np
from numpy import float32

from gossiprec.models.base.contrastive import TINY
from gossiprec.native.jit import kernel
from gossiprec.numerics.flat_ops import axpy, dot, exp32


@kernel
def add_contrast(client):
    """Add the derivatives of the users' loss (:class:`AnalyticTerm`); numbers: weight, temperature.

    ``extra`` holds the auxiliary users as columns of norm 1, shape (d, n_users), ``of_step`` the client's own.
    """
    others, own = client.extra, client.of_step
    dim, n = others.shape
    sharp = float32(1.0 / client.numbers[1])
    norm = max(np.sqrt(dot(client.core, 0, client.core, 0, dim)), float32(TINY))
    near, total = np.zeros(n, np.float32), float32(0.0)
    for i in range(dim):
        axpy(near, 0, others[i], 0, n, client.core[i] / norm)
    for k in range(len(near)):
        near[k] = exp32((near[k] - float32(1.0)) * sharp)
        total += near[k]
    pulls, along = np.empty(dim, np.float32), float32(0.0)
    for i in range(dim):
        pulls[i] = float32(client.numbers[0]) * sharp * (dot(near, 0, others[i], 0, n) / total - own[i])
        along += pulls[i] * client.core[i] / norm
    if norm <= float32(TINY):
        along = float32(0.0)
    for i in range(dim):
        client.slopes[i] += (pulls[i] - along * client.core[i] / norm) / norm
