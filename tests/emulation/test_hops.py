"""Hops from the data of a user: messages in their order, knowledge before the first event, and events that differ."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gossiprec.emulation import prepare
from gossiprec.emulation.run.hops import DataReach, hops_before_start
from gossiprec.scenario import load_scenario
from tests.emulation.tiny_runs import tiny

INF = math.inf
ORDER = ("time", "sender", "receiver", "sent_at")


def messages(*rows):
    """Return the columns of a log of (time, sender, receiver, sent_at)."""
    return {name: np.array(column) for name, column in zip(ORDER, zip(*rows, strict=True), strict=True)}


def reach_of(source, n_nodes):
    return DataReach(np.where(np.arange(n_nodes) == source, 0.0, INF))


def test_hops_follow_messages_in_the_order_of_time():
    """0 -> 1 at 1, 1 -> 2 at 2, 2 -> 3 left too early, 1 -> 5 arrives late, 3 -> 4 leaves before 3 knows anything."""
    log = messages((1.0, 0, 1, 1.0), (2.0, 1, 2, 2.0), (2.5, 2, 3, 1.5), (3.0, 3, 4, 2.9), (5.0, 1, 5, 1.0))
    found = reach_of(0, 6)
    assert found.follow(log)
    assert found.hops.tolist() == [0, 1, 2, INF, INF, 2]
    other = reach_of(2, 6)
    other.follow(log)
    assert other.hops[3:5].tolist() == [1, 2]


def test_a_message_that_leaves_when_another_arrives_continues_its_chain():
    """The order of both at the node is not in the log, so the chain is assumed."""
    found = reach_of(0, 3)
    found.follow(messages((2.0, 0, 1, 1.0), (3.0, 1, 2, 2.0)))
    assert found.hops.tolist() == [0, 1, 2]


@pytest.mark.parametrize(("pushes", "hops"), [([(0, 1), (1, 2)], 2), ([(1, 2), (0, 1)], INF)])
def test_messages_without_delay_at_one_time_keep_the_order_of_the_log(pushes, hops):
    found = reach_of(0, 3)
    found.follow(messages(*[(1.0, sender, receiver, 1.0) for sender, receiver in pushes]))
    assert found.hops[2] == hops


def test_a_later_chain_can_be_shorter():
    found = reach_of(0, 4)
    found.follow(
        messages((1.0, 0, 1, 1.0), (2.0, 1, 2, 2.0), (3.0, 2, 3, 3.0), (4.0, 0, 2, 4.0), (5.0, 2, 3, 5.0))
    )
    assert found.hops.tolist() == [0, 1, 1, 2]
    assert [found.at(3, time) for time in (2.9, 3.0, 5.0)] == [INF, 3, 2]


def test_chains_pass_from_one_log_to_the_other():
    """The message of node 0 is late in the run itself, and node 1 has sent its own before."""
    late, early = ([(time, 0, 1, time), (2.0, 1, 2, 2.0)] for time in (3.0, 1.0))
    found = reach_of(0, 3)
    found.follow_all([{"message": messages(*sorted(rows))} for rows in (late, early)])
    assert found.hops.tolist() == [0, 1, 2]


def test_events_that_differ_without_a_chain_count_as_two_messages():
    found = reach_of(0, 4)
    found.follow(messages((1.0, 0, 1, 1.0)))
    found.note_events([(2.0, 1, 2, 2.0), (2.0, 2, 3, 2.0)])
    assert found.hops.tolist() == [0, 1, INF, 2], (
        "node 2 sent node 3 something in one run only; node 1 is in a chain"
    )


def before_start(removed=3, **sections):
    """Return the hops before the first event of a tiny run without a user's data."""
    plain = tiny(**{"observers": [], "executor": {"name": "reference"}, **sections})
    without = {**plain, "dataset": {**plain["dataset"], "without": [removed]}}
    first, second = (prepare(load_scenario(each)) for each in (plain, without))
    return hops_before_start(first, second, [removed]), first


def known(hops):
    """Return the hops of the nodes that know the data, without the user itself."""
    return {node: each for node, each in enumerate(hops.tolist()) if each not in (0, INF)}


