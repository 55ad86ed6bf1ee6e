"""Shadow models and the classifier of their updates, for attribute inference (arXiv 2306.08929, Algorithm 6)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gossiprec.base.arrays import F32, I32
from gossiprec.compute.scorer import Scorer
from gossiprec.models.feeds.base import Feed
from gossiprec.numerics.torch_threads import single_torch_thread

if TYPE_CHECKING:
    import torch

WIDTHS = (256, 64)
BATCH = 32
RATE = 1e-3


def shadow_features(
    scorer: Scorer,
    feed: Feed,
    common: F32,
    own: I32,
    others: I32,
    *,
    models: int,
    draw: np.random.Generator,
) -> tuple[F32, F32]:
    """Train models on samples of the own items and on samples of the others, and return their updates.

    Parameters
    ----------
    scorer : Scorer
    feed : Feed
        A feed of the kind that the model learns from.
    common : ndarray of float32
        Item tables and shared weights to start from; each model has a new user row, as a client has.
    own, others : ndarray of int32
    models : int
        Number of models of each kind.

    Returns
    -------
    features : ndarray of float32, shape (2 * models, n_items * item_width)
        Item gradients at norm 1.
    labels : ndarray of float32, shape (2 * models,)
        1 for samples of the own items.
    """
    layout = replace(scorer.layout, n_users=1)
    features = np.zeros((2 * models, layout.n_items * layout.item_width), np.float32)
    for place in range(2 * models):
        size = max(1, round(draw.uniform(0.5, 1.0) * len(own)))
        source = own if place < models else others
        sample = draw.choice(source, min(size, len(source)), replace=False)
        start = np.concatenate([layout.initial_user(draw), common])
        trained = scorer.trained(feed.of_items(sample), start, updates=1, seed=int(draw.integers(2**62)))
        features[place] = trained[layout.items] - start[layout.items]
    labels = np.repeat(np.array([1.0, 0.0], np.float32), models)
    return normalise_rows(features), labels


def normalise_rows(rows: F32) -> F32:
    """Return the rows scaled to Euclidean norm 1; a row of zeros stays zero."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0))


def train_update_classifier(
    features: F32, labels: F32, *, epochs: int, draw: np.random.Generator
) -> torch.nn.Module:
    """Train a classifier of updates on one torch thread; `draw` gives its first weights and its batches."""
    import torch

    from gossiprec.numerics.torch_optimizers import Adam

    weights: list[F32] = []
    for inputs, outputs in itertools.pairwise((features.shape[1], *WIDTHS, 1)):
        # torch's own distribution, from our draws: torch's generator belongs to the process
        bound = 1.0 / np.sqrt(inputs)
        for shape in ((outputs, inputs), (outputs,)):
            weights.append(draw.uniform(-bound, bound, shape).astype(np.float32))
    network = build_network(weights)
    inputs_, wanted = torch.from_numpy(features), torch.from_numpy(labels)
    with single_torch_thread():
        adam = Adam(network.parameters(), lr=RATE, foreach=False)
        for _ in range(epochs):
            for batch in torch.split(torch.from_numpy(draw.permutation(len(labels))), BATCH):
                adam.zero_grad()
                loss = torch.nn.functional.binary_cross_entropy_with_logits(
                    network(inputs_[batch])[:, 0], wanted[batch]
                )
                torch.autograd.backward(loss)
                adam.step()
    return network


def build_network(weights: Sequence[F32]) -> torch.nn.Module:
    """Return the network with these weights, per layer the matrix and the offsets. It shares their memory."""
    import torch

    layers: list[torch.nn.Module] = []
    for matrix, offsets in zip(weights[::2], weights[1::2], strict=True):
        linear = torch.nn.Linear(matrix.shape[1], matrix.shape[0])
        linear.weight.data, linear.bias.data = torch.from_numpy(matrix), torch.from_numpy(offsets)
        layers += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def classifier_logits(network: torch.nn.Module, features: F32) -> F32:
    """Return the classifier's logits; an update with a NaN comes last."""
    import torch

    with torch.no_grad(), single_torch_thread():
        logits: F32 = network(torch.from_numpy(features))[:, 0].numpy()
    return np.where(np.isnan(logits), -np.inf, logits).astype(np.float32)
