"""Semi-decentralised learning: clusters, their heads, and gossip between heads."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.compute.plan.tape import TapeEvent
from gossiprec.emulation import prepare, resume, simulate
from gossiprec.scenario import load_scenario
from gossiprec.testing import attacks
from gossiprec.testing.tapes import NaiveInterpreter, make_test_protocol, record_tape
from tests.emulation.ended_early import ended_early, outcome
from tests.emulation.sharded import Threads, divided
from tests.emulation.test_shards import told
from tests.emulation.tiny_runs import SINGLE, carried_out, final_models, tiny

HEADS = {"name": "semi-decentralised", "rounds": 8}
SERVERS = {**HEADS, "head": "server", "fanout": 2}
AT_HEADS = {**SINGLE, "who": "heads", "momentum": [0, 0.9]}
SLOW = {"latency": {"law": "exponential", "mean": 0.3}, "loss": 0.1}


@pytest.mark.parametrize("head", ["user", "server"])
def test_each_user_is_in_one_cluster_of_about_equal_size(head):
    made = make_test_protocol("semi-decentralised", 20, clusters=3, head=head)
    members = [member for each in made.members.values() for member in each]
    users_in_heads = made.heads if head == "user" else []
    assert sorted([*members, *users_in_heads]) == list(range(20))
    sizes = [len(each) for each in made.members.values()]
    assert max(sizes) - min(sizes) <= 1
    assert made.n_nodes == (20 if head == "user" else 23)


def test_a_round_is_a_task_an_answer_and_gossip():
    made = make_test_protocol("semi-decentralised", 6, clusters=2, head="server", rounds=1)
    (segment,), _ = record_tape(made, latency=0.25)
    sent = dict.fromkeys(range(8), ())
    for sender, receiver in zip(segment.sender.tolist(), segment.receiver.tolist(), strict=True):
        sent[sender] = (*sent[sender], receiver)
    for head, other in ((6, 7), (7, 6)):
        assert sent[head] == (*made.members[head], other)
        assert all(sent[member] == (head,) for member in made.members[head])
    naive = NaiveInterpreter(make_test_protocol("semi-decentralised", 6, clusters=2, head="server"))
    naive.play(segment)
    assert naive.updates == [1] * 6 + [0, 0]


def test_a_head_without_a_user_pools_by_the_data_behind_each_model():
    """The weights of the members are 1, 2, ..., and the other head stands for the sum of its cluster's."""
    made = make_test_protocol("semi-decentralised", 6, clusters=2, head="server", rounds=1)
    weights = made.merge_weights(np.arange(1, 7))
    assert weights[:6].tolist() == [1, 2, 3, 4, 5, 6]
    for head, members in made.members.items():
        assert weights[head] == sum(member + 1 for member in members)
    (segment,), _ = record_tape(made, latency=0.25)
    naive = NaiveInterpreter(make_test_protocol("semi-decentralised", 6, clusters=2, head="server"))
    naive.play(segment)
    for head in made.heads:
        senders = [int(segment.sender[int(message)]) for message, *_ in naive.received[head]]
        models = [model for *_, model in naive.received[head]]
        assert naive.values[head][1] == pytest.approx(np.average(models, weights=weights[senders]), rel=1e-6)


def test_heads_may_be_given():
    made = make_test_protocol("semi-decentralised", 9, clusters=3, heads=[7, 2, 4], rounds=3)
    (segment,), _ = record_tape(made)
    assert made.heads == [2, 4, 7]
    assert sorted({*segment.node[segment.kind == TapeEvent.WAKE].tolist()}) == [2, 4, 7]


@pytest.mark.parametrize("protocol", [HEADS, SERVERS], ids=["users", "servers"])
@pytest.mark.cases(1)
def test_executors_agree(protocol):
    scenario = {"protocol": protocol, "network": SLOW, "training": {"eps": 1e-3}, "observers": []}
    one, *others = (
        final_models(carried_out(tiny(**scenario, executor={"name": name})))
        for name in ("reference", "batched", "fused")
    )
    for other in others:
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("protocol", [HEADS, SERVERS], ids=["users", "servers"])
@pytest.mark.full
def test_a_run_that_ended_early_is_resumed_to_the_same_bytes(tmp_path, protocol):
    observers = [SINGLE] if protocol is HEADS else [AT_HEADS]
    evaluate = {"every": 1, "metrics": ["hr@5"]}
    often = tiny(protocol=protocol, network=SLOW, observers=observers, evaluate=evaluate)
    whole = simulate(often, out=tmp_path / "whole")
    broken = ended_early(tmp_path / "broken", often, 3)

    assert outcome(resume(broken.path).path) == outcome(whole.path)


