"""PDC-FRS, PerFedRec++, FedCL and all measures in plain numpy: it imports nothing of the library but draws."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from gossiprec.base.rng import generator, purpose_id, uniforms
from tests.audit.federated_loop import Adam, gradient, through_unit, unit

# PDC-FRS.


def mechanism(row, epsilon, sensitivity):
    """Return the probability of each item to replace one with these similarities (eq. 1)."""
    weights = np.exp(epsilon * row / (2 * sensitivity))
    return weights / weights.sum()


def contributed(table, user, items, epsilon, seed):
    """Return the item that replaces each item of a user."""
    found = []
    for item in items:
        at = uniforms(seed, item, user, purpose_id("contribution"))
        found.append(int(np.searchsorted(np.cumsum(mechanism(table[item], epsilon, 1.0)), at)))
    return found


def auxiliary_users_and_items(p, samples, rate, passes):
    """Return the auxiliary model after passes of one batch: Adam on the mean cross-entropy over all users' samples."""
    users, items = p["users"].copy(), p["items"].copy()
    layers = [[part.copy() for part in pair] for pair in p["layers"]]
    moments = {}

    def moved(name, values, slope):
        moments.setdefault(name, Adam(values.shape))
        return values + moments[name].move(slope, rate)

    for drawn in samples[:passes]:
        count = sum(len(own) for own, _ in drawn)
        found = [
            gradient({"user": user, "items": items, "layers": layers}, *own, summed=True)
            for user, own in zip(users, drawn, strict=True)
        ]
        slopes = [
            [sum(one["layers"][k][j] for one in found) / count for j in range(2)] for k in range(len(layers))
        ]
        users = moved("users", users, np.array([one["user"] for one in found]) / count)
        items = moved("items", items, sum(one["items"] for one in found) / count)
        layers = [[moved((k, j), layers[k][j], slopes[k][j]) for j in range(2)] for k in range(len(layers))]
    return users, items


def items_drawn_near(items, auxiliary, *, beta, tau, rate):
    """Return items after a plain step on beta times the sum of their losses (eq. 8)."""
    near = np.exp(unit(items) @ unit(auxiliary).T / tau)
    pull = (near / near.sum(1, keepdims=True) - np.eye(len(items))) / tau
    return items - rate * beta * through_unit(items, pull @ unit(auxiliary))


def user_near(user, auxiliary, own, tau):
    """Return minus the log of the softmax of a user's own auxiliary row among all (eq. 7)."""
    near = np.exp(unit(auxiliary) @ (user / np.linalg.norm(user)) / tau)
    return -np.log(near[own] / near.sum())


# PerFedRec++.


def adjacency(edges, n_users, n_items):
    """Return D^-1/2 A D^-1/2 of (user, item) pairs, entry by entry."""
    degrees, matrix = np.zeros(n_users + n_items), np.zeros((n_users + n_items,) * 2)
    for user, item in edges:
        degrees[user] += 1
        degrees[n_users + item] += 1
    for user, item in edges:
        value = 1 / np.sqrt(degrees[user] * degrees[n_users + item])
        matrix[user, n_users + item] = matrix[n_users + item, user] = value
    return matrix


def edges_of_view(true, n_items, o, users, *, seed, number, epoch):
    """Return the edges of a view: all, or those of the drawn users with pseudo edges of theirs (eq. 1)."""
    if o.views == "noise":
        return true
    kept = [edge for edge in true if edge[0] in users]
    others = [(user, item) for user in users for item in range(n_items) if (user, item) not in kept]
    draw = generator(seed, "pretraining-edges", number, epoch)
    some = draw.choice(len(others), int(o.pseudo_edges * len(kept)), replace=False)
    return kept + [others[place] for place in some]


