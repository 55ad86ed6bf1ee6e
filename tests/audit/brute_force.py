"""A small emulator in plain numpy, slow and obvious, that recomputes every accuracy of a run from its event log.

It is written from the specification (the community-detection paper, docs/attacks.md, docs/policies.md,
docs/coordinator.md), not from the library. Of the library it imports what a run leaves behind and the random draws:
who woke when, and what arrived where in which order, is read from the event log; first values, negatives, shuffles,
reference items and colluders are functions of the seed. Everything else, and every constant, stands here once more.

Arithmetic is in double precision; scores are kept in single precision, as docs/attacks.md says of the latest scores.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from gossiprec.base.rng import generator, philox_words, purpose_id
from gossiprec.runs import open_run

CUTOFF = 20
JUDGING_ITEMS = 99
FIT_STEPS, FIT_RATE, FIT_NEGATIVES, FIT_BETAS, FIT_EPS = 30, 0.01, 4, (0.9, 0.999), 1e-8
PAPER_UPDATES = 30
ATTEMPTS = 32
TRAVELS = ("items", "weight", "bias")


# Draws: functions of the seed alone.


def first_model(scenario, n_items, user):
    """Return the common item table and output unit, and the row of one user."""
    dim, std = scenario["model"]["dim"], scenario["model"]["init_std"]
    draw = generator(scenario["seed"], "initial-common")
    items = draw.normal(0.0, std, n_items * dim).reshape(n_items, dim)
    weight = draw.uniform(-1.0, 1.0, dim) * math.sqrt(3 / dim)
    row = generator(scenario["seed"], "initial-user", user).normal(0.0, std, dim)
    drawn = {"user": row, "items": items, "weight": weight, "bias": np.zeros(1)}
    return {name: values.astype(np.float32).astype(float) for name, values in drawn.items()}


@functools.cache
def samples_of(seed, node, own, n_items, number, negatives):
    """Return items and labels of local update `number`: each positive, then its negatives, never one of its own."""
    per_positive = -(-negatives // 4)
    per_attempt = len(own) * per_positive
    words = philox_words(
        seed, np.arange(ATTEMPTS * per_attempt), number, node, purpose_id("negatives")
    ).tolist()
    taken, items = set(own), []
    for place, positive in enumerate(own):
        items.append(positive)
        for lane in range(negatives):
            block = place * per_positive + lane // 4
            tries = (words[block + k * per_attempt][lane % 4] * n_items >> 32 for k in range(ATTEMPTS))
            items.append(next(item for item in tries if item not in taken))
    labels = np.tile([1.0] + [0.0] * negatives, len(own))
    return np.array(items), labels


@functools.cache
def order_of(seed, node, n_samples, epoch):
    """Return the shuffled order of the samples in an epoch."""
    blocks = np.arange(-(-n_samples // 4))
    words = philox_words(seed, blocks, epoch, node, purpose_id("shuffle")).ravel().tolist()
    order = list(range(n_samples))
    for last in range(n_samples - 1, 0, -1):
        other = words[last] * (last + 1) >> 32
        order[last], order[other] = order[other], order[last]
    return order


def references_of(seed, user, own, n_items, count):
    """Return the items outside its own that an adversary compares its targets with."""
    others = np.setdiff1d(np.arange(n_items, dtype=np.int32), own)
    return generator(seed, "reference-items", user).choice(others, count, replace=False)


def judging_lists(seed, user, validation, own, n_items, count):
    """Return each validation item of a user, followed by the items that it is ranked among."""
    others = np.setdiff1d(np.arange(n_items), [*own, *validation])
    keys = generator(seed, "validation-candidates", user).random((len(validation), len(others)))
    return [
        (item, others[np.argsort(row)[:count]].tolist()) for item, row in zip(validation, keys, strict=True)
    ]


def colluders(seed, n_users, fraction):
    """Return a random part of the users."""
    order = generator(seed, "observers").permutation(n_users)
    return sorted(order[: round(fraction * n_users)].tolist())


def fictive_start(scenario, user):
    """Return the row with which the fit of a fictive user begins."""
    drawn = generator(scenario["seed"], "fictive-user", user).normal(
        0.0, scenario["model"]["init_std"], scenario["model"]["dim"]
    )
    return drawn.astype(np.float32).astype(float)


# The model, and its training.


def logits(model, items):
    """Return ``h . (u * v_j) + b``."""
    return model["items"][items] @ (model["user"] * model["weight"]) + model["bias"]


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def gradients(model, items, labels):
    """Return the gradient of the mean binary cross-entropy of a batch."""
    error = (sigmoid(logits(model, items)) - labels) / len(items)
    rows = model["items"][items]
    of_items = np.zeros_like(model["items"])
    np.add.at(of_items, items, np.outer(error, model["user"] * model["weight"]))
    return {
        "user": error @ rows * model["weight"],
        "items": of_items,
        "weight": error @ rows * model["user"],
        "bias": np.array([error.sum()]),
    }


def pull_back(model, start, items, tau):
    """Return the gradient of ``tau sum_j |v_j - v_j(start)|^2`` over the items j of a batch."""
    of_items = np.zeros_like(start)
    for item in set(items.tolist()):
        of_items[item] = 2 * tau * (model["items"][item] - start[item])
    return of_items


def adam(values, gradient, moments, step, rate, betas, eps):
    """Return values after Adam's step number `step` (from 1), and both moments."""
    first = betas[0] * moments[0] + (1 - betas[0]) * gradient
    second = betas[1] * moments[1] + (1 - betas[1]) * gradient**2
    mean, square = first / (1 - betas[0] ** step), second / (1 - betas[1] ** step)
    return values - rate * mean / (np.sqrt(square) + eps), (first, second)


