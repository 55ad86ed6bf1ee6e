"""Aggregation rules in plain numpy, model by model and item by item: it imports nothing of the library but draws.

A change has ``items``, their ``rows`` and ``shared`` weights; a world has the coordinator's ``own`` model, clients'
``changes`` of it, the ``models`` that they make, and ``weights``, the positives of each.
"""

from __future__ import annotations

import numpy as np

from gossiprec.base.rng import generator


def slowly(own, changes, combine, rescale=False):
    """Return the own model with one change of each item added, and one of the shared weights."""
    n_shared, width = len(changes[0].shared), changes[0].rows.shape[1]
    out, end = own.astype(np.float64), len(own) - n_shared
    for item in range(end // width):
        uploads = [row for c in changes for at, row in zip(c.items, c.rows, strict=True) if at == item]
        if uploads:
            found = combine(np.array(uploads, np.float64)) * (len(uploads) if rescale else 1)
            out[item * width : (item + 1) * width] += found
    out[end:] += combine(np.array([c.shared for c in changes], np.float64)) * (len(changes) if rescale else 1)
    return out


def trimmed(drop):
    def combine(uploads):
        dropped = min(drop, (len(uploads) - 1) // 2)
        return np.mean(np.sort(uploads, axis=0)[dropped : len(uploads) - dropped], axis=0)

    return combine


def farthest(dropped_of):
    def combine(uploads):
        n, out = len(uploads), []
        for values in uploads.T:
            left, median = sorted(values.tolist()), np.median(values)
            for _ in range(min(dropped_of(n), n - 1) if n > 2 else 0):
                left.remove(max(left, key=lambda value: (abs(value - median), value)))
            out.append(sum(left) / len(left))
        return np.array(out)

    return combine


def nearest_to_mean(uploads):
    mean = uploads.mean(axis=0)
    distances = [float(((upload - mean) ** 2).sum()) for upload in uploads]
    return uploads[distances.index(min(distances))]


def krum(byzantine, keep):
    def combine(uploads):
        n = len(uploads)
        if n <= 2:
            return uploads.mean(axis=0)
        scores = []
        for i in range(n):
            others = sorted(float(((uploads[i] - uploads[j]) ** 2).sum()) for j in range(n) if j != i)
            scores.append((sum(others[: max(1, n - byzantine - 2)]), sum(others), i))
        return uploads[sorted(i for _, _, i in sorted(scores)[:keep])].mean(axis=0)

    return combine


def bounded(rows, bound):
    lengths = [max(float(np.sqrt((row**2).sum())), 1e-300) for row in rows.astype(np.float64)]
    return [row * min(1.0, bound / length) for row, length in zip(rows, lengths, strict=True)]


def slowly_added(own, changes, weights, how, bound, shared_bound):
    """Return the model with clipped changes added, client by client and row by row."""
    n_shared, width = len(changes[0].shared), changes[0].rows.shape[1]
    out, end = own.astype(np.float64), len(own) - n_shared
    weights = np.ones(len(changes)) if how == "sum" else weights
    touching = np.zeros(end // width)
    for change, weight in zip(changes, weights, strict=True):
        touching[change.items] += weight
    for change, weight in zip(changes, weights, strict=True):
        for item, row in zip(change.items, bounded(change.rows, bound), strict=True):
            share = {"sum": 1.0, "mean": weights.sum(), "touched-mean": touching[item]}[how]
            out[item * width : (item + 1) * width] += weight * row / share
        shared = bounded(change.shared[None], shared_bound)[0]
        out[end:] += weight * shared / (1.0 if how == "sum" else weights.sum())
    return out


class SlowMemory:
    """HiCS in plain loops, with given bounds or those that follow the inboxes."""

    def __init__(self, n_items, width, top):
        self.rows, self.top = np.zeros((n_items, width)), top
        self.medians, self.shared_medians = [], []

    def bound(self, lengths, medians):
        lengths = [length for length in lengths if length > 0]
        if lengths:
            medians.append(np.median([each for each in lengths if each <= 3 * np.median(lengths)]))
        return 0.5 * medians[0] if len(medians) == 1 else np.median(medians) if medians else 0.0

    def __call__(self, own, changes, weights):
        rows = [row.astype(np.float64) for change in changes for row in change.rows]
        c1 = self.bound([np.sqrt((row**2).sum()) for row in rows], self.medians)
        shared = [change.shared.astype(np.float64) for change in changes]
        of_shared = self.bound([np.sqrt((row**2).sum()) for row in shared], self.shared_medians)
        change = slowly_added(np.zeros_like(own), changes, weights, "touched-mean", c1, of_shared)
        end = self.rows.size
        self.rows += change[:end].reshape(self.rows.shape)
        norms = np.sqrt((self.rows**2).sum(axis=1))
        count = int(np.ceil(round(self.top * len(norms), 9)))
        chosen = [item for item in np.argsort(-norms, kind="stable")[:count] if norms[item] > 0]
        out = own.astype(np.float64)
        out[end:] += change[end:]
        c2 = np.mean(norms[chosen]) if chosen else 0.0
        for item in chosen:
            row = self.rows[item] * min(1.0, c2 / norms[item])
            out[:end].reshape(self.rows.shape)[item] += row
            self.rows[item] = 0.0
        return out


def krum_choice(models, byzantine):
    """Return the index that Krum chooses (Blanchard et al. 2017, section 4); on ties the closer to all others."""
    scores = []
    for i, one in enumerate(models):
        others = sorted(float(((one - other) ** 2).sum()) for j, other in enumerate(models) if j != i)
        scores.append((sum(others[: max(1, len(models) - byzantine - 2)]), sum(others)))
    return scores.index(min(scores))


def bulyan(models, byzantine):
    """Return the model of El Mhamdi et al. 2018, section 4."""
    left, chosen = list(models.astype(float)), []
    while len(chosen) < len(models) - 2 * byzantine:
        chosen.append(left.pop(krum_choice(left, byzantine)))
    chosen = np.array(chosen)
    result = []
    for values in chosen.T:
        nearest = sorted(values, key=lambda value: abs(value - np.median(chosen[:, len(result)])))
        result.append(np.mean(nearest[: len(chosen) - 2 * byzantine]))
    return np.array(result)


def foolsgold_weights(dense, kappa=1.0):
    """Return the weights of algorithm 1 of the paper."""
    n = len(dense)
    cosines = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i != j:
                cosines[i, j] = dense[i] @ dense[j] / np.linalg.norm(dense[i]) / np.linalg.norm(dense[j])
    most = np.array([max(cosines[i, j] for j in range(n) if j != i) for i in range(n)])
    for i in range(n):
        for j in range(n):
            if i != j and most[j] > max(most[i], 0):
                cosines[i, j] *= max(most[i] / most[j], 0)
    weights = np.array([1 - max(cosines[i, j] for j in range(n) if j != i) for i in range(n)]).clip(0, 1)
    weights /= weights.max()
    return np.clip(kappa * (np.log(weights / np.maximum(1 - weights, 1e-5)) + 0.5), 0, 1)


def weighted(w, weights):
    """Return the mean of models."""
    return weights @ w.models / weights.sum()


def clipped(w, bound):
    """Return the own model and the mean of differences from it, each scaled down to the norm `bound`."""
    differences = w.models - w.own
    norms = np.linalg.norm(differences, axis=1, keepdims=True)
    bound = np.median(norms) if bound is None else bound
    return w.own + (np.minimum(1, bound / norms) * differences * w.ones[:, None]).sum(0) / w.ones.sum()


def geometric_median(w):
    """Return the point after many of Weiszfeld's iterations, from the mean."""
    point = w.models.mean(axis=0)
    for _ in range(2000):
        inverse = 1 / np.linalg.norm(w.models - point, axis=1)
        point = inverse @ w.models / inverse.sum()
    return point


def centered_clipping(w, radius, iterations):
    """Return the second of two results: the centre remembers the change of the first."""
    change = np.zeros_like(w.own)
    for _ in range(2):
        centre = w.own + change
        for _ in range(iterations):
            differences = w.models - centre
            scale = np.minimum(1, radius / np.linalg.norm(differences, axis=1))
            centre = centre + scale @ differences / len(scale)
        change = centre - w.own
    return centre


def fltrust(w):
    """Return the mean of differences at the norm of the root's step, weighted by their cosines with it."""
    differences = w.models - w.own
    norms, norm = np.linalg.norm(differences, axis=1), np.linalg.norm(w.step)
    trust = np.maximum(0, differences @ w.step / norms / norm)
    return w.own + trust @ (differences / norms[:, None]) * norm / trust.sum()


def dense(w):
    """Return all changes as models' columns."""
    return w.models - w.own


def ucsu(w, top):
    """Return the sum of users' changes, each clipped as a whole, of the items that move most."""
    changes, end = dense(w), w.table(w.own).size
    norms = np.linalg.norm(changes, axis=1)
    total = (changes * np.minimum(1, np.median(norms) / norms)[:, None]).sum(0)
    moved = np.linalg.norm(w.table(total), axis=1)
    kept = np.argsort(-moved)[: int(np.ceil(top * np.count_nonzero(moved)))]
    rows = np.zeros_like(w.table(total))
    rows[kept] = w.table(total)[kept]
    return w.own + np.concatenate([rows.ravel(), total[end:]])


def foolsgold(w):
    """Return the sum of changes, weighted by how little each resembles another."""
    return w.own + foolsgold_weights(dense(w)) @ dense(w)


def spread(values):
    """Return the log of the squared spread of values as one cluster and as the best two, and the size of the lower."""
    values, n = np.sort(values), len(values)
    squares = [((part - part.mean()) ** 2).sum() for part in (values,)]
    both = [sum(((part - part.mean()) ** 2).sum() for part in (values[:k], values[k:])) for k in range(1, n)]
    return np.log(np.array([squares[0], min(both)]) + 1e-12), int(np.argmin(both)) + 1


def union(w):
    """Return the sum of the changes that are not in the smaller of two clusters of uniformity, by a gap statistic."""
    uniformity = []
    for model in w.models:
        rows, n = w.table(model), len(w.table(model))
        apart = [np.linalg.norm(rows[i] - rows[j]) for i in range(n) for j in range(n) if i != j]
        uniformity.append(np.mean(apart))
    values = (uniformity - np.min(uniformity)) / np.ptp(uniformity)
    (one, two), size = spread(values)
    drawn = np.array(
        [spread(row)[0] for row in generator(0, "union", 0, len(values)).uniform(size=(50, len(values)))]
    )
    error = drawn[:, 1].std() * np.sqrt(1 + 1 / 50)
    kept = np.ones(len(values), bool)
    if drawn[:, 0].mean() - one < drawn[:, 1].mean() - two - error:
        kept = values >= np.sort(values)[size]
        kept = kept if size < len(values) / 2 else ~kept
    return w.own + dense(w)[kept].sum(0)


def item_regularisation(w, popular, weight):
    """Return the sum of changes, with unpopular items drawn to those that moved most since ``before``."""
    table, total = w.table(w.own), w.own + dense(w).sum(0)
    best = np.argsort(-np.linalg.norm(table - w.table(w.before), axis=1))[:popular]
    ranks = np.arange(popular, 0, -1) ** 2

    def similarity(row):
        cosines = table[best] @ row / np.linalg.norm(table[best], axis=1) / np.linalg.norm(row)
        return ranks @ cosines / ranks.sum()

    rows = w.table(total).copy()
    for change in w.changes:
        unpopular = [item for item in change.items if item not in best]
        for item in unpopular:
            steps = 1e-5 * np.eye(rows.shape[1])
            slope = [(similarity(table[item] + s) - similarity(table[item] - s)) / 2e-5 for s in steps]
            rows[item] += weight * np.array(slope) / len(unpopular)
    return np.concatenate([rows.ravel(), total[rows.size :]])


def middle(values):
    """Return the median of each number."""
    return np.median(values, axis=0)


def krum_of_models(w, byzantine):
    """Return the model that Krum chooses."""
    return w.models[krum_choice(w.models, byzantine)]


FAR = 1e9
RULES = {
    "mean": ({}, lambda w: weighted(w, w.ones)),
    "samples": ({}, lambda w: weighted(w, w.weights)),
    "sum": ({}, lambda w: slowly_added(w.own, w.changes, w.ones, "sum", FAR, FAR)),
    "touched-mean": ({}, lambda w: slowly_added(w.own, w.changes, w.ones, "touched-mean", FAR, FAR)),
    "median": ({"over": "touched", "rescale": "n"}, lambda w: slowly(w.own, w.changes, middle, rescale=True)),
    "trimmed-mean": ({"over": "touched", "drop": 1}, lambda w: slowly(w.own, w.changes, trimmed(1))),
    "krum": ({"byzantine": 2}, lambda w: krum_of_models(w, 2)),
    "norm-bound": ({"bound": "median"}, lambda w: clipped(w, None)),
    "bulyan": ({"byzantine": 1}, lambda w: bulyan(w.models, 1)),
    "geometric-median": ({}, geometric_median),
    "centered-clipping": ({"radius": 0.7, "iterations": 2}, lambda w: centered_clipping(w, 0.7, 2)),
    "fltrust": ({}, fltrust),
    "ucsu": ({"over": "touched", "gather": "sum"}, lambda w: ucsu(w, 0.5)),
    "foolsgold": ({"over": "touched", "then": "sum"}, foolsgold),
    "union": ({"then": "sum"}, union),
    "hics": ({"top": 0.4}, lambda w: SlowMemory(*w.table(w.own).shape, 0.4)(w.own, w.changes, w.ones)),
    "item-regularisation": ({"popular": 2, "weight": 0.3, "then": "sum"}, lambda w: item_regularisation(w, 2, 0.3)),
}  # fmt: skip
"""Options of each rule and what it makes of a world."""