def view(rows, matrix, layers, noise, draw):
    """Return the mean of layers with noise of a norm added to each row of each, without layer 0 (eq. 2 and 3)."""
    layer, total = rows, 0
    for _ in range(layers):
        uniform = draw.random(rows.shape, np.float32).astype(float)
        layer = matrix @ layer + noise * uniform / np.linalg.norm(uniform, axis=1, keepdims=True)
        total = total + layer
    return total / layers


def pretraining(true, n_users, n_items, o, layers, *, seed, epoch):
    """Return the loss of an epoch as a function of rows: InfoNCE of its users plus that of its items."""
    users, items = (
        sorted(generator(seed, f"pretraining-{of}", 0, epoch).choice(n, min(n, o.sampled), replace=False).tolist())
        for of, n in (("users", n_users), ("items", n_items))
    )  # fmt: skip
    matrices = [
        adjacency(
            edges_of_view(true, n_items, o, users, seed=seed, number=number, epoch=epoch), n_users, n_items
        )
        for number in range(2)
    ]

    def loss(rows):
        one, other = (
            unit(view(rows, matrix, layers, o.noise, generator(seed, "pretraining-noise", number, epoch)))
            for number, matrix in enumerate(matrices)
        )
        lost = 0.0
        for some in (users, [n_users + item for item in items]):
            near = np.exp(one[some] @ other[some].T / o.temperature)
            lost -= np.log(near.diagonal() / near.sum(1)).mean()
        return lost

    return loss


def slope_of(loss, rows, step=1e-5):
    """Return the derivative of a loss by central differences."""
    found = np.zeros_like(rows)
    for place in np.ndindex(rows.shape):
        ends = [rows.copy(), rows.copy()]
        ends[0][place] += step
        ends[1][place] -= step
        found[place] = (loss(ends[0]) - loss(ends[1])) / (2 * step)
    return found


def pretrained(rows, true, n_users, n_items, o, layers, seed):
    """Return rows after a step of Adam for each epoch."""
    rows, adam = rows.astype(float), Adam(rows.shape)
    for epoch in range(o.epochs):
        loss = pretraining(true, n_users, n_items, o, layers, seed=seed, epoch=epoch)
        rows = rows + adam.move(slope_of(loss, rows), o.learning_rate)
    return rows


def nearest_means(rows, clusters):
    """Return the cluster whose mean is nearest to each row, which is its own where K-means has ended."""
    means = np.array([rows[clusters == k].mean(axis=0) for k in range(clusters.max() + 1)])
    return ((rows[:, None] - means) ** 2).sum(2).argmin(axis=1)


def cluster_model(model, dense, weights, members):
    """Return a cluster's model after its members' changes, weighted by their interactions (eq. 12)."""
    return model + weights[members] @ dense[members] / weights[members].sum()


def mix(own, cluster, all_clients, local_share, cluster_share):
    """Return the model by which a client recommends (eq. 14)."""
    return local_share * own + cluster_share * cluster + (1 - local_share - cluster_share) * all_clients


def clipped_update(model, base, bound, scale, draw):
    """Return the message of a client: its change, cut off at `bound` number by number, with Laplace noise (eq. 9)."""
    return base + np.clip(model - base, -bound, bound) + draw.laplace(0, scale, len(model))


# FedCL.


def told_vector(vector, clip, epsilon, draw):
    """Return a user's vector at an L1 norm of at most `clip`, with Laplace noise of scale 2 clip / epsilon."""
    short = vector * min(1, clip / np.abs(vector).sum())
    return short + draw.laplace(0, 2 * clip / epsilon, len(vector))


def ward(rows, number):
    """Return clusters as sets, of which those are merged that raise the sum of squares least."""
    clusters = [[place] for place in range(len(rows))]
    while len(clusters) > number:
        raised = {}
        for a, one in enumerate(clusters):
            for b, other in enumerate(clusters[:a]):
                apart = rows[one].mean(0) - rows[other].mean(0)
                raised[b, a] = len(one) * len(other) / (len(one) + len(other)) * (apart @ apart)
        b, a = min(raised, key=raised.get)
        clusters[b] += clusters.pop(a)
    return {frozenset(cluster) for cluster in clusters}


