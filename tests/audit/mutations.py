"""What the audit must notice: the brute force with one constant, or one step, other than specified.

A mutation is called with a copy of a world's scenario, as plain data, and pytest's monkeypatch; beside it stands a
world in which it matters.
"""

import math

import numpy as np

from tests.audit import brute_force as brute


def stated(path, value):
    """Return a mutation of a number that the scenario states."""

    def mutate(scenario, _):
        *sections, key = (int(part) if part.isdigit() else part for part in path.split("."))
        for section in sections:
            scenario = scenario[section]
        assert scenario[key] != value
        scenario[key] = value

    return mutate


def put(name, value):
    """Return a mutation of a constant or function of the brute force, or of a method (``Node.train``)."""
    *within, attribute = name.split(".")
    owner = getattr(brute, within[0]) if within else brute
    return lambda _, patch: patch.setattr(owner, attribute, value)


def ruled(rule, function):
    """Return a mutation of a relevance rule."""
    return lambda _, patch: patch.setitem(brute.RELEVANCE, rule, function)


ADAM, GRADIENTS, TRAIN, STEP = brute.adam, brute.gradients, brute.Node.train, brute.Node.step
SAMPLES, ORDER, REFERENCES, FIT = brute.samples_of, brute.order_of, brute.references_of, brute.fitted_user
RECEIVE, FEDERATED_RECEIVE, AVERAGE = (
    brute.RandGossip.receive, brute.FedAvg.receive, brute.FedAvg.average
)  # fmt: skip
PERSONAL_MERGE, PERSONAL_PREPARE = brute.PersGossip.merge, brute.PersGossip.prepare
REMEMBER, LOOK, SEEN_BY = brute.Pool.remember, brute.Single.look, brute.Observer.seen_by
PULL, BLENDED, ACCURACIES, LINE = brute.pull_back, brute.blended, brute.Observer.accuracies, brute.line
"""As they are before they are mutated."""


# Adam, and what it is given.


def without_correction(values, gradient, moments, step, rate, betas, eps):
    return ADAM(values, gradient, moments, 10**9, rate, betas, eps)


def epsilon_under_the_root(values, gradient, moments, step, rate, betas, eps):
    _, (first, second) = ADAM(values, gradient, moments, step, rate, betas, eps)
    root = np.sqrt(second / (1 - betas[1] ** step) + eps)
    return values - rate * first / (1 - betas[0] ** step) / root, (first, second)


def sparse(values, gradient, moments, step, rate, betas, eps):
    """Leave alone what has no gradient."""
    moved, (first, second) = ADAM(values, gradient, moments, step, rate, betas, eps)
    idle = gradient == 0
    return np.where(idle, values, moved), (
        np.where(idle, moments[0], first), np.where(idle, moments[1], second)
    )  # fmt: skip


def summed(model, items, labels):
    return {name: len(items) * g for name, g in GRADIENTS(model, items, labels).items()}


def forgetful(self):
    self.steps, self.moments = 0, {n: (np.zeros_like(v), np.zeros_like(v)) for n, v in self.model.items()}
    TRAIN(self)


def one_draw_of_negatives(seed, node, own, n_items, number, negatives):
    return SAMPLES(seed, node, own, n_items, 0, negatives)


def one_order(seed, node, n_samples, epoch):
    return ORDER(seed, node, n_samples, 0)


def unshuffled(seed, node, n_samples, epoch):
    return list(range(n_samples))


def pull_by_occurrence(model, start, items, tau):
    of_items = np.zeros_like(start)
    np.add.at(of_items, items, 2 * tau * (model["items"][items] - start[items]))
    return of_items


def pull_of_half_the_square(model, start, items, tau):
    return PULL(model, start, items, tau / 2)


def pull_everywhere(model, start, items, tau):
    return 2 * tau * (model["items"] - start)


def pull_to_the_epochs_start(self, items, labels, start):
    """Begin the reference table anew with the second epoch."""
    self.in_update = getattr(self, "in_update", 0) + len(items)
    if self.in_update > len(self.own) * 5:
        if self.in_update - len(items) <= len(self.own) * 5:
            self.later_start = self.model["items"].copy()
        start = self.later_start
    STEP(self, items, labels, start)
    if self.in_update == 2 * len(self.own) * 5:
        self.in_update = 0


# Protocols.


def trained_before_merging(self, time, sender, receiver, sent_at):
    self.nodes[receiver].train()
    self.remember(time, sender, receiver, sent_at)
    self.merge(self.nodes[sender], self.nodes[receiver], self.sent[sender, sent_at])
    self.look(time, sender, receiver)


