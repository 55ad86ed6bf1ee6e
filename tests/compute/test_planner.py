from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from gossiprec.compute.plan.planner import SMALL
from gossiprec.compute.plan.tape import Tape, insert_resets
from gossiprec.testing.tapes import (
    NaiveInterpreter,
    ShuffledPlanRunner,
    make_test_planner,
    make_test_protocol,
    record_tape,
    waves,
)


class Pair:
    """Two nodes that gossip; `tape` records what the test makes them do."""

    def __init__(self, n_users=2, train_on="wake", **settings):
        self.control = make_test_protocol(
            "rand-gossip", n_users, fanout=1, train_on=train_on, view={"size": 1}
        )
        self.made = make_test_planner(self.control, inline=False, **settings)
        self.tape = Tape()

    def plan(self):
        return self.made.plan(self.tape.cut())


def tasks(plan):
    """Return (node, source, target, update, messages merged) of each task, wave by wave."""
    p = plan.program
    return [
        [
            (
                int(p.node[t]),
                int(p.source[t]),
                int(p.target[t]),
                int(p.update[t]),
                p.merge_message[p.merge_offsets[t] : p.merge_offsets[t + 1]].tolist(),
            )
            for t in ts
        ]
        for ts, _ in waves(plan)
    ]


def test_a_node_whose_version_nobody_needs_trains_in_place():
    pair = Pair()
    pair.tape.wake(1.0, 0, [])
    pair.tape.wake(2.0, 0, [])

    assert tasks(pair.plan()) == [[(0, 0, 0, 0, [])], [(0, 0, 0, 1, [])]]


def test_a_version_on_its_way_is_left_alone():
    pair = Pair()
    pair.tape.wake(1.0, 0, [1])  # message 0 carries row 0
    pair.tape.wake(2.0, 0, [])

    assert tasks(pair.plan()) == [[(0, 0, 0, 0, [])], [(0, 0, 2, 1, [])]]


def test_what_arrived_is_merged_by_the_receivers_next_training():
    pair = Pair()
    pair.tape.wake(1.0, 0, [1])
    pair.tape.deliver(1.0, 1, 0)
    pair.tape.wake(2.0, 1, [])

    assert tasks(pair.plan()) == [[(0, 0, 0, 0, [])], [(1, 1, 1, 0, [0])]]


def test_what_arrived_last_is_merged_before_the_segment_ends():
    pair = Pair()
    pair.tape.wake(1.0, 0, [1])
    pair.tape.deliver(1.0, 1, 0)

    assert tasks(pair.plan()) == [[(0, 0, 0, 0, [])], [(1, 1, 1, -1, [0])]]


def test_a_message_may_arrive_in_a_later_segment():
    pair = Pair()
    pair.tape.wake(1.0, 0, [1])
    pair.plan()
    pair.tape.wake(2.0, 0, [])
    pair.tape.deliver(3.0, 1, 0)

    plan = pair.plan()

    assert tasks(plan) == [[(1, 1, 1, -1, [0]), (0, 0, 2, 1, [])]]
    assert plan.program.merge_row.tolist() == [0]


def test_the_row_of_a_lost_message_is_used_again():
    pair = Pair()
    for time in range(10):
        pair.tape.wake(float(time), 0, [1])
        pair.tape.drop(float(time), 1, time)
    pair.plan()

    assert pair.made.rows_used == 2


def test_released_rows_are_used_again():
    pair = Pair()
    for time in range(50):  # each version is on its way while the next one is made
        pair.tape.wake(float(time), 0, [1])
        if time:
            pair.tape.deliver(float(time), 1, time - 1)
            pair.tape.wake(float(time), 1, [])
    pair.plan()

    assert pair.made.rows_used <= 4


