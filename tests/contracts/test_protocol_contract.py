"""What every registered protocol keeps to; and that the contract catches those that do not."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.options import Options
from gossiprec.compute.plan.tape import Behaviour, Op
from gossiprec.network.protocols import PROTOCOLS
from gossiprec.testing import check_protocol
from gossiprec.testing.tapes import make_test_protocol, record_tape
from tests.contracts.broken import told

BUFFER = {
    "name": "buffered",
    "buffer": 2,
    "concurrency": 4,
    "mixing": 0.5,
    "staleness": {"law": "polynomial"},
}
OPTIONS = {
    "central": [{"epochs": 5}],
    "rand-gossip": [
        {"wakes": 5},
        {"wakes": 5, "average": "all", "merge": "mean"},
        {"wakes": 5, "average": "all"},
        {"wakes": 5, "train_on": "receive", "merge": "mean"},
    ],
    "pers-gossip": [{"wakes": 5}],
    "epidemic": [{"wakes": 5}, {"wakes": 5, "receivers": 1, "merge": "samples"}],
    "push-pull": [{"wakes": 5}, {"wakes": 5, "exchange": "pull", "receivers": 2, "merge": "samples"}],
    "semi-decentralised": [{"rounds": 5}, {"rounds": 5, "head": "server", "merge": "mean", "fanout": 2}],
    "fedavg": [
        {"rounds": 5},
        {"rounds": 5, "round": {"deadline": 1.0, "give_up": 2.0, "late": "discard"}},
        {"rounds": 5, "aggregation": BUFFER},
    ],
}
"""Options that make a run short; a protocol that is not here runs with its defaults."""


@pytest.mark.parametrize(
    ("name", "options"), [(name, options) for name in PROTOCOLS for options in OPTIONS.get(name, [{}])]
)
def test_a_protocol_keeps_its_contract(name, options):
    check_protocol(PROTOCOLS[name], options)


@pytest.mark.parametrize("latency", [0.0, 0.3])
def test_a_coordinator_that_asks_everybody_draws_nothing(latency):
    (one,), (other,) = (
        record_tape(make_test_protocol("fedavg", 6, seed, rounds=5), latency=latency)[0] for seed in (1, 2)
    )
    for column in ("kind", "node", "message", "count", "receiver", "time"):
        np.testing.assert_array_equal(getattr(one, column), getattr(other, column))


class Gossip(PROTOCOLS["rand-gossip"]):
    """Five wakes, and something that is wrong."""

    @property
    def wakes(self):
        return 5


class Required(Options):
    view: int


class AsksForOptions(Gossip):
    Options = Required

    def __init__(self, options, **about):
        super().__init__(Gossip.Options(), **about)


class LacksARole(Gossip):
    @property
    def role_behaviours(self):
        return [*super().role_behaviours] * 2


class MergesOnWakes(Gossip):
    @property
    def role_behaviours(self):
        return [Behaviour(on_wake=(Op.BLEND, Op.TRAIN, Op.PUSH), on_receive=(Op.BLEND,))]


class MergesTwice(Gossip):
    @property
    def role_behaviours(self):
        return [Behaviour(on_wake=(Op.TRAIN, Op.PUSH), on_receive=(Op.BLEND, Op.ADOPT))]


class NeverPushes(Gossip):
    @property
    def role_behaviours(self):
        return [Behaviour(on_wake=(Op.TRAIN,), on_receive=(Op.BLEND,))]


class AnswersUnannounced(Gossip):
    def on_delivery(self, node, message, now):
        return () if message else ((node + 1) % self.n_users,)


class AnswersWithoutEnd(Gossip):
    max_answers = 20
    role_behaviours = (Behaviour(on_wake=(Op.TRAIN, Op.PUSH), on_receive=(Op.PUSH, Op.BLEND)),)
    messages_per_wake = None

    def on_receive(self, message):
        return [message.reply()]


class Weightless(Gossip):
    def merge_weights(self, n_positives):
        return n_positives - 1.0


class SaysNothing(Gossip):
    def on_wake(self, node, now):
        return ()


class SaysLessThanAnnounced(Gossip):
    messages_per_wake = 2

    def on_wake(self, node, now):
        return ((node + 1) % self.n_users,)


class TalksToItself(Gossip):
    def on_wake(self, node, now):
        return (node,)


class RepeatsItself(Gossip):
    def on_wake(self, node, now):
        return [(node + 1) % self.n_users] * 2


class SendsFar(Gossip):
    def on_wake(self, node, now):
        return (6,)


class DrawsAnew(Gossip):
    def on_wake(self, node, now):
        return [(node + 1 + np.random.default_rng().integers(self.n_users - 1)) % self.n_users]


class Deaf(Gossip):
    def __init__(self, options, *, seed, **about):
        super().__init__(options, seed=7, **about)


class ForeseesTooMuch(Gossip):
    def predicted_fraction_met(self, rounds):
        return rounds / 10


BROKEN = {
    AsksForOptions: "Give every option a default.* ValidationError",
    LacksARole: r"Give every node a role, and every role a behaviour. Found roles \[0\] for 2 behaviours",
    MergesOnWakes: "Merge only on a receive.* Node 0 merges on its wake",
    MergesTwice: "Merge only on a receive, once.* Node 0 merges what it receives 2 times",
    NeverPushes: "send by a push.* Node 0 wakes, but Op.PUSH is not in its on_wake",
    AnswersUnannounced: r"Declare by `replies` whether.* It declares False, and nodes \[0, 1, 2, 3, 4, 5\] send",
    AnswersWithoutEnd: r"at virtual time .*: found more than 20 messages that follow from one wake",
    Weightless: r"Give the models of each node a weight.* Found \[0",
    SaysNothing: "send at least one message.* On an instant network nothing was sent",
    SaysLessThanAnnounced: "On an instant network 30 messages were sent by 30 wakes, not 2 by each",
    TalksToItself: "Send to other existing nodes.* Node [0-5] sends to itself",
    RepeatsItself: "to each of them only once per push. A node sends twice",
    SendsFar: "Send to other existing nodes.* Found receiver 6 of 6 nodes",
    DrawsAnew: "Run identically with the same seed.* two runs with the same seed differ",
    Deaf: "differently with another seed.* On a lossy network another seed changes nothing",
    ForeseesTooMuch: "Predict a fraction met.* Found 100",
}


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_protocol_that_breaks_the_contract_is_told_which_claim(kind):
    with told(kind, BROKEN[kind], kind="protocol"):
        check_protocol(kind)
