"""Plans against a naive interpreter of the tape, on random small runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossiprec.compute.plan.tape import TapeEvent, insert_resets
from gossiprec.testing.tapes import (
    NaiveInterpreter,
    ShuffledPlanRunner,
    initial_models,
    make_test_planner,
    make_test_protocol,
    record_tape,
    waves,
)
from tests.protocols.talking import Talking

views = st.one_of(
    st.builds(lambda every: {"size": 2, "refresh": {"every": every}}, st.integers(1, 3)),
    st.just({"graph": {"family": "ring", "k": 2}}),
)
gossips = st.builds(
    lambda n, seed, reads, merge, view: make_test_protocol(
        "rand-gossip", n, seed, fanout=2, train_on=reads[0], average=reads[1], merge=merge, view=view, wakes=6
    ),
    st.integers(3, 7),
    st.integers(0, 2**32),
    st.sampled_from([("wake", "pairwise"), ("wake", "all"), ("receive", "pairwise")]),
    st.sampled_from(["samples", "mean"]),
    views,
)
fedavgs = st.builds(
    lambda n, seed, participation: make_test_protocol(
        "fedavg", n, seed, rounds=6, participation=participation
    ),
    st.integers(2, 6),
    st.integers(0, 2**32),
    st.sampled_from([0.4, 0.7, 1.0]),
)
talks = st.builds(
    lambda n, seed: make_test_protocol(Talking, n, seed, fanout=2, view={"size": 2}, wakes=4),
    st.integers(3, 7),
    st.integers(0, 2**32),
)
networks = st.fixed_dictionaries(
    {
        "distribution": st.sampled_from(["constant", "exponential"]),
        "latency": st.sampled_from([0.0, 0.3, 2.5]),
        "loss": st.sampled_from([0.0, 0.0, 0.3]),
        "every": st.sampled_from([0.7, 2.0, 100.0]),
    }
)


@st.composite
def runs(draw):
    """Draw a protocol, its tape, and up to two pools of observers."""
    control = draw(st.one_of(gossips, fedavgs, talks))
    segments, inline = record_tape(control, **draw(networks))
    members = st.sets(st.integers(0, control.n_nodes - 1), min_size=1)
    return control, segments, inline, draw(st.lists(members, max_size=2))


def per_pair(seen):
    """Return what each pool saw of each victim, in order."""
    pairs = {}
    for pool, victim, *what in seen:
        pairs.setdefault((int(pool), int(victim)), []).append([float(x) for x in what])
    return pairs


def delivered(segments, inline):
    if inline:
        return np.arange(sum(len(s.receiver) for s in segments))
    ignored = 4  # the number of these operations of the protocol that talks
    return np.concatenate([s.message[(s.kind == TapeEvent.DELIVER) & (s.slots != ignored)] for s in segments])


@settings(max_examples=150, deadline=None, derandomize=True)
@given(run=runs(), spare=st.sampled_from([0, 1, 100]), order=st.integers(0, 9))
@pytest.mark.full
def test_waves_in_any_order_inside_give_what_one_event_at_a_time_gives(run, spare, order):
    control, segments, inline, pools = run
    plans, naive = ShuffledPlanRunner(control.n_nodes, order), NaiveInterpreter(control, pools, inline=inline)
    made = make_test_planner(control, inline=inline, spare_rows=spare, pools=pools)
    for segment in segments:
        plan = made.plan(segment)
        plans.run(plan, made.capacity)
        naive.play(segment)

        np.testing.assert_array_equal(plans.rows[made.current_rows], naive.values)
        assert made.update_counts.tolist() == naive.updates
    assert plans.received == naive.received
    assert per_pair(plans.seen) == per_pair(naive.seen)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(run=runs(), spare=st.sampled_from([0, 1, 100]))
@pytest.mark.full
def test_nothing_in_a_wave_reads_or_writes_what_a_task_of_it_writes(run, spare):
    control, segments, inline, pools = run
    made = make_test_planner(control, inline=inline, spare_rows=spare, pools=pools)
    for plan in map(made.plan, segments):
        program, seen = plan.program, plan.pool_deliveries
        for tasks, pool_deliveries in waves(plan):
            written = program.target[tasks].tolist()
            read = [seen.row[k] for k in pool_deliveries]
            for t in tasks:
                read += program.merge_row[program.merge_offsets[t] : program.merge_offsets[t + 1]].tolist()
                read += [program.source[t]] if program.source[t] != program.target[t] else []

            assert len(set(written)) == len(written)
            assert not set(written) & set(read)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(run=runs(), spare=st.sampled_from([0, 1, 100]))
@pytest.mark.full
def test_every_delivered_message_is_merged_once_and_a_lost_one_never(run, spare):
    control, segments, inline, pools = run
    made = make_test_planner(control, inline=inline, spare_rows=spare, pools=pools)

    merged = np.concatenate([made.plan(segment).program.merge_message for segment in segments])

    assert np.sort(merged).tolist() == np.sort(delivered(segments, inline)).tolist()


@settings(max_examples=100, deadline=None, derandomize=True)
@given(run=runs())
@pytest.mark.full
def test_no_victim_is_sighted_twice_by_a_pool_in_one_wave(run):
    control, segments, inline, pools = run
    made = make_test_planner(control, inline=inline, pools=pools)
    for plan in map(made.plan, segments):
        for _, pool_deliveries in waves(plan):
            pairs = [(plan.pool_deliveries.pool[k], plan.pool_deliveries.victim[k]) for k in pool_deliveries]

            assert len(set(pairs)) == len(pairs)


@pytest.mark.parametrize("train_on", ["wake", "receive"])
@pytest.mark.parametrize("spare", [0, 3, 40])
@pytest.mark.cases(3)
def test_rows_stay_within_what_nodes_and_waiting_versions_need(spare, train_on):
    """Bound: queued versions are merged as soon as `spare` rows beside the nodes' are in use and an eighth of
    the nodes, 2, has something queued. The event that brings it there takes up to fanout + 1 = 3 rows, and
    merging up to one row a node.
    """
    n = 16
    control = make_test_protocol("rand-gossip", n, fanout=2, train_on=train_on, view={"size": 2}, wakes=200)
    made = make_test_planner(control, inline=True, spare_rows=spare)
    segments, _ = record_tape(control, every=20)

    used = [(made.plan(segment), made.rows_used)[1] for segment in segments]

    assert used[-1] <= n + max(spare, 2) + 3 + n


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    control=st.one_of(gossips, fedavgs, talks),
    network=networks,
    spare=st.sampled_from([0, 1, 100]),
    resets=st.lists(st.tuples(st.floats(0.0, 6.0), st.integers(0, 2)), max_size=8).map(sorted),
)
@pytest.mark.full
def test_nodes_that_are_reset_go_on_from_their_first_version(control, network, spare, resets):
    """Against the naive interpreter, with the waves' work in a random order; every cut keeps the first versions."""
    segments, inline = record_tape(control, **network, inline=False)
    naive, plans = NaiveInterpreter(control), ShuffledPlanRunner(control.n_nodes)
    made = make_test_planner(control, inline=inline, spare_rows=spare, keeps_first=True)
    n, done = control.n_nodes, 0
    for number, segment in enumerate(segments, 1):
        due = [reset for reset in resets[done:] if reset[0] <= number * network["every"]]
        done += len(due)
        segment = insert_resets(
            segment, np.array([time for time, _ in due]), np.array([node for _, node in due], np.int32)
        )
        naive.play(segment)
        plan = made.plan(segment)
        if number == 1:
            plans.rows = np.concatenate([plans.rows, initial_models(n)])
        plans.run(plan, max(made.capacity, len(plans.rows)))
        np.testing.assert_allclose(plans.rows[made.current_rows], naive.values, rtol=1e-6)
        np.testing.assert_array_equal(plans.rows[n : 2 * n], initial_models(n))
    assert plans.received == naive.received


