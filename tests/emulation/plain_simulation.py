"""Plain simulations of Rand-Gossip and FedAvg: nodes, messages and models one at a time, in virtual time.

Written from the papers, with torch's own modules and optimizers; of the emulator it uses the event log (who woke,
who got what and when), the random draws of samples, and the starting values.
"""

import heapq
from itertools import count

import numpy as np
import torch

from gossiprec.compute.local_update import draw_order
from gossiprec.models.feeds import PointwiseFeed
from tests.chances import chances, expected_accuracy


class Recommender(torch.nn.Module):
    """GMF as its paper has it: sigmoid(h . (u * v) + b)."""

    def __init__(self, layout, row):
        super().__init__()
        parts = [row[layout.users], row[layout.items].reshape(layout.n_items, -1), row[layout.shared]]
        self.user, self.items, output = (torch.nn.Parameter(torch.tensor(part)) for part in parts)
        self.output = torch.nn.Linear(len(self.user), 1)
        self.output.load_state_dict({"weight": output[None, :-1].detach(), "bias": output[-1:].detach()})

    def forward(self, items):
        return self.output(self.user * self.items[items])[:, 0]

    def flat(self):
        parts = [self.user, self.items, self.output.weight, self.output.bias]
        return torch.cat([part.detach().flatten() for part in parts]).numpy()


class PlainNode:
    """One user's data, model and optimizer."""

    def __init__(self, number, prepared):
        self.number, self.work = number, prepared.executor.work
        start = self.work.model.initial_rows(self.work.layout, number + 1, self.work.seed)[number]
        self.model, self.updates, training = Recommender(self.work.layout, start), 0, self.work.training
        if training.optimizer == "adam":
            self.optimizer = torch.optim.Adam(
                self.model.parameters(), lr=training.learning_rate, eps=training.epsilon
            )
        else:
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=training.learning_rate)
        self.positives = prepared.components.split.train[number]
        self.feed = PointwiseFeed.of(prepared.components.split)

    def train(self):
        training, seed = self.work.training, self.work.seed
        samples = self.feed.samples(self.number, update=self.updates, negatives=training.negatives, seed=seed)
        items, labels = samples["items"], samples["labels"]
        for epoch in range(training.local_epochs):
            order = np.arange(len(items))
            if training.batch_size:
                number = self.updates * training.local_epochs + epoch
                order = draw_order(len(items), self.number, epoch=number, seed=seed)
            size = training.batch_size or len(order)
            for batch in (order[low : low + size] for low in range(0, len(order), size)):
                self.optimizer.zero_grad()
                probability = torch.sigmoid(self.model(torch.from_numpy(items[batch]).long()))
                torch.nn.functional.binary_cross_entropy(
                    probability, torch.from_numpy(labels[batch])
                ).backward()
                self.optimizer.step()
        self.updates += 1

    def merge(self, received, own_share):
        """Average everything but the user row."""
        own = self.model.state_dict()
        mixed = {name: own_share * own[name] + (1 - own_share) * received[name] for name in own}
        self.model.load_state_dict({**mixed, "user": own["user"]})

    def scores(self, state=None):
        return torch.sigmoid(self.logits(state)).numpy()

    def logits(self, state=None):
        with torch.no_grad():
            return torch.func.functional_call(self.model, state or {}, torch.arange(self.work.layout.n_items))


def events_of(run, wakes=0):
    """Return all wakes and deliveries in virtual time; at the same time messages come after wakes, but `wakes` is 2."""
    queue, number = [], count()
    wake, message = run.events("wake"), run.events("message")
    for time, node in zip(wake["time"], wake["node"], strict=True):
        queue.append((time, wakes, next(number), node, None, None))
    for time, *rest in zip(*(message[c] for c in ("time", "sender", "receiver", "sent_at")), strict=True):
        queue.append((time, 1, next(number), *rest))
    heapq.heapify(queue)
    return [heapq.heappop(queue) for _ in range(len(queue))]