@pytest.mark.parametrize("merge", ["mean", "samples"])
def test_a_head_knows_the_weight_of_its_cluster(merge):
    hops, run = before_start(
        protocol={
            "name": "semi-decentralised",
            "clusters": 3,
            "merge": merge,
            "rounds": 2,
            "heads": [0, 1, 2],
        }
    )
    (head,) = [head for head, members in run.components.protocol.members.items() if 3 in members]
    assert known(hops) == {head: 1}


GOSSIP = tiny()["protocol"]
AVERAGE = {**GOSSIP, "merge": "mean"}
POISONER = 12


@pytest.mark.parametrize(
    ("protocol", "attacker", "knows"),
    [
        pytest.param({**GOSSIP, "merge": "samples"}, {"name": "a-hum", "targets": [5]}, True, id="weight"),
        pytest.param(AVERAGE, {"name": "a-hum", "targets": [5]}, False, id="nothing"),
        pytest.param(
            AVERAGE, {"name": "a-hum", "targets": [5], "scale": "matched"}, True, id="size of changes"
        ),
        pytest.param(
            AVERAGE, {"name": "a-hum", "targets": {"least_popular": 17}}, True, id="least popular targets"
        ),
        pytest.param(AVERAGE, {"name": "pipattack", "targets": [5]}, True, id="popularity"),
        pytest.param(AVERAGE, {"name": "fedrecattack", "targets": [5]}, True, id="interactions"),
    ],
)
def test_a_poisoner_knows_numbers_about_users(protocol, attacker, knows):
    hops, _ = before_start(protocol=protocol, attackers=[{**attacker, "number": 1}])
    assert known(hops) == ({POISONER: 1} if knows else {})


@pytest.mark.slow
def test_noise_for_the_planned_number_of_updates_shows_others_events():
    """A slow computer misses wakes, its messages train others less often, and these add less noise from the start."""
    slow = {"compute": {"time": {"law": "constant", "value": 0.05}, "per_sample": True}}
    policy = {"name": "dp-sgd", "epsilon": 5.0, "delta": 1e-3, "clip_norm": 1.0}
    hops, _ = before_start(
        network=slow,
        policies=[policy],
        training={"batch_size": "full"},
        protocol={**AVERAGE, "train_on": "receive", "wakes": 3},
    )
    assert set(known(hops).values()) == {1}


STAR = {"name": "fedavg", "rounds": 2}
UPDATES = {**STAR, "client_model": "none"}
FULL = {"batch_size": "full"}
COORDINATOR = 12


@pytest.mark.parametrize(
    ("users", "knows"), [pytest.param(11, True, id="drawn"), pytest.param([1, 5], False, id="named")]
)
def test_a_coordinator_knows_the_data_of_its_root_users(users, knows):
    """Eleven of twelve are drawn: user 3 is one of them, or takes the place of another."""
    merge = {"name": "fltrust", "root": {"users": users}}
    hops, _ = before_start(protocol={**STAR, "merge": merge})
    assert known(hops) == ({COORDINATOR: 1} if knows else {})


def test_a_plain_coordinator_knows_nothing_before_the_first_answer():
    hops, _ = before_start(protocol=UPDATES)
    assert known(hops) == {}


def test_a_recommenders_coordinator_knows_contributions():
    similarity = {"name": "co-occurrence", "public_users": 0.5}
    hops, _ = before_start(
        protocol=UPDATES,
        training=FULL,
        recommender={"name": "pdc-frs", "similarity": similarity, "augmented": 3},
    )
    assert known(hops) == {COORDINATOR: 1}


@pytest.mark.slow
def test_pretrained_rows_reach_all_clients_before_the_first_message():
    pretrained = {"name": "perfedrec-pp", "pseudo_items": 0.0, "pretraining": {"epochs": 1}}
    hops, _ = before_start(
        model={"name": "lightgcn", "dim": 4}, protocol=UPDATES, training=FULL, recommender=pretrained
    )
    assert known(hops) == {COORDINATOR: 1, **{user: 2 for user in range(12) if user != 3}}


def test_central_training_is_two_hops_away():
    hops, _ = before_start(protocol={"name": "central", "epochs": 1})
    assert known(hops) == {COORDINATOR: 1, **{user: 2 for user in range(12) if user != 3}}