class Node:
    """One user's data, model, and optimizer, whose state stays with it."""

    def __init__(self, scenario, number, own, validation, n_items):
        self.scenario, self.number, self.own, self.validation = scenario, number, own, validation
        self.n_items = n_items
        self.model = first_model(scenario, n_items, number)
        self.moments = {name: (np.zeros_like(v), np.zeros_like(v)) for name, v in self.model.items()}
        self.steps = self.updates = 0
        hiding = [p for p in scenario["policies"] if p["nodes"] == "all" or number in p["nodes"]]
        self.tau = hiding[0]["tau"] if hiding else None  # Share less is the only policy here

    def train(self):
        """Do a local update: some passes over the own items and fresh negatives."""
        training, seed = self.scenario["training"], self.scenario["seed"]
        items, labels = samples_of(
            seed, self.number, self.own, self.n_items, self.updates, training["negatives"]
        )
        start = self.model["items"].copy()
        for epoch in range(training["local_epochs"]):
            order = np.arange(len(items))
            if training["batch_size"] != "full":
                number = self.updates * training["local_epochs"] + epoch
                order = np.array(order_of(seed, self.number, len(items), number))
            size = len(items) if training["batch_size"] == "full" else training["batch_size"]
            for low in range(0, len(items), size):
                batch = order[low : low + size]
                self.step(items[batch], labels[batch], start)
        self.updates += 1

    def step(self, items, labels, start):
        training, gradient = self.scenario["training"], gradients(self.model, items, labels)
        if self.tau is not None:
            gradient["items"] += pull_back(self.model, start, items, self.tau)
        self.steps += 1
        for name in self.model:
            self.model[name], self.moments[name] = adam(
                self.model[name], gradient[name], self.moments[name], self.steps,
                training["learning_rate"], training["betas"], training["eps"],
            )  # fmt: skip

    def message(self):
        """Return a copy of what leaves: under Share less all but the user's row."""
        return {k: v.copy() for k, v in self.model.items() if k in TRAVELS or self.tau is None}

    def merge(self, received, kept):
        """Keep a share of the own items and output unit, and take the rest of them from what was received."""
        for name in TRAVELS:
            self.model[name] = kept * self.model[name] + (1 - kept) * received[name]


# Protocols.


