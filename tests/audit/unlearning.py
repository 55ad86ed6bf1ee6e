"""Federated training of matrix factorisation, and unlearning after it, in plain numpy; written from docs/forgetting.md.

Of the library it imports nothing but random draws. Clients hold no model but their row, train all their samples at
once by plain gradient descent, and answer with the change of the items that they touched.
"""

from __future__ import annotations

import math

import numpy as np

from tests.audit.brute_force import first_model, samples_of, sigmoid

MERGES = ("samples", "mean", "sum", "touched-mean")


class Federation:
    """A federation, with its version and users' rows.

    Parameters
    ----------
    scenario : mapping
    train : list of tuple of int
        Each user's items; none for users without data.
    n_items : int
    epochs : int, optional
        Local epochs, in place of those of the scenario.
    """

    def __init__(self, scenario, train, n_items, epochs=None):
        self.scenario, self.train, self.n_items = scenario, train, n_items
        self.epochs = epochs or scenario["training"]["local_epochs"]
        first = [first_model(scenario, n_items, user) for user in range(len(train))]
        self.version, self.users = first[0]["items"], np.array([one["user"] for one in first])
        self.updates = [0] * len(train)

    def answer(self, user):
        """Return the items that a client touched and the change of the table; the client's row moves."""
        training, own = self.scenario["training"], self.train[user]
        number, self.updates[user] = self.updates[user], self.updates[user] + 1
        if not own:
            return None
        items, labels = samples_of(
            self.scenario["seed"], user, own, self.n_items, number, training["negatives"]
        )
        row, table, rate = self.users[user], self.version.copy(), training["learning_rate"]
        for _ in range(self.epochs):
            error = (sigmoid(table[items] @ row) - labels) / len(items)
            slopes = np.zeros_like(table)
            np.add.at(slopes, items, np.outer(error, row))
            row, table = row - rate * error @ table[items], table - rate * slopes
        self.users[user] = row
        return np.isin(np.arange(self.n_items), items), table - self.version

    def weight(self, user):
        return len(self.train[user]) if self.scenario["protocol"]["merge"] == "samples" else 1.0

    def round(self, clients):
        """Return the answers of a round by client, without those of clients without data."""
        found = {user: self.answer(user) for user in clients}
        return {user: answer for user, answer in found.items() if answer is not None}

    def change(self, answers):
        """Return the change of the version by the run's rule over some answers."""
        rule, total = self.scenario["protocol"]["merge"], np.zeros_like(self.version)
        mass = np.zeros((self.n_items, 1))
        for user, (touched, change) in answers.items():
            total += self.weight(user) * change
            mass[touched] += self.weight(user)
        if rule == "sum" or not answers:
            return total
        if rule == "touched-mean":
            return total / np.where(mass > 0, mass, 1.0)
        return total / sum(self.weight(user) for user in answers)

    def play(self, rounds, *, merge_last=False):
        """Run; yield the answers of each round that the coordinator merges."""
        for number, clients in enumerate(rounds, 1):
            answers = self.round(clients)
            if number < len(rounds) or merge_last:
                yield answers
                self.version = self.version + self.change(answers)


def stored(answers, keep):
    """Return answers with a fraction of their items, those that moved most, rounded up."""
    found = {}
    for user, (touched, change) in answers.items():
        ranked = sorted(np.flatnonzero(touched), key=lambda item: -np.linalg.norm(change[item]))
        kept = np.isin(np.arange(len(change)), ranked[: math.ceil(keep * len(ranked))])
        found[user] = kept, np.where(kept[:, None], change, 0.0)
    return found


def stored_bytes(rounds, keep):
    """Return the bytes of all stored updates: an id and a row of 4-byte numbers per item."""
    every = [answer for answers in rounds for answer in stored(answers, keep).values()]
    return sum(4 * kept.sum() * (1 + change.shape[1]) for kept, change in every)


def retrain(_, without, rounds, removed):
    """Return the federation of a run without the users' data."""
    for _ in without.play(rounds):
        pass
    return without


def fine_tune(ended, without, rounds, removed, fraction):
    """Return the federation after further rounds from the models of the run's end; draws begin again."""
    without.version, without.users = ended.version.copy(), ended.users.copy()
    for _ in without.play(rounds[: max(1, round(fraction * len(rounds)))], merge_last=True):
        pass
    return without


def fru(ended, without, rounds, removed, keep, epochs):
    """Return the federation of a run with short training, whose updates keep the lengths of the stored ones."""
    without.epochs = max(1, round(epochs * without.epochs))
    for number, clients in enumerate(rounds):
        answers = without.round(clients)
        if number == len(rounds) - 1:
            break
        kept = {u: one for u, one in stored(ended.history[number], keep).items() if u not in removed}
        old, new = ended.change(kept), without.change(answers)
        scale = np.linalg.norm(old) / np.linalg.norm(new) if np.any(new) else 0.0
        without.version = without.version + (old if number == 0 else scale * new)
    return without


def cfru(ended, _, rounds, removed, keep, alpha, theta):
    """Return the run's federation with a corrected version: e <- (1 - alpha beta) e + d, from round to round."""
    error = np.zeros_like(ended.version)
    for answers in ended.history:
        every = stored(answers, keep)
        rest = {user: one for user, one in every.items() if user not in removed}
        beta = (
            sum(map(ended.weight, rest))
            if ended.scenario["protocol"]["merge"] == "sum"
            else float(len(rest) > 0)
        )
        error = (1 - alpha * beta) * error + ended.change(rest) - ended.change(every)
    ended.version = ended.version + theta * error
    return ended


METHODS = {"retrain": retrain, "fine-tune": fine_tune, "fru": fru, "cfru": cfru}
