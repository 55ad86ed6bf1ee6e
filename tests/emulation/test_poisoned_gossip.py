"""Poisoners in gossip: what they push travels with messages and in no other way, and robust rules stop it."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.adversaries.poisoners import POISONERS, Poisoner
from gossiprec.emulation import prepare, simulate
from gossiprec.rules.aggregators import ModelDelta
from gossiprec.scenario import load_scenario
from gossiprec.testing import temporarily_registered
from tests.emulation.tiny_runs import tiny
from tests.slow import slow_except_first

N, TARGET = 12, 7
NEVER = 10**6
SLOW = {"latency": {"law": "exponential", "mean": 0.6}, "loss": 0.05}
ROUNDS = {"wake": {"law": "constant"}, "wakes": 6}
LATER = {"latency": {"law": "constant", "value": 0.5}}
"""With rounds: all that is pushed in a round has come before the next."""
RING = {"graph": {"family": "ring", "k": 2}}
REGULAR = {"graph": {"family": "random-regular", "degree": 4}}
MEDIAN = {"name": "robust-merge", "rule": "median", "buffer": 4}
KRUM = {"name": "robust-merge", "rule": {"name": "krum", "byzantine": 1}, "buffer": 4}


class Lift(Poisoner):
    """Pushes each number of the targets' rows and each shared weight up by the learning rate, before boosting."""

    def gradient(self, sent, push):
        rows = np.full((len(self.context.targets), sent.items.shape[1]), -1.0, np.float32)
        return ModelDelta(self.context.targets, rows, np.full_like(sent.shared, -1.0))


@pytest.fixture(autouse=True)
def lift():
    with temporarily_registered(POISONERS, {"lift": Lift}):
        yield


def gossip(*, start=1, boost=1.0, network=None, policies=(), **protocol):
    """Return a gossip of twelve users' nodes and a poisoner, node 12, reported once a round."""
    return tiny(
        model={"name": "ncf", "dim": 4, "hidden": [6, 3], "init_std": 0.1},
        training={"optimizer": "sgd", "learning_rate": 0.05, "batch_size": "full"},
        protocol={"name": "rand-gossip", "fanout": 2, "view": {"size": 2}, "wakes": 4, **protocol},
        attackers=[{"name": "lift", "number": 1, "targets": [TARGET], "start": start, "boost": boost}],
        network=network or {}, policies=list(policies), observers=[],
        evaluate={"every": 1, "metrics": ["hr@5"]},
    )  # fmt: skip


def models_over_time(scenario):
    """Yield the time of each report and the users' models."""
    prepared = prepare(load_scenario(scenario))
    for tick in prepared.schedule.play(prepared.tape_runner().run_segment):
        yield tick.time, prepared.executor.store.load(prepared.planner.current_rows[:N])


def reached_from(run, source, until):
    """Return who has received what derives from the first push of a node, message by message in their order."""
    message = run.events("message")
    since = {source: -np.inf}
    for time, sent_at, sender, receiver in zip(
        *(message[name].tolist() for name in ("time", "sent_at", "sender", "receiver")), strict=True
    ):
        if time <= until and since.get(sender, np.inf) <= sent_at:
            since.setdefault(receiver, time)
    return {node for node in since if node < N}


@pytest.mark.parametrize("network", slow_except_first([None, SLOW]), ids=["at-once", "slow"])
@pytest.mark.parametrize("view", slow_except_first([{"size": 2}, RING]), ids=["views", "ring"])
@pytest.mark.cases(1)
def test_poison_travels_with_messages_and_in_no_other_way(view, network, tmp_path):
    """Beside a run whose poisoner is silent, the models that differ are those of the nodes that its messages led to."""
    poisoned = gossip(view=view, network=network)
    run = simulate(poisoned, out=tmp_path / "run")
    trace = []
    silent = models_over_time(gossip(view=view, network=network, start=NEVER))
    for (time, models), (_, clean) in zip(models_over_time(poisoned), silent, strict=True):
        differ = set(np.flatnonzero((models != clean).any(axis=1)).tolist())
        assert differ == reached_from(run, N, time)
        trace.append(len(differ))

    assert trace == sorted(trace)
    assert trace[0] < trace[-1]
    assert trace[0] < N


@pytest.mark.slow
def test_on_a_ring_in_rounds_poison_comes_one_hop_further_a_round():
    run = {"view": RING, "network": LATER, **ROUNDS}
    at, clean = models_over_time(gossip(**run)), models_over_time(gossip(start=NEVER, **run))
    reached = [
        np.flatnonzero((models != others).any(axis=1)).tolist()
        for (time, models), (_, others) in zip(at, clean, strict=True)
        if time == int(time)  # pushed at 1, 2, ..., merged half a round later
    ]
    neighbours = [sorted({hop, N - 1 - hop}) for hop in range(6)]  # of node 12: 0 and 11, then 1 and 10, ...
    due = [sorted({node for hop in neighbours[:rounds] for node in hop}) for rounds in range(6)]
    assert reached == due


@pytest.mark.parametrize(
    ("policies", "harmed"),
    slow_except_first([([], N), ([MEDIAN], 0), ([KRUM], 0)]),
    ids=["mean", "median", "krum"],
)
@pytest.mark.cases(1)
def test_where_each_inbox_has_one_hostile_model_in_five_robust_rules_let_nothing_pass(policies, harmed):
    run = {"view": REGULAR, "fanout": 4, "network": LATER, **ROUNDS}
    *_, (_, models) = models_over_time(gossip(policies=policies, boost=1000.0, **run))
    *_, (_, honest) = models_over_time(gossip(policies=policies, start=NEVER, **run))
    largest = np.abs(models).max(axis=1)

    assert np.count_nonzero(largest > 2 * np.abs(honest).max()) == harmed


def test_a_rule_that_two_models_cannot_help_lets_a_poisoner_pass():
    """As docs/aggregators.md says of inboxes that are too small: the median of two models is their mean."""
    run = {"view": REGULAR, "fanout": 1, "network": LATER, **ROUNDS}
    *_, (_, models) = models_over_time(gossip(policies=[MEDIAN], boost=1000.0, **run))
    assert np.abs(models).max() > 5.0