steered = st.builds(
    lambda n, seed, mixing, late: make_test_protocol(
        "fedavg", n, seed, rounds=6, participation=0.7, round={"deadline": 1.0, "give_up": 2.0, "late": late},
        aggregation={"name": "synchronous", "mixing": mixing, "staleness": {"law": "polynomial"}},
    ),
    st.integers(2, 6),
    st.integers(0, 2**32),
    st.sampled_from([None, 0.6]),
    st.sampled_from(["count", "discard"]),
)  # fmt: skip


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    control=st.one_of(gossips, fedavgs, steered),
    network=networks,
    spare=st.sampled_from([0, 1, 100]),
    share=st.sampled_from([0.3, 1.0]),
    resets=st.lists(st.tuples(st.floats(0.0, 6.0), st.integers(0, 2)), max_size=4).map(sorted),
)
@pytest.mark.full
def test_inboxes_are_reduced_when_a_model_is_read_and_never_before(control, network, spare, share, resets):
    """Against the naive interpreter, which knows neither cuts nor limits of memory; observers see all that was read."""
    inboxes = (
        {control.n_users} if control.has_coordinator else set(range(max(1, round(share * control.n_users))))
    )
    segments, inline = record_tape(control, **network, inline=False)
    naive, plans = (
        NaiveInterpreter(control, inboxes=inboxes, rewriting=[0]),
        ShuffledPlanRunner(control.n_nodes, inboxes=inboxes),
    )
    made = make_test_planner(
        control, inline=inline, spare_rows=spare, keeps_first=True, inboxes=inboxes, rewriting=[0]
    )
    n, done = control.n_nodes, 0
    for number, segment in enumerate(segments, 1):
        due = [reset for reset in resets[done:] if reset[0] <= number * network["every"]]
        done += len(due)
        segment = insert_resets(
            segment, np.array([time for time, _ in due]), np.array([node for _, node in due], np.int32)
        )
        naive.play(segment)
        plan = made.plan(segment)
        if number == 1:
            plans.rows = np.concatenate([plans.rows, initial_models(n)])
        plans.run(plan, max(made.capacity, len(plans.rows)))
        np.testing.assert_allclose(plans.rows[made.current_rows], naive.values, rtol=1e-6)
    for node, (seen, all_of_it) in enumerate(zip(plans.received, naive.received, strict=True)):
        assert seen == all_of_it[: len(seen)]
        assert node in inboxes or len(seen) == len(all_of_it)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    run=runs(), spare=st.sampled_from([0, 1, 100]), share=st.sampled_from([0.3, 1.0]), order=st.integers(0, 9)
)
@pytest.mark.full
def test_what_rewriting_nodes_push_is_a_row_of_its_own(run, spare, share, order):
    """Against the naive interpreter: what others receive is encoded; the node's own model is not."""
    control, segments, inline, pools = run
    rewriting = range(max(1, round(share * control.n_users)))
    plans, naive = (
        ShuffledPlanRunner(control.n_nodes, order),
        NaiveInterpreter(control, pools, inline=inline, rewriting=rewriting),
    )
    made = make_test_planner(control, inline=inline, spare_rows=spare, pools=pools, rewriting=rewriting)
    for segment in segments:
        plan = made.plan(segment)
        plans.run(plan, made.capacity)
        naive.play(segment)

        np.testing.assert_array_equal(plans.rows[made.current_rows], naive.values)
        assert made.push_counts[list(rewriting)].tolist() == list(naive._pushes.values())
    assert plans.received == naive.received
    assert per_pair(plans.seen) == per_pair(naive.seen)