REFUSED = {
    "a head that is not a node": (
        {"heads": [1, 2, 99]}, r"protocol.heads: found 99; expected nodes, 0 to 11"
    ),
    "a negative head": ({"heads": [1, 2, -1]}, r"protocol.heads.2"),
    "two heads in one": ({"heads": [1, 2, 2]}, r"found 2 different nodes; expected one for each of 3"),
    "users for servers": ({"heads": [1, 2, 3], "head": "server"}, r"found nodes of users, but head is server"),
    "too many clusters": ({"clusters": 7}, r"protocol.clusters: found 7 for 12 nodes; expected at least one"),
    "gossip with itself": ({"fanout": 3}, r"fanout: found 3, but a head has only 2 other heads"),
}  # fmt: skip


@pytest.mark.parametrize("options", REFUSED)
def test_what_cannot_be_is_refused(options):
    wrong, message = REFUSED[options]
    with pytest.raises(ScenarioError, match=message):
        prepare(load_scenario(tiny(protocol={**HEADS, **wrong})))


@pytest.mark.parametrize("who", ["single", "coordinator"])
def test_observers_at_nodes_that_meet_no_user_are_refused(who):
    with pytest.raises(ScenarioError, match=rf"observers.*found '{who}', but only heads .*set who: heads"):
        prepare(load_scenario(tiny(protocol=SERVERS, observers=[{**SINGLE, "who": who}])))


@pytest.mark.parametrize("protocol", [HEADS, {"name": "fedavg", "rounds": 2}], ids=["users", "fedavg"])
def test_heads_observe_only_if_they_have_no_user(protocol):
    with pytest.raises(
        ScenarioError, match="who: heads requires heads without a user; use protocol semi-dec"
    ):
        prepare(load_scenario(tiny(protocol=protocol, observers=[AT_HEADS])))


def test_heads_begin_as_users_do():
    prepared = prepare(load_scenario(tiny(protocol=SERVERS, observers=[])))
    rows = prepared.executor.store.models(prepared.planner.current_rows, np.arange(15))

    assert rows[0].any()
    np.testing.assert_array_equal(
        rows[12:, prepared.components.layout.merged], rows[[0, 0, 0], prepared.components.layout.merged]
    )


def test_one_head_sees_and_computes_what_a_coordinator_does(tmp_path):
    """One cluster without gossip is FedAvg; only the first wakes of the two are at different times."""
    one = {**SERVERS, "clusters": 1, "fanout": 0, "merge": "mean"}
    head = simulate(tiny(protocol=one, observers=[AT_HEADS]), out=tmp_path / "head")
    star = {"name": "fedavg", "rounds": 8, "merge": "mean"}
    coordinator = {**AT_HEADS, "who": "coordinator"}
    whole = simulate(tiny(protocol=star, observers=[coordinator]), out=tmp_path / "star")

    assert set(head.attacks["observer"].tolist()) == {"heads"}
    assert set(head.attacks["upper_bound"].tolist()) == {1.0}
    for column in ("momentum", "aac", "best10_mean"):
        np.testing.assert_allclose(head.attacks[column], whole.attacks[column])


def test_what_heads_observe_is_the_same_on_shards(tmp_path):
    scenario = tiny(protocol=SERVERS, network=SLOW, observers=[AT_HEADS])
    whole = simulate(scenario, out=tmp_path / "whole")
    shards = simulate(divided(scenario, 2), out=tmp_path / "shards", make_shard_group=Threads)

    assert told(shards.path) == told(whole.path)
    assert whole.attacks["aac"].max() > 0


@pytest.mark.slow
@pytest.mark.full
def test_heads_see_only_what_they_receive(monkeypatch):
    monkeypatch.setattr(attacks, "RUNS", {"heads": {**SERVERS, "rounds": 5}})
    attacks.check_attack("cda", {"who": "heads", "community_size": 3, "reference_items": 9})


def test_one_cluster_needs_no_gossip():
    prepared = carried_out(tiny(protocol={**HEADS, "clusters": 1, "fanout": 0}))
    assert final_models(prepared).any()