class RandGossip:
    """Plays a run's event log: nodes wake, train, send; receivers merge.

    Parameters
    ----------
    run : path of a run directory
    train, validation : each user's items
    n_items : int
    scenario : mapping, optional
        The run's own, unless told otherwise.
    """

    def __init__(self, run, train, validation, n_items, scenario=None):
        self.log = open_run(run)
        self.scenario = scenario or self.log.scenario
        self.train = [tuple(sorted(own)) for own in train]
        self.n_items = n_items
        self.nodes = [
            Node(self.scenario, number, own, list(kept), n_items)
            for number, (own, kept) in enumerate(zip(self.train, validation, strict=True))
        ]
        self.sent = {}
        self.observers = [o for stated in self.scenario["observers"] for o in observers_of(stated, self)]
        self.prepare()

    def prepare(self):
        pass

    def node(self, number):
        return self.nodes[number]

    def play(self):
        """Yield at every report what :meth:`Observer.report` finds of all observers."""
        wakes, messages = self.log.events("wake"), self.log.events("message")
        events = [(t, 0, k, (n,)) for k, (t, n) in enumerate(rows(wakes, "time", "node"))]
        received = rows(messages, "time", "sender", "receiver", "sent_at")
        events += [(t, 1, k, what) for k, (t, *what) in enumerate(received)]
        events.sort(key=lambda event: event[:3])
        for (now,) in rows(self.log.events("evaluate"), "time"):
            while events and events[0][0] <= now:
                time, kind, _, what = events.pop(0)
                (self.receive if kind else self.wake)(time, *what)
            found = {}
            for observer in self.observers:
                found |= observer.report(now)
            yield found

    def wake(self, time, node):
        if self.scenario["protocol"]["train_on"] == "wake":
            self.nodes[node].train()
        self.send(time, node)

    def send(self, time, node):
        self.sent[node, time] = self.node(node).message()

    def receive(self, time, sender, receiver, sent_at):
        model = self.sent[sender, sent_at]
        self.remember(time, sender, receiver, sent_at)
        trains = self.merge(self.nodes[sender], self.nodes[receiver], model)
        self.look(time, sender, receiver)
        if trains and self.scenario["protocol"]["train_on"] == "receive":
            self.nodes[receiver].train()

    def remember(self, time, sender, receiver, sent_at):
        for observer in self.observers:
            observer.remember(time, sender, receiver, sent_at, self.sent[sender, sent_at])

    def look(self, time, sender, receiver):
        for observer in self.observers:
            observer.look(sender, receiver)

    def merge(self, sender, receiver, model):
        """Merge what was received, weighted by numbers of positives; say whether to train on it."""
        receiver.merge(model, share_kept(len(receiver.own), len(sender.own)))
        return True


def share_kept(own, received):
    """Return what a model keeps of itself in a merge with another, each weighted by its positives."""
    return own / (own + received)


class PersGossip(RandGossip):
    """Receivers merge by how well both models recommend the receiver's validation items."""

    def prepare(self):
        judges = [node for node in self.nodes if len(node.validation) >= 2]
        fewest = min(self.n_items - len(node.own) - len(node.validation) for node in judges)
        for node in judges:
            node.lists = judging_lists(
                self.scenario["seed"], node.number, node.validation, node.own, self.n_items,
                min(JUDGING_ITEMS, fewest),
            )  # fmt: skip

    def merge(self, sender, receiver, model):
        if len(receiver.validation) < 2:
            receiver.merge(model, 0.5)
            return True
        mine = performance(receiver.model, receiver.lists)
        theirs = performance({**model, "user": receiver.model["user"]}, receiver.lists)
        if mine + theirs == 0:
            receiver.updates += self.scenario["protocol"]["train_on"] == "receive"
            return False
        receiver.merge(model, mine / (mine + theirs))
        return True


def performance(model, lists):
    """Return HR@20 x NDCG@20 of validation items, each among others."""
    ranks = [rank(logits(model, item), logits(model, others)) for item, others in lists]
    hits = [r < CUTOFF for r in ranks]
    return np.mean(hits) * np.mean([gain(r) for r in ranks])


def rank(score, others):
    """Return the place of a score among others, from 0; ties count against it."""
    return np.count_nonzero(others >= score)


def gain(place):
    """Return what an item at a place is worth to NDCG@20."""
    return 1 / math.log2(place + 2) if place < CUTOFF else 0.0


class FedAvg(RandGossip):
    """The coordinator sends its model; clients take it over, train and answer; it averages the answers."""

    def prepare(self):
        number = len(self.nodes)
        self.coordinator = Node(self.scenario, number, [], [], self.n_items)
        self.answers = []

    def node(self, number):
        return self.coordinator if number == len(self.nodes) else self.nodes[number]

    def wake(self, time, node):
        self.answers = []
        self.send(time, node)

    def average(self):
        """Make the coordinator's model the mean of the answers since its last wake, weighted by positives."""
        total = sum(weight for weight, _ in self.answers)
        for name in TRAVELS:
            self.coordinator.model[name] = sum(w * answer[name] for w, answer in self.answers) / total

    def receive(self, time, sender, receiver, sent_at):
        model = self.sent[sender, sent_at]
        if receiver == len(self.nodes):
            self.answers.append((self.weight(sender), model))
            self.average()
            self.remember(time, sender, receiver, sent_at)
            return
        self.nodes[receiver].merge(model, 0.0)
        self.nodes[receiver].train()
        self.send(time, receiver)

    def weight(self, client):
        return len(self.train[client])


PROTOCOLS = {"rand-gossip": RandGossip, "pers-gossip": PersGossip, "fedavg": FedAvg}