def semi_hard(vector, centroids, items, known, *, share, number, draw):
    """Return a sample of the best items of the centroid nearest to a vector; -1 in place of known ones."""
    centroid = centroids[((centroids - vector) ** 2).sum(1).argmin()]
    best = sorted(np.argsort(-(items @ centroid), kind="stable")[: int(share * len(items))].tolist())
    drawn = np.array(best)[draw.choice(len(best), number, replace=False)]
    return [-1 if item in known else item for item in drawn.tolist()]


def softmax_loss(items, user, positives, negatives):
    """Return the mean over positives of minus the log of the softmax among own negatives, each once (eq. 1)."""
    lost = []
    for positive, others in zip(positives, negatives, strict=True):
        scores = items[[positive, *sorted(set(others))]] @ user
        lost.append(np.log(np.exp(scores).sum()) - scores[0])
    return np.mean(lost)


def batch_insensitive(items, user, positives, there, margin, weight):
    """Return BIL: hinges of cosines of positives, and the norm of scalar products of different items."""
    near = unit(items[positives]) @ (user / np.linalg.norm(user))
    products = unit(items[there]) @ unit(items[there]).T
    spread = np.sqrt((products**2).sum() - (np.diag(products) ** 2).sum())
    return (np.maximum(0, margin - near) ** 2).mean() + weight * spread


# Measures of a user's list of items, best first, and of all lists.


def of_list(items, wanted, k):
    """Return each measure of one list of all items, where `wanted` items are relevant."""
    hits = [place for place, item in enumerate(items[:k]) if item in wanted]
    gain = sum(1 / math.log2(place + 2) for place in hits)
    ideal = sum(1 / math.log2(place + 2) for place in range(min(k, len(wanted))))
    precision, recall = len(hits) / k, len(hits) / len(wanted)
    return {
        "recall": recall,
        "precision": precision,
        "f1": 2 * precision * recall / (precision + recall) if hits else 0.0,
        "ndcg": gain / ideal,
        "mrr": 1 / (1 + hits[0]) if hits else 0.0,
        "hit": float(len(hits) > 0),
        "hr": float(len(hits) > 0),
    }


def exposure(lists, taken, targets, k):
    """Return ER@K of each target: the share of lists that show it, among users who have not taken it."""
    found = []
    for target in targets:
        new = [user for user in range(len(lists)) if target not in taken[user]]
        found.append(np.mean([target in lists[user][:k] for user in new]))
    return found


def of_data(lists, train, test, genres, n_items, k):
    """Return each measure of lists that depends on the data; those by user are lists."""
    seen = Counter(item for row in train for item in row)
    shown = Counter(item for row in lists for item in row[:k])

    def rarity(items):
        return sum(max(seen[item], 1) ** -0.5 for item in items)

    def kinds(items):
        found = Counter()
        for item in items:
            for genre in genres[item]:
                found[genre] += 1 / len(genres[item])
        return {genre: count / sum(found.values()) for genre, count in found.items()}

    def distance(p, q):
        squares = [(math.sqrt(p.get(g, 0)) - math.sqrt(q.get(g, 0))) ** 2 for g in {*p, *q}]
        return math.sqrt(sum(squares) / 2)

    pairs = sum(abs(shown[a] - shown[b]) for a in range(n_items) for b in range(n_items))
    return {
        "coverage": len(shown) / n_items,
        "exposure_gini": pairs / (2 * (n_items - 1) * sum(shown.values())),
        "novelty": [np.mean([1 - seen[item] / len(train) for item in row[:k]]) for row in lists],
        "stratified_recall": [
            rarity({*row[:k]} & {*own}) / rarity(own) for row, own in zip(lists, test, strict=True)
        ],
        "miscalibration": [
            distance(kinds(own), kinds(row[:k])) for row, own in zip(lists, train, strict=True)
        ],
    }
