"""Federated training of NCF in plain numpy and float64: it shares nothing but data and random draws with the library.

Both come with a prepared run, which the caller makes: this file imports generators of draws alone. Merges are
``touched-mean``, ``sum`` and the median of each item's changes times their number (``rescale: n``).
"""

from __future__ import annotations

import numpy as np

from gossiprec.base.rng import generator

BETAS, EPS = (0.9, 0.999), 1e-8


def sigmoid(z):
    """Return ``1 / (1 + exp(-z))``, exact at both ends."""
    return np.where(z < 0, np.exp(np.minimum(z, 0)) / (1 + np.exp(-np.abs(z))), 1 / (1 + np.exp(-np.abs(z))))


def residual(z, label):
    """Return the derivative of the cross-entropy by the logit, without cancellation."""
    return (1 - label) * sigmoid(z) - label * sigmoid(-z)


def gradient(p, items, labels, *, summed=False, last_only=False):
    """Return the gradient of L_rec: of a client's ``user``, the rows of its ``items``, and the layers.

    With `last_only` an item's row has the gradient of the last of its samples.
    """
    rows = p["items"][items]
    values = [np.concatenate([np.tile(p["user"], (len(items), 1)), rows], axis=1)]
    for k, (matrix, offset) in enumerate(p["layers"]):
        z = values[-1] @ matrix.T + offset
        values.append(np.maximum(z, 0) if k + 1 < len(p["layers"]) else z)
    pull = residual(values.pop()[:, 0], labels)[:, None] / (1 if summed else len(items))
    layers = []
    for (matrix, _), below in zip(p["layers"][::-1], values[::-1], strict=True):
        layers.insert(0, (pull.T @ below, pull.sum(0)))
        pull = (pull @ matrix) * ((below > 0) if below is not values[0] else 1)
    dim, slopes = len(p["user"]), np.zeros_like(p["items"])
    if last_only:
        slopes[items] = pull[:, dim:]
    else:
        np.add.at(slopes, items, pull[:, dim:])
    return {"user": pull[:, :dim].sum(0), "items": slopes, "layers": layers}


