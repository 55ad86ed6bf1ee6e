"""Protocols that see messages: what they get, what their answers do, and what is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.compute.plan.tape import Behaviour, Op, TapeEvent, concat_segments, split_at_wakes
from gossiprec.emulation import prepare, resume, simulate
from gossiprec.network.protocols import PROTOCOLS, Message, Reaction, Send
from gossiprec.network.protocols.messages import MessageBook
from gossiprec.runs import read_log
from gossiprec.scenario import load_scenario
from gossiprec.testing.tapes import NaiveInterpreter, make_test_planner, make_test_protocol, record_tape
from tests.emulation.ended_early import ended_early, outcome
from tests.emulation.sharded import Threads, divided
from tests.emulation.test_shards import told
from tests.emulation.tiny_runs import COORDINATOR, carried_out, final_models, tiny
from tests.protocols.talking import Talking

TALKING = {"name": "talking", "fanout": 3, "view": {"size": 3}, "wakes": 6}
SLOW = {
    "latency": {"law": "exponential", "mean": 0.8},
    "loss": 0.1,
    "duplication": 0.2,
    "bandwidth": {"up": 2000.0},
}


@pytest.fixture
def talking(monkeypatch):
    """Register the talking protocol for one test."""
    monkeypatch.setitem(PROTOCOLS._members, "talking", Talking)


class PingPong(PROTOCOLS["rand-gossip"]):
    """Two nodes: a ping per wake, and a model as the answer."""

    control_messages = {"ping": 16}  # noqa: RUF012
    role_behaviours = (Behaviour((), (Op.BLEND,), on={"ping": (Op.TRAIN, Op.PUSH)}),)
    messages_per_wake = max_messages_per_wake = view_size = None

    def __init__(self, options, **about):
        super().__init__(options, **about)
        self.heard = []

    def on_wake(self, node, now):
        return [Send(1 - node, "ping")]

    def on_receive(self, message):
        self.heard.append(message)
        return [message.reply()] if message.kind == "ping" else ()


def test_a_message_has_its_sender_kind_times_and_question():
    made = make_test_protocol(PingPong, 2, fanout=1, view={"size": 1}, wakes=1, wake={"law": "constant"})
    record_tape(made, latency=0.25)

    ping = Message(0, 0, 1, "ping", 1.0, 1.25, None)
    assert made.heard[0] == ping
    assert made.heard[2] == Message(2, 1, 0, "model", 1.25, 1.5, Message(0, 0, 1, "ping", 1.0, 1.25, None))
    assert ping.reply("thanks") == Send(0, "thanks", ping)


def test_an_answer_carries_the_model_of_its_moment():
    made = make_test_protocol(PingPong, 2, fanout=1, view={"size": 1}, wakes=1, wake={"law": "constant"})
    (segment,), inline = record_tape(made, latency=0.25)
    assert not inline
    assert segment.kind.tolist() == [0, 0, 4, 4, 1, 1]
    assert segment.carries_model.tolist() == [False, False, True, True]
    naive = NaiveInterpreter(make_test_protocol(PingPong, 2))
    naive.play(segment)
    assert naive.updates == [1, 1]
    assert [[int(message) for message, *_ in some] for some in naive.received] == [[2], [3]]


def test_segments_of_tape_keep_kinds_and_operations_when_they_are_cut_and_joined():
    made = make_test_protocol(Talking, 6, wakes=5)
    segments, _ = record_tape(made, every=0.6, latency=0.3)
    (whole,), _ = record_tape(make_test_protocol(Talking, 6, wakes=5), latency=0.3)
    joined = concat_segments([*segments, *split_at_wakes(segments[0], 0, apart=True)[:0]])
    again = concat_segments(split_at_wakes(whole, 3, apart=True))
    for column in ("kind", "slot", "control", "receiver", "message"):
        np.testing.assert_array_equal(getattr(joined, column), getattr(whole, column))
        np.testing.assert_array_equal(getattr(again, column), getattr(whole, column))
    assert {*whole.slot.tolist()} == {0, 2, 3, 4, 5}


def test_ignored_versions_and_control_messages_hold_no_rows():
    made = make_test_protocol(Talking, 6, wakes=5)
    segments, inline = record_tape(made, distribution="exponential", latency=0.4, loss=0.2, duplication=0.2)
    planner = make_test_planner(made, inline=inline)
    for segment in segments:
        planner.plan(segment)
    assert len(planner.needed_rows) == 6
    planner.restore(planner.state())


@pytest.mark.full
def test_executors_agree(talking):
    one, *others = (
        final_models(
            carried_out(tiny(protocol=TALKING, training={"eps": 1e-3}, network=SLOW, executor={"name": name}))
        )
        for name in ("reference", "batched", "fused")
    )
    for other in others:
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-4)


@pytest.mark.full
def test_messages_in_transit_are_resumed_to_the_same_bytes(tmp_path, talking):
    often = tiny(
        protocol=TALKING, network=SLOW, evaluate={"every": 1, "metrics": ["hr@5"]},
        churn={"sessions": {"online": {"law": "constant", "value": 2.0}, "offline": {"law": "constant", "value": 0.5}}},
    )  # fmt: skip
    whole = simulate(often, out=tmp_path / "whole")
    broken = ended_early(tmp_path / "broken", often, 3)

    assert outcome(resume(broken.path).path) == outcome(whole.path)


@pytest.mark.full
def test_shards_write_what_one_process_writes(tmp_path, talking):
    scenario = tiny(protocol=TALKING, network=SLOW)
    one = simulate(scenario, out=tmp_path / "one")
    run = simulate(divided(scenario, 3), out=tmp_path / "divided", make_shard_group=Threads)
    assert told(run.path) == told(one.path)


def test_control_messages_are_in_the_log_and_the_bytes_but_not_seen(tmp_path, talking):
    run = simulate(tiny(protocol=TALKING, network={"loss": 0.1}), out=tmp_path / "run")
    log = read_log(run.path / "events.mplog")
    control, lost, messages = log.events("control"), log.events("control_drop"), log.events("message")
    names = log.schema["control"].columns[-1].codes
    assert names == ("ask", "thanks")
    sizes = {name: np.unique(control["size_bytes"][control["kind"] == k]) for k, name in enumerate(names)}
    assert sizes == {"ask": [40], "thanks": [8]}
    n_models = len(messages["time"]) + len(log.events("drop")["time"])
    (size,) = np.unique(messages["size_bytes"])
    n_asked = 2 * len(log.events("wake")["time"])
    assert len(lost["time"]) > 0
    summary = run.summary
    assert summary["messages"] == n_models + len(control["time"]) + len(lost["time"])
    thanks = summary["messages"] - n_models - n_asked
    assert summary["bytes"]["sent"] == n_models * size + 40 * n_asked + 8 * thanks
    assert summary["network"]["delivered"] == len(messages["time"]) + len(control["time"])
    prepared = prepare(load_scenario(tiny(protocol=TALKING, network={"loss": 0.1})))
    assert len(prepared.schedule.deliveries.message) == len(messages["time"])


def test_a_run_without_control_messages_has_no_kinds_for_them(tmp_path):
    run = simulate(tiny(), out=tmp_path / "run")
    log = read_log(run.path / "events.mplog")
    assert "control" not in [kind.name for kind in log.schema.kinds]


def test_bandwidth_takes_the_size_of_a_control_message(talking):
    def delays(size):
        Talking.control_messages = {"ask": size, "thanks": 8}
        made = prepare(load_scenario(tiny(protocol=TALKING, network={"bandwidth": {"up": 1000.0}})))
        segment = concat_segments([tick.segment for tick in made.schedule.ticks])
        sent_at = segment.sent_at
        asked = (segment.kind == TapeEvent.SIGNAL) & (segment.slot == 2)
        return (segment.time - np.append(sent_at, 0.0)[segment.message])[asked]

    before = dict(Talking.control_messages)
    try:
        assert delays(40).min() >= 0.04
        assert delays(4000).min() >= 4.0
    finally:
        Talking.control_messages = before


class Endless(PingPong):
    """Answers every message with a message."""

    max_answers = 50
    role_behaviours = (Behaviour((), (Op.PUSH, Op.BLEND), on={"ping": (Op.PUSH,)}),)

    def on_receive(self, message):
        return [message.reply()]


class WithoutTheWord(Endless):
    """Sends for ever, without naming what it answers."""

    def on_receive(self, message):
        return [Send(message.sender)]


class AnswersNothing(PingPong):
    """Answers a message that was never sent."""

    def on_receive(self, message):
        return [Send(message.sender, "ping", message._replace(id=99))]


class AnswersAnothersMessage(PingPong):
    """Answers its own message."""

    def on_wake(self, node, now):
        return [Send(1 - node, "ping", self.heard[-1])] if self.heard else super().on_wake(node, now)


class OfUnknownKind(PingPong):
    """Sends a kind that no behaviour names."""

    def on_wake(self, node, now):
        return [Send(1 - node, "pong")]


class PushesNothing(PingPong):
    """Sends a model where its operations push none."""

    def on_wake(self, node, now):
        return [1 - node]


class Faraway(PingPong):
    """Sends to a node that does not exist."""

    def on_wake(self, node, now):
        return [Send(7, "ping")]


class Merges(PingPong):
    """Merges a control message."""

    def on_receive(self, message):
        return Reaction("gift")

    role_behaviours = (Behaviour((), (Op.BLEND,), on={"ping": (), "gift": (Op.BLEND,)}),)


class Unheard(PingPong):
    """Names operations that no behaviour has."""

    def on_receive(self, message):
        return Reaction("dance")


REFUSED = {
    Endless: r"protocol Endless: node . at virtual time 13.5: found more than 50 messages that follow from one wake",
    WithoutTheWord: r"protocol WithoutTheWord: node . at virtual time .*: found more than 50 messages",
    AnswersNothing: r"node 1 at virtual time 1.25: found an answer to .*, which has not arrived there",
    AnswersAnothersMessage: r"found an answer to Message\(.*, which has not arrived there",
    OfUnknownKind: r"found a message of kind 'pong'; expected 'model' or one of \['ping'\]",
    PushesNothing: r"found a model \('model'\) to send; expected Op.PUSH in the node's operations",
    Faraway: r"found receiver 7; expected a node, 0 to 1",
    Merges: r"found a merge \('gift'\) of a control message",
    Unheard: r"found operations 'dance'; expected one of \['ping'\]",
}


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.__name__)
def test_what_cannot_be_is_refused_with_protocol_node_and_time(kind):
    made = make_test_protocol(kind, 2, fanout=1, view={"size": 1}, wakes=3, wake={"law": "constant"})
    with pytest.raises(ScenarioError, match=REFUSED[kind]):
        record_tape(made, latency=0.25)


@pytest.mark.parametrize("size", [-1, 0, 2.5, 2**40])
def test_sizes_of_control_messages_are_checked(size, monkeypatch):
    monkeypatch.setattr(PingPong, "control_messages", {"ping": size})
    with pytest.raises(ScenarioError, match=rf"found a size of {size} bytes for 'ping'; expected 1 to"):
        record_tape(make_test_protocol(PingPong, 2))


def test_control_messages_need_operations_and_a_reader():
    class Forgets(PingPong):
        control_messages = {"ping": 16, "pong": 16}  # noqa: RUF012

    with pytest.raises(ScenarioError, match="found no operations for 'pong' in role 0"):
        record_tape(make_test_protocol(Forgets, 2))

    class Deaf(PROTOCOLS["rand-gossip"]):
        control_messages = {"ping": 16}  # noqa: RUF012

    with pytest.raises(ScenarioError, match="found control_messages, but no on_receive"):
        record_tape(make_test_protocol(Deaf, 6))


class Invited(PROTOCOLS["fedavg"]):
    """The coordinator invites clients; a third of them decline, and the others are sent the version."""

    control_messages = {"invite": 32, "accept": 8, "decline": 9}  # noqa: RUF012
    messages_per_wake = None
    operations = {"invite": (), "accept": (Op.PUSH,), "decline": ()}  # noqa: RUF012
    max_messages_per_wake = property(lambda self: 4 * self.n_users)

    @property
    def role_behaviours(self):
        clients, coordinator = super().role_behaviours
        own = {**self.operations, "accept": ()}
        return [
            Behaviour(clients.on_wake, clients.on_receive, on=own),
            Behaviour(coordinator.on_wake, coordinator.on_receive, on=self.operations),
        ]

    def on_wake(self, node, now):
        return [Send(client, "invite") for client in super().on_wake(node, now)]

    def on_receive(self, message):
        if message.kind == "invite":
            return [message.reply("decline" if message.receiver % 3 == 0 else "accept")]
        if message.kind == "accept":
            return [message.reply()]
        return self.answer(message) if message.kind == "model" and message.receiver < self.n_users else ()

    def answer(self, message):
        return [message.reply()]

    def on_sent(self, first, receivers):
        pass


INVITED = {"name": "invited", "rounds": 8, "participation": 0.5, "client_model": "none"}
OBSERVED = {
    "network": {name: SLOW[name] for name in ("latency", "loss", "duplication")},
    "observers": [COORDINATOR],
}


@pytest.mark.slow
@pytest.mark.full
def test_clients_without_a_model_are_invited_and_decline(monkeypatch, tmp_path):
    monkeypatch.setitem(PROTOCOLS._members, "invited", Invited)
    training = {"optimizer": "sgd", "learning_rate": 0.05}
    slow = {**OBSERVED, "training": training}
    whole = simulate(tiny(protocol=INVITED, **slow), out=tmp_path / "whole")
    models = simulate(tiny(protocol={**INVITED, "client_model": "own"}, **slow), out=tmp_path / "models")

    messages, controls = whole.events("message"), whole.events("control")
    clients = np.minimum(messages["sender"], messages["receiver"])
    assert (clients % 3 > 0).all()
    assert set(controls["size_bytes"].tolist()) == {32, 8, 9}
    declined = controls["sender"][controls["size_bytes"] == 9]
    assert set((declined % 3).tolist()) == {0}
    for name in ("time", "sender", "receiver"):
        assert messages[name].tolist() == models.events("message")[name].tolist()
        assert controls[name].tolist() == models.events("control")[name].tolist()
    np.testing.assert_allclose(whole.metrics["value"], models.metrics["value"], atol=1e-5)
    heard = np.unique(messages["sender"][messages["receiver"] == 12])
    hits = np.load(whole.path / "hits.npz")
    assert set(np.concatenate([hits[name] for name in hits.files])[:, 1].tolist()) <= set(heard.tolist())

    early = ended_early(tmp_path / "early", tiny(protocol=INVITED, **slow))
    assert outcome(resume(early.path).path) == outcome(whole.path)
    shards = simulate(
        divided(tiny(protocol=INVITED, **slow), 2), out=tmp_path / "shards", make_shard_group=Threads
    )
    assert told(shards.path) == told(whole.path)


def test_a_client_without_a_model_answers_each_version_once():
    class Silent(Invited):
        answer = lambda self, message: ()  # noqa: E731

    class Twice(Invited):
        answer = lambda self, message: [message.reply(), message.reply()]  # noqa: E731

    class Trains(Invited):
        operations = {**Invited.operations, "invite": (Op.TRAIN,)}  # noqa: RUF012

    for kind, found in ((Silent, "[]"), (Twice, "[6, 6]")):
        with pytest.raises(
            ScenarioError, match=re.escape(f"found models to {found} after 'model'; expected models to [6]")
        ):
            record_tape(make_test_protocol(kind, 6, client_model="none", rounds=2))
    with pytest.raises(ScenarioError, match="found operations of clients on receiving 'invite'"):
        MessageBook.of(make_test_protocol(Trains, 6, client_model="none"))
    with pytest.raises(ScenarioError, match="found on_receive in the run mode central"):
        MessageBook.of(
            make_test_protocol(type("Alone", (PROTOCOLS["central"],), {"on_receive": Invited.answer}), 6)
        )