def looked_at_before_merging(self, time, sender, receiver, sent_at):
    self.remember(time, sender, receiver, sent_at)
    self.look(time, sender, receiver)
    self.merge(self.nodes[sender], self.nodes[receiver], self.sent[sender, sent_at])


def sent_before_training(self, time, node):
    self.send(time, node)
    self.nodes[node].train()


def merged_equally(self, sender, receiver, model):
    receiver.merge(model, 0.5)
    return True


def the_latest_of_the_sender(self, time, sender, receiver, sent_at):
    """Read the sender's model when its message arrives."""
    self.sent[sender, sent_at] = self.node(sender).message()
    RECEIVE(self, time, sender, receiver, sent_at)


def judged_with_the_senders_row(self, sender, receiver, model):
    own = receiver.model["user"]
    receiver.model["user"] = model["user"]
    trains = PERSONAL_MERGE(self, sender, receiver, model)
    receiver.model["user"] = own
    return trains


def worth_keeping_nothing(self, sender, receiver, model):
    """Merge equally where neither model is worth anything."""
    before = receiver.updates
    if not PERSONAL_MERGE(self, sender, receiver, model):
        receiver.updates = before
        receiver.merge(model, 0.5)
    return True


def judged_by_any_validation_item(self):
    for node in self.nodes:
        node.validation = node.validation * 2 if len(node.validation) == 1 else node.validation
    PERSONAL_PREPARE(self)


def hit_ratio(model, lists):
    ranks = [brute.rank(brute.logits(model, item), brute.logits(model, others)) for item, others in lists]
    return np.mean([r < brute.CUTOFF for r in ranks])


def averaged_with_the_last_version(self):
    """Count the last version among the answers."""
    if self.answers:
        self.answers.append((20, {name: self.coordinator.model[name].copy() for name in brute.TRAVELS}))
    AVERAGE(self)


def merged_by_clients(self, time, sender, receiver, sent_at):
    if receiver == len(self.nodes):
        return FEDERATED_RECEIVE(self, time, sender, receiver, sent_at)
    self.nodes[receiver].merge(self.sent[sender, sent_at], 0.5)
    self.nodes[receiver].train()
    return self.send(time, receiver)


def discarding_late_answers(self, time, sender, receiver, sent_at):
    if receiver == len(self.nodes) and math.floor(time) != math.floor(sent_at):
        return self.remember(time, sender, receiver, sent_at)
    return FEDERATED_RECEIVE(self, time, sender, receiver, sent_at)


# The attack.


def swapped(known, model, beta):
    return {name: (1 - beta) * known[name] + beta * model[name] for name in model}


def undamped(known, model, beta):
    return {name: beta * known[name] + model[name] for name in model}


def user_row_of_the_first(known, model, beta):
    return {**BLENDED(known, model, beta), "user": known["user"]}


def from_nothing(self, memory, victim, model):
    for beta in brute.listed(self.stated["momentum"]):
        known = memory.get((beta, victim), {name: 0.0 * model[name] for name in model})
        memory[beta, victim] = brute.blended(known, model, beta)


def copies_counted(self, time, victim, receiver, sent_at, model):
    self.seen.discard((victim, sent_at))
    REMEMBER(self, time, victim, receiver, sent_at, model)


def overtaken_messages_passed_over(self, time, victim, receiver, sent_at, model):
    if sent_at >= max((at for v, at in self.seen if v == victim), default=-math.inf):
        REMEMBER(self, time, victim, receiver, sent_at, model)


def scored_once(self, victim, receiver):
    for beta in brute.listed(self.stated["momentum"]):
        if victim in self.latest.get(("ndcg", beta, receiver), {}):
            return
    LOOK(self, victim, receiver)


def the_victims_weights(self, adversary, model):
    if "user" in model or self.stated["fictive_user"] != "own_embedding":
        return SEEN_BY(self, adversary, model)
    return {**model, "user": self.world.nodes[adversary].model["user"]}


def the_first_row(self, adversary, model):
    if "user" in model:
        return model
    return {**model, "user": brute.fictive_start(self.world.scenario, adversary)}


def a_row_for_everybody(self, adversary, model):
    return {**model, "user": self.fictive[adversary]} if adversary in self.fictive else model


def fitted_to_its_own_model(world, user, model, number):
    return FIT(world, user, world.nodes[user].model, number)


def fitted_to_what_was_sent_last(world, user, model, number):
    sent = [at for node, at in world.sent if node == len(world.nodes)]
    return FIT(world, user, world.sent[len(world.nodes), max(sent)], number)


def other_negatives(world, user, model, number):
    return FIT(world, user, model, number + 1)


def the_same_negatives(world, user, model, number):
    return FIT(world, user, model, 0)


def references_anywhere(seed, user, own, n_items, count):
    return REFERENCES(seed, user, (), n_items, count)