class PlainSimulation:
    """Everything happens at once and in order; what nodes receive is kept for the adversaries."""

    def __init__(self, prepared, run):
        self.nodes = [PlainNode(n, prepared) for n in range(prepared.components.split.n_users)]
        self.split, self.protocol = prepared.components.split, run.scenario["protocol"]
        self.events = events_of(run)
        self.sent, self.received, self.done = {}, [], 0

    def node(self, number):
        return self.nodes[number]

    def advance(self, until):
        while self.done < len(self.events) and self.events[self.done][0] <= until:
            time, _, _, first, receiver, self.sent_at = self.events[self.done]
            self.done += 1
            if receiver is None:
                self.wake(time, self.node(first))
            else:
                self.received.append((first, receiver, self.sent_at))
                self.receive(time, self.node(first), self.node(receiver), self.sent[first, self.sent_at])

    def push(self, time, node):
        state = node.model.state_dict()
        self.sent[node.number, time] = {name: value.clone() for name, value in state.items()}

    def wake(self, time, node):
        if self.protocol["train_on"] == "wake":
            node.train()
        self.push(time, node)

    def receive(self, time, sender, receiver, state):
        sizes = [len(node.positives) for node in (receiver, sender)]
        receiver.merge(state, sizes[0] / sum(sizes) if self.protocol["merge"] == "samples" else 0.5)
        if self.protocol["train_on"] == "receive":
            receiver.train()

    def full_metrics(self, k=5):
        """Return the hit ratio and NDCG of the items not trained on, over test items, then users."""
        hits, gains = [], []
        for node in self.nodes:
            scores, tests = node.scores(), self.split.test[node.number].tolist()
            ranked = [j for j in np.argsort(-scores).tolist() if j not in node.positives][:k]
            hits.append(np.mean([test in ranked for test in tests]))
            ideal = sum(1 / np.log2(place + 2) for place in range(min(k, len(tests))))
            gains.append(sum(1 / np.log2(ranked.index(t) + 2) for t in tests if t in ranked) / ideal)
        return {"recall@5": np.mean(hits), "full_ndcg@5": np.mean(gains)}

    def attack_accuracy(self, told, adversaries, beta, k=3):
        """Return the mean share of true communities found; `told(adversary)` are its informants."""
        shares, scores = [], {}
        for adversary in adversaries:
            relevance = {}
            for victim in range(len(self.nodes)):
                known = (victim, *told(adversary))
                if known not in scores:
                    momentum = self.momentum(victim, told(adversary), beta)
                    scores[known] = self.nodes[victim].scores(momentum) if momentum else None
                if scores[known] is not None and victim != adversary:
                    relevance[victim] = scores[known][self.nodes[adversary].positives].mean()
            shares.append(expected_accuracy(chances(relevance, k), self.community(adversary, k), k))
        return np.mean(shares)

    def momentum(self, victim, receivers, beta):
        """Blend what the receivers together got of a victim; a copy of what one of them has is nothing new."""
        seen = {sent_at: None for s, r, sent_at in self.received if s == victim and r in receivers}
        kept = None
        for state in (self.sent[victim, sent_at] for sent_at in seen):
            kept = {n: beta * kept[n] + (1 - beta) * state[n] for n in state} if kept else state
        return kept

    def community(self, user, k):
        """Return the probability of each other user to be among the `k` nearest."""
        sets = [set(node.positives.tolist()) for node in self.nodes]
        others = [v for v in range(len(sets)) if v != user]
        return chances({v: len(sets[user] & sets[v]) / len(sets[user] | sets[v]) for v in others}, k)


class PlainFederation(PlainSimulation):
    """FedAvg: the coordinator, numbered after the users, sends; clients adopt, train and answer; it averages."""

    def __init__(self, prepared, run):
        super().__init__(prepared, run)
        self.coordinator, self.answered = PlainNode(0, prepared), 0
        self.coordinator.number = len(self.nodes)

    def node(self, number):
        return self.nodes[number] if number < len(self.nodes) else self.coordinator

    def wake(self, time, node):
        self.answered = 0
        self.push(time, node)

    def receive(self, time, sender, receiver, state):
        if receiver is self.coordinator:
            weight = len(sender.positives)
            receiver.merge(state, self.answered / (self.answered + weight))
            self.answered += weight
        else:
            receiver.merge(state, 0.0)
            receiver.train()
            self.push(time, receiver)


