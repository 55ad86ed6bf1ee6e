"""Messages of poisoners in plain numpy, for scores that are dot products: it imports nothing of the library but draws.

They are written from docs/poisoners.md. `sent` are all versions of the item table that a node was sent, shape (n_items,
dim) each; its message is minus the learning rate times the gradient that a function returns.
"""

from __future__ import annotations

import math

import numpy as np

from gossiprec.base.rng import generator
from tests.audit.brute_force import adam, samples_of, sigmoid

BETAS, EPS = (0.9, 0.999), 1e-8


def descent(values, slope_of, steps, rate):
    """Return values after steps of Adam."""
    moments = (np.zeros_like(values), np.zeros_like(values))
    for step in range(1, steps + 1):
        values, moments = adam(values, slope_of(values), moments, step, rate, BETAS, EPS)
    return values


# PipAttack.


def levels(popularity):
    """Return each item's level: 0 for the most popular 10 %, 1 for the next 45 %, 2 for the others."""
    ranked = sorted(range(len(popularity)), key=lambda item: (-popularity[item], item))
    found = np.full(len(popularity), 2)
    found[ranked[: math.ceil(0.55 * len(ranked))]] = 1
    found[ranked[: math.ceil(0.1 * len(ranked))]] = 0
    return found


def chances(rows, weights):
    """Return the probability of each level by a softmax regression, the last of whose weights are offsets."""
    heights = np.exp(rows @ weights[:-1] + weights[-1])
    return heights / heights.sum(axis=1, keepdims=True)


def classifier(rows, popularity, steps, rate):
    """Return the weights of a softmax regression after steps of Adam on its mean loss, from zero."""
    wanted, inputs = np.eye(3)[levels(popularity)], np.column_stack([rows, np.ones(len(rows))])
    return descent(
        np.zeros((inputs.shape[1], 3)),
        lambda weights: inputs.T @ (chances(rows, weights) - wanted) / len(rows),
        steps, rate,
    )  # fmt: skip


def pipattack(sent, node, w):
    """Return the gradient of explicit boosting and popularity obfuscation at the last version."""
    user = generator(w.seed, "poison", node, 0).normal(0, w.std, w.dim).astype(np.float32).astype(float)
    for rows in sent[:-1]:  # at each push the own row descends the first part
        user = user + w.rate * w.sign * sigmoid(-w.sign * rows[w.targets] @ user) @ rows[w.targets] / len(
            w.targets
        )
    rows, found = sent[-1], np.zeros_like(sent[-1])
    weights = classifier(rows, w.popularity, w.steps, w.fit_rate)
    for target in w.targets:
        off = chances(rows[[target]], weights)[0] - np.eye(3)[0 if w.sign > 0 else 2]
        boost = -w.sign * sigmoid(-w.sign * rows[target] @ user) * user
        found[target] = (boost + w.weight * weights[:-1] @ off) / len(w.targets)
    return found


# Spattack.


def spattack_noise(sent, node, w):
    """Return the same normal noise for all poisoners in all rounds (Spattack-L)."""
    return generator(w.seed, "spattack", 0, 0).standard_normal(sent[-1].shape)


def spattack_few(sent, node, w):
    """Return the noise of a node's own items, which are drawn once by popularity."""
    draw = generator(w.seed, "spattack-items", node, 0)
    chosen = draw.choice(len(w.popularity), w.items, replace=False, p=w.popularity / w.popularity.sum())
    return np.isin(np.arange(len(w.popularity)), chosen)[:, None] * spattack_noise(sent, node, w)


def spattack_undo(sent, node, w):
    """Return the share of each poisoner in the last change of the version, so that its message takes it back."""
    before = sent[-2] if len(sent) > 1 else sent[-1]
    return (sent[-1] - before) / len(w.nodes) / w.rate


# PAMN.


def profile(sent, node, w, draw):
    """Return the synthetic user's items: at first random ones, then the node's part of those that moved most."""
    n_items = len(sent[-1])
    if len(sent) == 1:
        return sorted(draw.choice(np.arange(n_items, dtype=np.int32), w.items, replace=False).tolist())
    moved = np.linalg.norm(sent[-1] - sent[-2], axis=1)
    ranked = sorted((item for item in range(n_items) if item not in w.targets), key=lambda item: -moved[item])
    n = len(w.nodes) if w.diverse else 1
    return sorted(ranked[: w.items * n][w.nodes.index(node) % n :: n])


def pamn(sent, node, w):
    """Return the gradient that makes the synthetic user prefer the targets to its best other items."""
    rows, draw = sent[-1], generator(w.seed, "poison", node, len(sent) - 1)
    own = profile(sent, node, w, draw)
    seed = int(draw.integers(2**63))
    items, labels = samples_of(seed, 0, tuple(own), len(rows), 0, w.negatives)
    start = draw.normal(0, w.std, w.dim).astype(np.float32).astype(float)
    user = descent(
        start,
        lambda row: (sigmoid(rows[items] @ row) - labels) @ rows[items] / len(items),
        w.steps,
        w.fit_rate,
    )
    scores, found = rows @ user, np.zeros_like(rows)
    free = [item for item in range(len(rows)) if item not in own and item not in w.targets]
    rivals = sorted(free, key=lambda item: -scores[item])[: w.alternatives]
    for target in w.targets:
        found[target] -= w.sign * sigmoid(-w.sign * scores[target]) * user
        for rival in rivals:
            pull = w.weight * w.sign * sigmoid(-w.sign * (scores[target] - scores[rival])) * user
            found[target] -= pull
            found[rival] += pull
    return found