def one_reference_less(seed, user, own, n_items, count):
    return REFERENCES(seed, user, own, n_items, count)[:-1]


def lower_ids_first(values, k):
    first = sorted(values, key=lambda key: (-values[key], key))[:k]
    return {key: float(key in first) for key in values}


def higher_ids_first(values, k):
    first = sorted(values, key=lambda key: (-values[key], -key))[:k]
    return {key: float(key in first) for key in values}


def gap(targets, references):
    return targets.mean() - references.mean()


def against_the_median(targets, references):
    return (targets.mean() - np.median(references)) / references.std()


def of_probabilities(targets, references):
    return brute.standardized(brute.sigmoid(targets), brute.sigmoid(references))


def mean_logit(targets, references):
    return targets.mean()


def reciprocal_rank(place):
    return 1 / (place + 1) if place < brute.CUTOFF else 0.0


def discount_from_the_second(place):
    return 1 / math.log2(max(place + 1, 2)) if place < brute.CUTOFF else 0.0


def of_the_met(self, rule, beta, k):
    """Divide by the number met where it is less than K."""
    found, met = ACCURACIES(self, rule, beta, k)
    n_met = {a: len(self.latest.get((rule, beta, a), {})) for a in found}
    return {a: share * k / max(min(k, n_met[a]), 1) for a, share in found.items()}, met