def unit(rows):
    """Return rows of Euclidean norm 1."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def info_nce_slopes(one, other, tau):
    """Return the derivatives of the summed InfoNCE by both lists of views."""
    near = np.exp((unit(one) @ unit(other).T - 1) / tau)
    pull = (near / near.sum(1, keepdims=True) - np.eye(len(one))) / tau
    return through_unit(one, pull @ unit(other)), through_unit(other, pull.T @ unit(one))


def through_unit(rows, slopes):
    """Return derivatives by rows, given those by the same rows at norm 1."""
    own, norms = unit(rows), np.linalg.norm(rows, axis=1, keepdims=True)
    return (slopes - (slopes * own).sum(1, keepdims=True) * own) / norms


class Adam:
    """Moments of one array."""

    def __init__(self, shape):
        self.first, self.second, self.steps = np.zeros(shape), np.zeros(shape), 0

    def move(self, slope, rate):
        """Return the step against a slope."""
        self.steps += 1
        self.first = BETAS[0] * self.first + (1 - BETAS[0]) * slope
        self.second = BETAS[1] * self.second + (1 - BETAS[1]) * slope**2
        mean, square = self.first / (1 - BETAS[0] ** self.steps), self.second / (1 - BETAS[1] ** self.steps)
        return -rate * mean / (np.sqrt(square) + EPS)


class Loop:
    """A whole run: ``epochs(n)`` yields the version ``[items | layers]`` after the answers of each epoch are merged."""

    def __init__(self, run):
        self.run = run
        self.scenario, self.work = run.components.scenario, run.executor.work
        self.layout, store = self.work.layout, run.executor.store
        self.version = store.version(0)[: self.layout.merged.stop - self.layout.merged.start].astype(float)
        self.own = store.own[: len(self.work.feed.positives), : self.layout.user_width].astype(float)
        self.moments = [Adam(row.shape) for row in self.own]
        self.updates = np.zeros(len(self.own), int)

    def tables(self, version):
        """Return the item table and the layers of a version."""
        n, width = self.layout.n_items, self.layout.item_width
        items, rest, layers = version[: n * width].reshape(n, width).copy(), version[n * width :], []
        for inner, outer in zip(self.work.model.widths, self.work.model.widths[1:], strict=False):
            matrix, rest = rest[: inner * outer].reshape(outer, inner), rest[inner * outer :]
            layers.append((matrix.copy(), rest[:outer].copy()))
            rest = rest[outer:]
        return items, layers

    def epochs(self, number):
        """Yield versions."""
        protocol = self.scenario.protocol.options
        for epoch in range(number):
            order = generator(self.scenario.seed, "slices", epoch).permutation(len(self.own))
            for begin in range(0, len(order), protocol.slice):
                clients = np.sort(order[begin : begin + protocol.slice])
                self.version = self.version + self.merged([self.client(c) for c in clients.tolist()])
            yield self.version

    def merged(self, answers):
        """Return the change that a slice's answers, (touched, item changes, layer changes) each, are merged to."""
        rule = self.scenario.protocol.options.merge
        n, width = self.layout.n_items, self.layout.item_width
        found = np.zeros((n, width))
        for item in range(n):
            of_item = [rows[item] for touched, rows, _ in answers if touched[item]]
            if of_item:
                found[item] = combined(rule, np.array(of_item))
        rest = combined(rule, np.array([layers for _, _, layers in answers]))
        return np.concatenate([found.ravel(), rest])

    def client(self, node):
        """Return what a client answers: the items that it touched, and its changes."""
        if self.run.components.attackers and node >= self.run.components.attackers[0].nodes[0]:
            return self.poisoner(node)
        training, work = self.work.training, self.work
        drawn = work.feed.samples(
            node,
            update=training.negatives_update(int(self.updates[node])),
            negatives=training.negatives,
            seed=work.seed,
        )
        items, labels = drawn["items"].astype(int), drawn["labels"].astype(float)
        table, layers = self.tables(self.version)
        p = {"user": self.own[node].copy(), "items": table.copy(), "layers": [list(pair) for pair in layers]}
        moments = {
            "items": Adam(table.shape),
            **{(k, j): Adam(layers[k][j].shape) for k in range(len(layers)) for j in range(2)},
        }
        for step in range(training.local_epochs):
            slopes = self.slopes(p, node, step, items, labels)
            self.step(p, slopes, moments, node)
        self.own[node] = p["user"]
        self.updates[node] += 1
        touched = np.zeros(len(table), bool)
        touched[items] = True
        changed = [p["layers"][k][j] - layers[k][j] for k in range(len(layers)) for j in range(2)]
        return touched, p["items"] - table, np.concatenate([part.ravel() for part in changed])

    def poisoner(self, node):
        """Return the message of A-ra: the mean gradient over drawn users; those of A-hum first dislike the targets."""
        targets, options = (
            self.run.components.attackers[0].targets,
            self.run.components.attackers[0].choice.options,
        )
        table, layers = self.tables(self.version)
        push, rate = int(self.updates[node]), self.work.training.learning_rate
        self.updates[node] += 1
        rows, rest = np.zeros_like(table), np.zeros(len(self.version) - table.size)
        drawn = generator(self.scenario.seed, "poison", node, push).normal(
            0, options.std, (options.users, table.shape[1])
        )
        for user in drawn.astype(np.float32).astype(float):
            p = {"user": user, "items": table, "layers": layers}
            for _ in range(getattr(options, "steps", 0)):
                p["user"] = p["user"] - options.rate * gradient(p, targets, np.zeros(len(targets)))["user"]
            found = gradient(p, targets, np.ones(len(targets)))
            rows -= rate * found["items"] / options.users
            flat = [part.ravel() for pair in found["layers"] for part in pair]
            rest -= rate * np.concatenate(flat) / options.users
        return np.isin(np.arange(len(table)), targets), rows, rest

    def step(self, p, slopes, moments, node):
        """Take an optimizer step."""
        rate, adam = self.work.training.learning_rate, self.work.training.optimizer == "adam"
        p["user"] = p["user"] + (
            self.moments[node].move(slopes["user"], rate) if adam else -rate * slopes["user"]
        )
        p["items"] = p["items"] + (
            moments["items"].move(slopes["items"], rate) if adam else -rate * slopes["items"]
        )
        for k, pair in enumerate(slopes["layers"]):
            for j, slope in enumerate(pair):
                p["layers"][k][j] = p["layers"][k][j] + (
                    moments[k, j].move(slope, rate) if adam else -rate * slope
                )

    def slopes(self, p, node, step, items, labels):
        """Return the gradient of the client's loss: L_rec, with the item term of CL4FedRec if it is in the run."""
        summed = getattr(self.work.model.options, "loss_reduction", "mean") == "sum"
        found = gradient(p, items, labels, summed=summed)
        recommender = self.work.recommender
        if recommender is None:
            return found
        if type(recommender).__name__ == "LastRepeat":
            return gradient(p, items, labels, summed=summed, last_only=True)
        options = recommender.options
        assert options.user_weight == 0
        assert options.item_view_scale == "learning-rate"
        of_step, _ = self.work.draw_for_step(node, int(self.updates[node]), step, {"items": items})
        positives, views = items[:: 1 + self.work.training.negatives], []
        for uniform in of_step["user_noise"].astype(float):
            noise = uniform * np.sign(p["user"])
            seen = {**p, "user": p["user"] + options.noise * noise / np.linalg.norm(noise)}
            moved = gradient(seen, items, labels, summed=summed)["items"]
            views.append((p["items"] - self.work.training.learning_rate * moved)[positives])
        weight = options.item_weight / (len(positives) if options.item_loss == "mean" else 1)
        for slope in info_nce_slopes(*views, options.temperature):
            found["items"][positives] += weight * slope
        return found