def test_one_row_carries_all_messages_of_a_push_until_the_last_is_merged():
    pair = Pair(n_users=3)
    pair.tape.wake(1.0, 0, [1, 2])  # both messages carry row 0
    pair.tape.deliver(1.0, 1, 0)
    pair.tape.wake(1.5, 1, [])
    pair.tape.wake(2.0, 0, [])  # row 0 is on its way to node 2
    plan = pair.plan()

    assert tasks(plan) == [[(0, 0, 0, 0, [])], [(1, 1, 1, 0, [0]), (0, 0, 3, 1, [])]]
    assert plan.program.merge_row.tolist() == [0]


def test_a_wave_begins_with_its_costliest_task():
    pair = Pair(n_users=4)  # cost of a node: 0, 1, 2, 0
    for node in range(4):
        pair.tape.wake(1.0, node, [])

    assert [node for node, *_ in tasks(pair.plan())[0]] == [2, 1, 0, 3]


def test_a_merge_keeps_the_receivers_share_of_the_weights():
    pair = Pair(weights=[30, 10])
    pair.tape.wake(1.0, 0, [1])
    pair.tape.deliver(1.0, 1, 0)

    assert pair.plan().program.merge_keep.tolist() == [0.25]


def test_models_without_weight_change_nothing():
    pair = Pair(weights=[0, 0])
    pair.tape.wake(1.0, 0, [1])
    pair.tape.deliver(1.0, 1, 0)

    assert pair.plan().program.merge_keep.tolist() == [1.0]


def test_a_coordinator_averages_by_the_weights_of_the_answers():
    control = make_test_protocol("fedavg", 3, rounds=1)
    segments, inline = record_tape(control)
    made = make_test_planner(control, inline=inline, weights=[1, 2, 5])

    keep = made.plan(segments[0]).program.merge_keep[-3:]

    np.testing.assert_allclose(keep, [0, 1 / 3, 3 / 8])


def test_a_pool_sees_the_copies_of_a_push_once():
    pair = Pair(n_users=3, pools=[{1, 2}])
    pair.tape.wake(1.0, 0, [1, 2])
    pair.tape.deliver(1.0, 1, 0)
    pair.tape.deliver(1.0, 2, 1)
    pair.tape.wake(2.0, 0, [2])
    pair.tape.deliver(2.0, 2, 2)
    plan = pair.plan()

    assert plan.pool_deliveries.message.tolist() == [0, 2]
    assert plan.pool_deliveries.victim.tolist() == [0, 0]


def test_early_merging_keeps_the_rows_few_and_the_models_the_same():
    few, many = (
        make_test_planner(make_test_protocol("rand-gossip", 8, wakes=30), inline=True, spare_rows=spare)
        for spare in (0, 100)
    )
    segments, _ = record_tape(make_test_protocol("rand-gossip", 8, wakes=30))
    found = []
    for made in (few, many):
        plans = ShuffledPlanRunner(8)
        plans.run(made.plan(segments[0]), made.capacity)
        found.append(plans.rows[made.current_rows])

    assert few.rows_used < many.rows_used
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(("law", "latency", "wakes"), [("constant", 1000.0, 40), ("exponential", 20.0, 300)])
def test_rows_grow_in_the_middle_of_a_segment(law, latency, wakes):
    """Four nodes begin with 4 + 0 + 16 + 64 = 84 rows; 4 * 40 versions or more are made to wait at once.

    With random latencies some of the rows are free again, and the ring of free rows has turned, when it grows.
    """
    control = make_test_protocol("rand-gossip", 4, wakes=wakes)
    segments, inline = record_tape(control, distribution=law, latency=latency)
    made = make_test_planner(control, inline=inline, spare_rows=0)
    plans, naive = ShuffledPlanRunner(4), NaiveInterpreter(control)
    before = made.capacity

    plans.run(made.plan(segments[0]), made.capacity)
    naive.play(segments[0])

    assert before < 4 * 40 <= made.rows_used <= made.capacity
    np.testing.assert_array_equal(plans.rows[made.current_rows], naive.values)


