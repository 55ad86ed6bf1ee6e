"""Compiled gradient of SimGCL's contrastive loss."""

from __future__ import annotations

from gossiprec.federated.kernels.contrastive import add_noisy_views
from gossiprec.native.jit import kernel


@kernel
def add(client):
    """Add the derivatives of the mean InfoNCE (:class:`AnalyticTerm`); numbers: weight, temperature, noise."""
    weight, temperature, size = client.numbers
    add_noisy_views(client, size, temperature, weight / len(client.of_samples))
