"""Conservation in epidemic learning: from the event log alone, the share of every first model in every later one.

Nodes hardly train, so each model is a mean of first models. At a wake a node's shares become the mean of its own and
of those in all messages that have arrived since the last wake; a message carries a copy of its sender's shares. A
report shows the mean with what has arrived by then. The shares of a node add up to 1, each delivered message is merged
once, and none is lost without a line in the log.
"""

from __future__ import annotations

import numpy as np
import pytest

import gossiprec
from gossiprec.compute.executors.reference import ReferenceExecutor
from gossiprec.emulation.run.event_recorder import EventRecorder
from gossiprec.network.protocols.epidemic import EpidemicOptions
from gossiprec.network.protocols.rand_gossip import RandGossip
from tests.audit.planted import plant
from tests.emulation.tiny_runs import tiny
from tests.slow import slow_except_first

N_USERS, RECEIVERS = 12, 2
TIMES = ("time", "sender", "receiver", "sent_at")
LATE = {"latency": {"law": "exponential", "mean": 0.7}}
AWAY = {"sessions": [{"nodes": {"fraction": 0.3}, "period": 3, "offline_from": 0, "offline_until": 1}]}
CASES = {
    "late messages": {"network": LATE},
    "by samples": {"network": LATE, "merge": "samples"},
    "lost and held": {"network": {**LATE, "loss": 0.2}, "churn": {**AWAY, "messages": "held"}},
    "lost to nodes that are away": {"churn": {**AWAY, "messages": "lost"}, "heal": False},
}


def played(case, folder):
    """Return the time of each report and all models then, then the ended run and the users' numbers of positives."""
    sections = dict(CASES[case])
    protocol = {name: sections.pop(name) for name in ("merge", "heal") if name in sections}
    scenario = tiny(
        model={"name": "mf", "dim": 3, "init_std": 0.5},
        protocol={
            "name": "epidemic", "receivers": RECEIVERS, "wakes": 8, "start": "own", "wake": {"law": "exponential"},
            **protocol,
        },
        training={"optimizer": "sgd", "learning_rate": 1e-30, "batch_size": "full", "negatives": 1},
        observers=[], evaluate={"every": 2, "metrics": ["hr@5"]}, **sections,
    )  # fmt: skip
    with gossiprec.prepare(scenario, out=folder) as live:
        models = [(0.0, items_of(live))]
        for report in live:
            models.append((report.time, items_of(live)))
        positives = live.prepared.components.split.train.sizes
        return models, live.finish(), positives


def items_of(live):
    return np.array([live.model(node)["items"].ravel() for node in range(N_USERS)], np.float64)


class Account:
    """Shares of first models: of each node's own, of all that has arrived there, and of messages in transit.

    Parameters
    ----------
    weights : weight of each node's model in a mean
    """

    def __init__(self, weights):
        self.weights, self.own = weights, np.eye(N_USERS)
        self.arrived, self.flying = [[] for _ in range(N_USERS)], {}

    def wake(self, time, node):
        self.own[node] = self.mean(node)
        self.arrived[node] = []
        self.flying[node, time] = [RECEIVERS, self.own[node].copy()]

    def land(self, sender, sent_at):
        """Take a message out of those in transit; return its shares."""
        waiting = self.flying[sender, sent_at]
        waiting[0] -= 1
        if not waiting[0]:
            del self.flying[sender, sent_at]
        return waiting[1]

    def message(self, _, sender, receiver, sent_at):
        self.arrived[receiver].append((self.weights[sender], self.land(sender, sent_at)))

    def drop(self, _, sender, receiver, sent_at):
        self.land(sender, sent_at)

    def mean(self, node):
        """Return the shares of a node's model, with all that has arrived so far."""
        parts = [(self.weights[node], self.own[node]), *self.arrived[node]]
        return sum(w * part for w, part in parts) / sum(w for w, _ in parts)

    def report(self, *_):
        return np.array([self.mean(node) for node in range(N_USERS)])


def conserved(case, folder):
    """Return whether the account of the log explains all models, and no message is left over, lacking or doubled."""
    models, run, positives = played(case, folder)
    account = Account(positives if CASES[case].get("merge") == "samples" else np.ones(N_USERS))
    kinds = {"wake": ("time", "node"), "message": TIMES, "drop": TIMES, "evaluate": ("time",)}
    events = [
        (row[0], order, kind, row)
        for order, (kind, names) in enumerate(kinds.items())
        for row in zip(*(run.events(kind)[name].tolist() for name in names), strict=True)
    ]
    first, found = models[0][1], []
    try:
        for _, _, kind, row in sorted(events, key=lambda event: event[:2]):
            shares = getattr(account, "report" if kind == "evaluate" else kind)(*row)
            if kind == "evaluate":
                found.append(shares)
    except KeyError:  # a message that no wake has sent
        return False
    due = [model for _, model in models[1:]]
    whole = np.allclose(np.sum(found, axis=2), 1.0)
    return not account.flying and whole and np.allclose(np.array(found) @ first, due, atol=1e-5)


@pytest.mark.parametrize("case", slow_except_first(CASES))
@pytest.mark.cases(2)
def test_models_are_means_of_all_that_arrived_once(case, tmp_path):
    assert conserved(case, tmp_path / "run")


@pytest.mark.slow
def test_messages_are_under_way_and_models_are_mixed_in_these_runs(tmp_path):
    models, run, _ = played("lost and held", tmp_path / "run")
    message = run.events("message")
    assert (message["time"] - message["sent_at"]).max() > 1
    assert len(run.events("drop")["time"]) > 5
    assert len(run.events("miss")["time"]) > 0
    assert np.linalg.norm(models[-1][1] - models[0][1]) > 1


FAULTS = {
    "later messages weigh more": ("late messages", EpidemicOptions, "average", 'return "all"', 'return "pairwise"'),
    "models weigh by samples": ("late messages", RandGossip, "merge_weights", "self.options.merge", '"samples"'),
    "weights that add up to more than 1": (
        "late messages", ReferenceExecutor, "_merge", "(1 - keep) * received", "(1.01 - keep) * received"),
    "only the first message is merged": (
        "late messages", ReferenceExecutor, "_merge", "program.merge_offsets[task + 1]):",
        "min(program.merge_offsets[task + 1], program.merge_offsets[task] + 1)):"),
    "a lost message has no line in the log": (
        "lost and held", EventRecorder, "_write_drops", "segment.kind == event",
        "(segment.kind == event) & (segment.time > 3)"),
}  # fmt: skip


@pytest.mark.parametrize("fault", slow_except_first(FAULTS))
@pytest.mark.cases(3)
def test_a_planted_fault_is_noticed(fault, monkeypatch, tmp_path):
    case, *what = FAULTS[fault]
    plant(monkeypatch, *what)
    assert not conserved(case, tmp_path / "run")