def combined(rule, changes):
    """Return what changes of one thing, shape (n, ...), are merged to."""
    if rule == "sum":
        return changes.sum(0)
    if rule == "touched-mean":
        return changes.mean(0)
    assert rule["name"] == "median"
    assert rule["rescale"] == "n"
    return np.median(changes, axis=0) * len(changes)


# What CL4FedRec's coordinator does at the borders of an epoch, and what clients minimise.


def cross_entropy(p, items, labels):
    """Return the mean of L_rec over samples, by NCF."""
    values = np.concatenate([np.tile(p["user"], (len(items), 1)), p["items"][items]], axis=1)
    for k, (matrix, offset) in enumerate(p["layers"]):
        values = values @ matrix.T + offset
        values = np.maximum(values, 0) if k + 1 < len(p["layers"]) else values
    chance = sigmoid(values[:, 0])
    return -np.mean(labels * np.log(chance) + (1 - labels) * np.log(1 - chance))


def noisy(row, uniform, size):
    """Return a view of a row: noise of a norm, in the signs of the row."""
    noise = uniform * np.sign(row)
    return row + size * noise / np.linalg.norm(noise)


def against(anchor, own, others, tau):
    """Return minus the log of the softmax of one row, told from others by cosines."""
    near = np.exp(unit(np.array([own, *others])) @ (anchor / np.linalg.norm(anchor)) / tau)
    return -np.log(near[0] / near.sum())


def contrast(one, other, tau):
    """Return the InfoNCE of two lists of rows: a sum, row by row."""
    return sum(against(row, other[k], np.delete(other, k, axis=0), tau) for k, row in enumerate(one))


def item_views(p, items, labels, views, each, scale):
    """Return the positives moved by one gradient step of norm `scale` for each view of the user (eq. 8)."""
    found = []
    for view in views:
        slope = gradient({**p, "user": view}, items, labels)["items"]
        norms = np.linalg.norm(slope, axis=1, keepdims=True)
        found.append((p["items"] - scale * slope / np.where(norms > 0, norms, 1))[items[::each]])
    return found


def client_loss(
    p, items, labels, uniform, synthetic, *, each, tau=0.2, noise=0.1, scale=0.1, weights=(0.3, 0.9)
):
    """Return L_rec + lambda 1 L_uc + lambda 2 L_ic / positives of a client of CL4FedRec."""
    views = [noisy(p["user"], one, noise) for one in uniform]
    of_items = contrast(*item_views(p, items, labels, views, each, scale), tau) / len(items[::each])
    of_user = against(views[0], views[1], synthetic, tau)
    return cross_entropy(p, items, labels) + weights[0] * of_user + weights[1] * of_items


def fitted_user(p, items, labels, *, steps, rate):
    """Return the row of a synthetic user after Adam's steps on its items (eq. 5)."""
    adam, row = Adam(p["user"].shape), p["user"].copy()
    for _ in range(steps):
        row = row + adam.move(gradient({**p, "user": row}, items, labels)["user"], rate)
    return row


def regularised(items, hot, others, *, tau, rate):
    """Return items after one step of Adam on the sum of log sum exp(cos / tau) of popular ones with others (eq. 15)."""
    near = np.exp(unit(items[hot]) @ unit(items[others]).T / tau)
    pull, slopes = near / near.sum(1, keepdims=True) / tau, np.zeros_like(items)
    slopes[hot] = through_unit(items[hot], pull @ unit(items[others]))
    slopes[others] += through_unit(items[others], pull.T @ unit(items[hot]))
    return items + Adam(items.shape).move(slopes, rate)


def correlation(rows):
    """Return L_uni (eq. 12): the norm of the correlation matrix of the dimensions, over their number."""
    centred = rows - rows.mean(0)
    columns = unit(centred.T)
    return np.sqrt(((columns @ columns.T) ** 2).sum()) / rows.shape[1]