class PlainCoordinator(PlainFederation):
    """FedAvg whose coordinator wakes by what arrives: its answers weigh what the versions since then make of them."""

    def __init__(self, prepared, run):
        super().__init__(prepared, run)
        self.events = events_of(run, wakes=2)  # an answer that ends a round comes before the wake
        self.aggregation = self.protocol["aggregation"]
        self.late = (self.protocol["round"] or self.aggregation)["late"]
        self.patience = self.aggregation.get("give_up")
        self.trained_on, self.published = {}, []
        self.full, self.discarded, self.stale = 0.0, 0, 0

    def wake(self, time, node):
        if self.aggregation["mixing"] is not None and self.answered:
            share = self.aggregation["mixing"] * self.answered / self.full
            node.merge(self.sent[self.published[-1]], share)
        self.published.append((node.number, time))
        self.full = 0.0
        super().wake(time, node)

    def receive(self, time, sender, receiver, state):
        if receiver is not self.coordinator:
            version = self.published.index((sender.number, self.sent_at))
            self.trained_on[receiver.number, time] = version, self.sent_at
            super().receive(time, sender, receiver, state)
            return
        version, asked_at = self.trained_on[sender.number, self.sent_at]
        staleness = len(self.published) - 1 - version
        late = staleness > 0 if self.patience is None else time >= asked_at + self.patience
        weight = len(sender.positives)
        factor = 0.0 if late and self.late == "discard" else (1 + staleness) ** -self.exponent
        self.discarded, self.stale = self.discarded + (factor == 0), self.stale + (0 < factor < 1)
        if factor:
            receiver.merge(state, self.answered / (self.answered + factor * weight))
            self.answered, self.full = self.answered + factor * weight, self.full + weight

    @property
    def exponent(self):
        staleness = self.aggregation["staleness"]
        return staleness["exponent"] if staleness["law"] == "polynomial" else 0.0


class PlainPersonal(PlainSimulation):
    """Pers-Gossip: receivers judge models by their validation items, and stay with the best sender of late."""

    def __init__(self, prepared, run):
        super().__init__(prepared, run)
        self.candidates, self.heard = prepared.executor.work.candidates, [{} for _ in self.nodes]
        self.wakes, self.exploited, self.refused, self.equal = [0] * len(self.nodes), 0, 0, 0
        self.receivers = {}
        for sent in (run.events("message"), run.events("drop")):
            for ends in zip(*(sent[c] for c in ("sender", "sent_at", "receiver")), strict=True):
                self.receivers.setdefault(ends[:2], set()).add(ends[2])

    def wake(self, time, node):
        super().wake(time, node)
        heard, every = self.heard[node.number], self.protocol["view"]["refresh"]["every"]
        if self.wakes[node.number] % every == 0:
            if heard:
                best = min(heard, key=lambda sender: (-heard[sender], sender))
                assert best in self.receivers[node.number, time]
                self.exploited += 1
            heard.clear()
        assert len(self.receivers[node.number, time]) == self.protocol["view"]["size"]
        self.wakes[node.number] += 1

    def receive(self, time, sender, receiver, state):
        own, lists = receiver.model.state_dict(), self.candidates[receiver.number]
        if len(self.split.validation[receiver.number]) < 2:
            assert not len(lists)
            self.equal += 1
            receiver.merge(state, 0.5)
        else:
            mine, theirs = (worth(receiver.logits({**s, "user": own["user"]}), lists) for s in (own, state))
            self.heard[receiver.number][sender.number] = theirs
            if mine + theirs == 0:
                self.refused += 1
                receiver.updates += (
                    self.protocol["train_on"] == "receive"
                )  # an update not run keeps its number
                return
            receiver.merge(state, float(mine / (mine + theirs)))
        if self.protocol["train_on"] == "receive":
            receiver.train()


def worth(scores, lists):
    """Return HR@20 x NDCG@20 of each list's first item among the others."""
    scores = scores.numpy()
    ranks = [sum(scores[other] >= scores[item] for other in others) for item, *others in lists.tolist()]
    hits = [rank < 20 for rank in ranks]
    gains = [hit / np.log2(rank + 2) for rank, hit in zip(ranks, hits, strict=True)]
    return np.float32(np.mean(hits) * np.mean(gains))