def best_tenth_rounded_down(k, accuracies, met, n_users):
    best = sorted(accuracies.values())[-max(1, len(accuracies) // 10) :]
    return {**LINE(k, accuracies, met, n_users), "best10_min": best[0], "best10_mean": np.mean(best)}


def others_than_oneself(k, accuracies, met, n_users):
    return LINE(k, accuracies, met, n_users - 1)


MUTATIONS = {
    # Adam, and what it is given.
    "beta 1 of Adam": ("gossip", stated("training.betas.0", 0.89)),
    "beta 2 of Adam": ("gossip", stated("training.betas.1", 0.99)),
    "epsilon of Adam": ("gossip", stated("training.eps", 1e-8)),
    "epsilon under the root": ("gossip", put("adam", epsilon_under_the_root)),
    "no bias correction": ("gossip", put("adam", without_correction)),
    "sparse Adam": ("gossip", put("adam", sparse)),
    "moments forgotten in gossip": ("gossip", put("Node.train", forgetful)),
    "moments forgotten between rounds": ("federated", put("Node.train", forgetful)),
    "learning rate": ("gossip", stated("training.learning_rate", 0.031)),
    "batch size": ("gossip", stated("training.batch_size", 17)),
    "local epochs": ("federated", stated("training.local_epochs", 1)),
    "negatives per positive": ("gossip", stated("training.negatives", 3)),
    "negatives drawn once": ("gossip", put("samples_of", one_draw_of_negatives)),
    "the same order in every epoch": ("federated", put("order_of", one_order)),
    "no shuffling": ("gossip", put("order_of", unshuffled)),
    "sum over a batch": ("gossip-late", put("gradients", summed)),
    # Share less.
    "tau": ("share-less", stated("policies.0.tau", 0.9)),
    "no drift penalty": ("share-less", stated("policies.0.tau", 0.0)),
    "penalty by occurrence": ("share-less", put("pull_back", pull_by_occurrence)),
    "penalty of half the square": ("share-less", put("pull_back", pull_of_half_the_square)),
    "penalty on all items": ("share-less", put("pull_back", pull_everywhere)),
    "penalty from each epoch's start": ("share-less", put("Node.step", pull_to_the_epochs_start)),
    # Protocols.
    "plain mean of models": ("gossip", put("share_kept", lambda own, received: 0.5)),
    "weights the wrong way round": ("gossip", put("share_kept", lambda own, received: received / (own + received))),
    "user rows merged": ("gossip", put("TRAVELS", ("user", *brute.TRAVELS))),
    "bias not merged": ("gossip", put("TRAVELS", ("items", "weight"))),
    "training before merging": ("gossip-late", put("RandGossip.receive", trained_before_merging)),
    "sending before training": ("gossip", put("RandGossip.wake", sent_before_training)),
    "messages that carry the latest model": ("gossip-late", put("RandGossip.receive", the_latest_of_the_sender)),
    "personal merges by samples": ("personal", put("PersGossip.merge", brute.RandGossip.merge)),
    "personal merges are equal": ("personal", put("PersGossip.merge", merged_equally)),
    "performance without NDCG": ("personal", put("performance", hit_ratio)),
    "performance by the sender's row": ("personal", put("PersGossip.merge", judged_with_the_senders_row)),
    "performance among 95 items": ("personal", put("JUDGING_ITEMS", 95)),
    "performance at 19": ("personal", put("CUTOFF", 19)),
    "merging with what is worth nothing": ("personal-on-receive", put("PersGossip.merge", worth_keeping_nothing)),
    "one validation item is enough": ("personal", put("PersGossip.prepare", judged_by_any_validation_item)),
    "plain mean of answers": ("federated", put("FedAvg.weight", lambda self, client: 1)),
    "the last version counts": ("federated", put("FedAvg.average", averaged_with_the_last_version)),
    "clients merge what they are sent": ("federated", put("FedAvg.receive", merged_by_clients)),
    "clients take over the user row": ("federated", put("TRAVELS", ("user", *brute.TRAVELS))),
    "late answers are discarded": ("federated", put("FedAvg.receive", discarding_late_answers)),
    # The attack.
    "momentum the wrong way round": ("gossip", put("blended", swapped)),
    "momentum undamped": ("gossip", put("blended", undamped)),
    "momentum from nothing": ("gossip", put("Observer.blend", from_nothing)),
    "momentum without user rows": ("gossip", put("blended", user_row_of_the_first)),
    "momentum of the coordinator": ("federated", put("blended", swapped)),
    "copies counted": ("gossip", put("Pool.remember", copies_counted)),
    "overtaken messages passed over": ("gossip-late", put("Pool.remember", overtaken_messages_passed_over)),
    "only the first score": ("gossip", put("Single.look", scored_once)),
    "other colluders": ("gossip", put("colluders", lambda seed, n, part: list(range(round(part * n))))),
    "looking with the victim's weights": ("share-less", put("Observer.seen_by", the_victims_weights)),
    "looking before merging": ("share-less", put("RandGossip.receive", looked_at_before_merging)),
    "a fictive row that is not fitted": ("share-less-fitted", put("Observer.seen_by", the_first_row)),
    "fictive rows for all": ("share-less-fitted", put("Observer.seen_by", a_row_for_everybody)),
    "29 steps of a fit": ("share-less-fitted", put("FIT_STEPS", 29)),
    "rate of a fit": ("share-less-fitted", put("FIT_RATE", 0.012)),
    "negatives of a fit": ("share-less-fitted", put("FIT_NEGATIVES", 3)),
    "a fit's negatives drawn once": ("share-less-fitted", put("fitted_user", the_same_negatives)),
    "fitted at every model": ("share-less-fitted", stated("observers.0.refit_every", 1e-9)),
    "fitted once": ("share-less-fitted", stated("observers.0.refit_every", 100.0)),
    "other negatives in a pool's fits": ("share-less-federated", put("fitted_user", other_negatives)),
    "the coordinator fits to clients' models": ("share-less-federated", put("fitted_user", fitted_to_its_own_model)),
    "the coordinator fits to what it sent": ("share-less-federated", put("fitted_user", fitted_to_what_was_sent_last)),
    "accomplices with the victim's weights": ("share-less-federated", put("Observer.seen_by", the_victims_weights)),
    "a fictive model trained less": ("share-less-fitted", put("PAPER_UPDATES", 20)),
    "one reference less": ("gossip", put("references_of", one_reference_less)),
    "references among the own items": ("gossip", put("references_of", references_anywhere)),
    "NDCG at 19": ("gossip", put("CUTOFF", 19)),
    "NDCG's discount": ("gossip", put("gain", reciprocal_rank)),
    "NDCG's discount from the second": ("gossip", put("gain", discount_from_the_second)),
    "no deviation": ("gossip", ruled("standardized", gap)),
    "the median of references": ("gossip", ruled("standardized", against_the_median)),
    "standardized probabilities": ("gossip", ruled("standardized", of_probabilities)),
    "mean logit": ("gossip", ruled("mean_score", mean_logit)),
    "equal scores by lower ids": ("gossip-of-little", put("best", lower_ids_first)),
    "equal scores by higher ids": ("gossip-of-little", put("best", higher_ids_first)),
    "equal likeness by lower ids": ("gossip", put("nearest", lower_ids_first)),
    "equal likeness by higher ids": ("gossip", put("nearest", higher_ids_first)),
    "likeness by the number in common": ("gossip", put("jaccard", lambda a, b: len(a & b))),
    "likeness to the larger set": ("gossip", put("jaccard", lambda a, b: len(a & b) / max(len(a), len(b)))),
    "K + 1 taken": ("gossip", put("best", lambda scores, k: brute.chances(scores, k + 1))),
    "divided by those met": ("gossip-of-little", put("Observer.accuracies", of_the_met)),
    "best tenth rounded down": ("gossip", put("line", best_tenth_rounded_down)),
    "guessing among the others": ("gossip", put("line", others_than_oneself)),
}  # fmt: skip