# The attack.


def observers_of(stated, world):
    """Return the observers that an entry of the scenario stands for."""
    users = list(range(len(world.train)))
    if stated["who"] == "single":
        return [Single("single", stated, world, {user: [user] for user in users})]
    if stated["who"] == "coordinator":
        return [Pool("coordinator", stated, world, {len(users): users})]
    groups = {}
    if stated["members"] is not None:
        groups[f"{len(stated['members'])}-nodes"] = list(stated["members"])
    for part in listed(stated["fraction"] or []):
        groups[f"{100 * part:g}%"] = colluders(world.scenario["seed"], len(users), part)
    return [Pool(f"coalition-{name}", stated, world, dict.fromkeys(g, g)) for name, g in groups.items()]


def listed(value):
    return value if isinstance(value, list) else [value]


class Observer:
    """Nodes that look for communities in what they receive.

    Parameters
    ----------
    name : as in the tables
    stated : what the scenario says
    world : RandGossip
    informed : mapping
        Who learns, for whose sake, of what a node receives: receiver to adversaries.
    """

    def __init__(self, name, stated, world, informed):
        self.name, self.stated, self.world, self.informed = name, stated, world, informed
        self.adversaries = sorted({user for users in informed.values() for user in users})
        self.likeness = {user: likeness_to(world.train, user) for user in self.adversaries}
        self.references = {
            user: references_of(
                world.scenario["seed"], user, world.train[user], world.n_items, stated["reference_items"]
            )
            for user in self.adversaries
        }
        self.latest = {}  # (relevance, momentum, adversary) to victim to score
        self.fictive = {}
        if stated["fictive_user"] == "paper":
            self.fictive = {user: user_trained_alone(world, user) for user in self.adversaries}

    def blend(self, memory, victim, model):
        """Blend a received model into the momentum models of its sender, by (momentum, victim)."""
        for beta in listed(self.stated["momentum"]):
            known = memory.get((beta, victim))
            memory[beta, victim] = model if known is None else blended(known, model, beta)

    def score(self, memory, adversary, victim):
        """Score a victim's momentum models on an adversary's items."""
        n_own = len(self.world.train[adversary])
        items = np.append(self.world.train[adversary], self.references[adversary])
        for beta in listed(self.stated["momentum"]):
            model = self.seen_by(adversary, memory[beta, victim])
            targets, others = np.split(logits(model, items), [n_own])
            for rule in listed(self.stated["relevance"]):
                scores = self.latest.setdefault((rule, beta, adversary), {})
                scores[victim] = np.float32(RELEVANCE[rule](targets, others))

    def seen_by(self, adversary, model):
        """Return a momentum model with a user row: the victim's, or one to look with in its place."""
        if "user" in model:
            return model
        if self.stated["fictive_user"] == "own_embedding":
            return {**self.world.nodes[adversary].model, "items": model["items"]}
        return {**model, "user": self.fictive[adversary]}

    def report(self, now):
        """Return accuracies and shares met, by (observer, relevance, momentum, community size, time)."""
        return {
            (self.name, rule, beta, k, now): self.accuracies(rule, beta, k)
            for rule in listed(self.stated["relevance"])
            for beta in listed(self.stated["momentum"])
            for k in listed(self.stated["community_size"])
        }

    def accuracies(self, rule, beta, k):
        """Return each adversary's accuracy, and the share of its community that was met."""
        found, met = {}, {}
        for adversary in self.adversaries:
            truth = nearest(self.likeness[adversary], k)
            scores = dict(self.latest.get((rule, beta, adversary), {}))
            scores.pop(adversary, None)  # nobody is a victim of its own
            guessed = best(scores, k)
            found[adversary] = sum(truth[victim] * guessed[victim] for victim in scores) / k
            met[adversary] = sum(truth[victim] for victim in scores) / k
        return found, met


class Single(Observer):
    """Adversaries on their own: each scores whom it hears of when it does."""

    def __init__(self, *about):
        super().__init__(*about)
        self.memory = {user: {} for user in self.adversaries}
        self.fits = dict.fromkeys(self.adversaries, 0)
        self.due = dict.fromkeys(self.adversaries, -math.inf)

    def remember(self, time, victim, receiver, sent_at, model):
        self.blend(self.memory[receiver], victim, model)
        if self.stated["fictive_user"] == "fitted" and "user" not in model and self.due[receiver] <= time:
            self.fictive[receiver] = fitted_user(self.world, receiver, model, self.fits[receiver])
            self.fits[receiver] += 1
            self.due[receiver] = time + self.stated["refit_every"]

    def look(self, victim, receiver):
        self.score(self.memory[receiver], receiver, victim)