@pytest.mark.parametrize(
    "special", [{}, {"inboxes": [1, 12], "rewriting": [0, 1, 4]}], ids=["plain", "special"]
)
@pytest.mark.parametrize("latency", [0.0, 0.4])
@pytest.mark.parametrize("name", ["rand-gossip", "fedavg"])
def test_the_compiled_loop_makes_the_same_plans(name, latency, special):
    if name == "rand-gossip":
        special = {key: [node for node in nodes if node < 12] for key, nodes in special.items()}
    elif special:
        special = {**special, "inboxes": [12]}
    options = {"wakes": 20} if name == "rand-gossip" else {"rounds": 10, "participation": 0.6}
    segments, inline = record_tape(
        make_test_protocol(name, 12, **options), latency=latency, loss=0.1, every=3
    )
    found = []
    for expected_messages in (0, SMALL):
        made = make_test_planner(
            make_test_protocol(name, 12, **options),
            inline=inline,
            spare_rows=2,
            pools=[{0, 1, 2}, {3}],
            expected_messages=expected_messages,
            **special,
        )
        found.append([flat(made.plan(segment)) for segment in segments])

    for plain, fast in zip(*found, strict=True):
        assert [part.tobytes() for part in plain] == [part.tobytes() for part in fast]


def flat(plan):
    """Return the arrays of a plan."""
    parts = [getattr(plan.program, field.name) for field in dataclasses.fields(plan.program)]
    parts += [getattr(plan.pool_deliveries, field.name) for field in dataclasses.fields(plan.pool_deliveries)]
    return [*parts, plan.order, plan.task_offsets, plan.pool_delivery_offsets]


def shares_after_three_arrivals(average, merge, *, wakes_between=False):
    """Return the shares of node 3 itself and of nodes 0, 1 and 2, from which it receives a model each."""
    control = make_test_protocol("rand-gossip", 4, fanout=1, average=average, merge=merge, view={"size": 1})
    made, tape = make_test_planner(control, inline=False, weights=[1, 2, 4, 3]), Tape()
    for node in range(3):
        tape.wake(1.0 + node, node, [3])
        tape.deliver(1.5 + node, 3, node)
        if wakes_between and node < 2:
            tape.wake(1.7 + node, 3, [])
    shares = np.array([1.0, 0.0, 0.0, 0.0])
    program = made.plan(tape.cut()).program
    for message in range(3):
        [entry] = np.flatnonzero(program.merge_message == message)
        keep = program.merge_keep[entry]
        shares *= keep
        shares[1 + message] += 1 - keep
    return shares


@pytest.mark.parametrize(
    ("average", "merge", "expected"),
    [
        ("pairwise", "mean", [1 / 8, 1 / 8, 1 / 4, 1 / 2]),
        ("pairwise", "samples", [3 / 4 * 3 / 5 * 3 / 7, 1 / 4 * 3 / 5 * 3 / 7, 2 / 5 * 3 / 7, 4 / 7]),
        ("all", "mean", [1 / 4, 1 / 4, 1 / 4, 1 / 4]),
        ("all", "samples", [0.3, 0.1, 0.2, 0.4]),
    ],
)
def test_averages_of_all_are_the_mean_by_weights_and_pairwise_ones_fade(average, merge, expected):
    np.testing.assert_allclose(shares_after_three_arrivals(average, merge), expected, rtol=1e-6)


def test_a_wake_begins_the_average_anew():
    found = shares_after_three_arrivals("all", "mean", wakes_between=True)
    np.testing.assert_allclose(found, [1 / 8, 1 / 8, 1 / 4, 1 / 2], rtol=1e-6)


def test_a_node_that_is_reset_forgets_the_weight_of_what_had_arrived():
    control = make_test_protocol("rand-gossip", 2, fanout=1, average="all", merge="mean", view={"size": 1})
    made, tape = make_test_planner(control, inline=False, keeps_first=True), Tape()
    tape.wake(1.0, 0, [1])
    tape.deliver(1.2, 1, 0)
    tape.wake(2.0, 0, [1])
    tape.deliver(2.2, 1, 1)
    program = made.plan(insert_resets(tape.cut(), np.array([1.5]), np.array([1]))).program
    np.testing.assert_allclose(program.merge_keep[np.argsort(program.merge_message)], [1 / 2, 1 / 2])