class Pool(Observer):
    """Adversaries who share what some nodes receive, and score everybody at a report."""

    def __init__(self, *about):
        super().__init__(*about)
        self.memory, self.seen = {}, set()

    def remember(self, time, victim, receiver, sent_at, model):
        """Blend what is new: a copy of a model that another has received teaches nothing."""
        if receiver in self.informed and (victim, sent_at) not in self.seen:
            self.seen.add((victim, sent_at))
            self.blend(self.memory, victim, model)

    def look(self, victim, receiver):
        pass

    def report(self, now):
        hidden = [model for model in self.memory.values() if "user" not in model]
        for adversary in self.adversaries:
            if hidden and self.stated["fictive_user"] == "fitted":
                host = len(self.world.nodes) if self.name == "coordinator" else adversary
                self.fictive[adversary] = fitted_user(self.world, adversary, self.world.node(host).model, 0)
            for victim in {victim for _, victim in self.memory}:
                self.score(self.memory, adversary, victim)
        return super().report(now)


def blended(known, model, beta):
    """Return the momentum model after one more model: ``beta M + (1 - beta) Theta``."""
    return {name: beta * known[name] + (1 - beta) * model[name] for name in model}


def fitted_user(world, user, model, number):
    """Return a user row fitted to a user's items, with the item table and output unit of a model frozen."""
    seed = world.scenario["seed"] ^ (purpose_id("fictive-samples") << 32)
    items, labels = samples_of(seed, user, world.train[user], world.n_items, number, FIT_NEGATIVES)
    row, moments = fictive_start(world.scenario, user), (0.0, 0.0)
    for step in range(1, FIT_STEPS + 1):
        gradient = gradients({**model, "user": row}, items, labels)["user"]
        row, moments = adam(row, gradient, moments, step, FIT_RATE, FIT_BETAS, FIT_EPS)
    return row


def user_trained_alone(world, user):
    """Return the user row of a whole model, trained from scratch on a user's items (Algorithm 3)."""
    seed = int(generator(world.scenario["seed"], "fictive-model", user).integers(2**62))
    node = Node({**world.scenario, "seed": seed, "policies": []}, 0, world.train[user], [], world.n_items)
    for _ in range(PAPER_UPDATES):
        node.train()
    return node.model["user"]


def mean_score(targets, references):
    """Return the mean predicted probability of the targets."""
    return sigmoid(targets).mean()


def ndcg(targets, references):
    """Return the mean NDCG@20 of each target among itself and the references."""
    return np.mean([gain(rank(target, references)) for target in targets])


def standardized(targets, references):
    """Return the mean logit of the targets, in deviations of the references."""
    return (targets.mean() - references.mean()) / references.std()


RELEVANCE = {"mean_score": mean_score, "ndcg": ndcg, "standardized": standardized}


def likeness_to(train, user):
    """Return the Jaccard similarity of each other user to one: the nearest K are its community."""
    others = (other for other in range(len(train)) if other != user)
    return {other: jaccard(set(train[user]), set(train[other])) for other in others}


def jaccard(a, b):
    return len(a & b) / len(a | b)


def nearest(likeness, k):
    """Return how likely each one is among the K nearest: the true community."""
    return chances(likeness, k)


def best(scores, k):
    """Return how likely an adversary takes each victim for a member of its community."""
    return chances(scores, k)


def chances(values, k):
    """Return how likely each key is among those of the K largest values, if ties are broken at random."""
    all_values = np.array([*values.values()])
    above = (all_values > all_values[:, None]).sum(axis=1)
    level = (all_values == all_values[:, None]).sum(axis=1)
    return dict(zip(values, np.clip((k - above) / level, 0.0, 1.0).tolist(), strict=True))


# What is reported.


def rows(columns, *names):
    return zip(*(columns[name].tolist() for name in names), strict=True)


def lines(found, n_users):
    """Return the lines of ``attacks.csv`` of a report."""
    return {key: line(key[3], *of_adversaries, n_users) for key, of_adversaries in found.items()}


def line(k, accuracies, met, n_users):
    """Return one line: means over adversaries, those of the best tenth, and the bounds."""
    tenth = sorted(accuracies.values())[-math.ceil(len(accuracies) / 10) :]
    return {
        "aac": np.mean([*accuracies.values()]),
        "best10_min": tenth[0],
        "best10_mean": np.mean(tenth),
        "upper_bound": np.mean([*met.values()]),
        "random_bound": k / n_users,
    }
