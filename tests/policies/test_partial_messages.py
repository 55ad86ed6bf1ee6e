"""Messages of which some numbers are not sent: chunks, top-k, random-k, quantize, and what receivers do with them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from gossiprec.adversaries.attacks.observations import MergeDeliveries, Merges
from gossiprec.base.errors import ScenarioError
from gossiprec.compute.message_encoder import PushLog
from gossiprec.compute.messages import MessagePayload, OutgoingTransforms, PushContext
from gossiprec.compute.partial_messages import PartialMessages, reduce_parts
from gossiprec.compute.plan.program import Program
from gossiprec.compute.plan.tape import Behaviour, Op, Tape
from gossiprec.defences import POLICIES
from gossiprec.emulation import prepare
from gossiprec.emulation.schemes.virtual_nodes import PartialViews
from gossiprec.models import MODELS
from gossiprec.rules.aggregators import Inbox, make_aggregator
from gossiprec.scenario import load_scenario
from gossiprec.testing import check_policy
from gossiprec.testing.tiny_runs import FEDERATED, GOSSIP, PERSONAL, run_to_end, tiny_scenario

NAN = np.float32(np.nan)
LAYOUT = MODELS["mf"](MODELS["mf"].Options()).layout(6)


def scenario(*policies, protocol=GOSSIP, **sections):
    return load_scenario(
        tiny_scenario(policies=[{"nodes": "all", **p} for p in policies], protocol=protocol, **sections)
    )


def payload(draw=0):
    row = np.random.default_rng(draw).normal(size=LAYOUT.row_size).astype(np.float32)
    return MessagePayload.of(row, LAYOUT, hides_user=False)


def push(size, *, number=0, receivers=(4, 2, 7), memory=None):
    memory = np.zeros(size, np.float32) if memory is None else memory
    return PushContext(
        1, 3, number, np.zeros(0, np.int32), 1, np.array(receivers), np.zeros(0, np.int64), memory
    )


def transform_of(name, behaviour=None, **options):
    policy = POLICIES[name](POLICIES[name].Options(**options), np.array([3]))
    policy.check_behaviour(behaviour or Behaviour((Op.TRAIN, Op.PUSH), (Op.BLEND,)))
    return policy.transform()


@pytest.mark.parametrize("cut", ["interleaved", "contiguous"])
def test_the_pieces_of_a_push_are_disjoint_and_cover_the_model(cut):
    chunks, whole = transform_of("chunks", pieces=3, cut=cut), payload()
    found = [chunks.encode(whole, None, push(len(whole.flat)), receiver) for receiver in (4, 2, 7)]

    assert (np.sum([each.sent for each in found], axis=0) == 1).all()
    assert all(each.size_bytes == 4 * each.sent.sum() + 8 for each in found)
    assert all((each.flat == whole.flat).all() for each in found)
    again = chunks.encode(whole, None, push(len(whole.flat)), 2)
    assert (again.sent == found[1].sent).all()  # a copy that the network makes is the same


def test_top_k_sends_the_largest_changes_and_remembers_the_others():
    version, base = payload(1), payload(2)
    change = version.flat - base.flat
    memory = np.zeros(len(change), np.float32)
    top = transform_of("top-k", k=5)

    sent = top.encode(version, base, push(len(change), memory=memory)).sent

    assert set(np.flatnonzero(sent)) == set(np.argsort(-np.abs(change))[:5])
    assert (memory == np.where(sent, np.float32(0), change)).all()
    without = top.encode(version, None, push(len(change), number=1, memory=memory)).sent
    assert set(np.flatnonzero(without)) == set(
        np.argsort(-np.abs(np.where(sent, 0, change)), kind="stable")[:5]
    )


def test_top_k_takes_the_first_of_equal_changes():
    whole = payload()
    even = whole.with_numbers(np.ones_like(whole.flat))
    base = even.with_numbers(np.zeros_like(even.flat))

    assert np.flatnonzero(
        transform_of("top-k", k=4).encode(even, base, push(len(even.flat))).sent
    ).tolist() == [0, 1, 2, 3]


def test_a_client_that_adopts_adds_what_it_has_not_sent():
    version, base = payload(1), payload(2)
    adopts = Behaviour((), (Op.ADOPT, Op.TRAIN, Op.PUSH))
    memory = np.ones(len(version.flat), np.float32)
    found = transform_of("random-k", adopts, share=1.0).encode(
        version, base, push(len(memory), memory=memory)
    )

    own = version.users.size
    assert (found.flat[:own] == version.flat[:own]).all()
    np.testing.assert_allclose(found.flat[own:], version.flat[own:] + 1, rtol=1e-5)
    assert not memory.any()


def test_random_k_does_not_depend_on_values_and_changes_with_the_push():
    chosen = transform_of("random-k", k=8)
    one, other = (chosen.encode(payload(d), None, push(len(payload().flat))).sent for d in (1, 2))
    later = chosen.encode(payload(1), None, push(len(payload().flat), number=1)).sent

    assert (one == other).all()
    assert one.sum() == later.sum() == 8
    assert (one != later).any()


def test_quantized_numbers_are_levels_between_the_extremes_and_keep_their_mean():
    whole, levels = payload(), transform_of("quantize", bits=2)
    found = np.array([levels.encode(whole, None, push(0, number=n)).items for n in range(400)])
    low, high = whole.items.min(), whole.items.max()

    np.testing.assert_allclose(np.unique(found.round(4)), np.linspace(low, high, 2**2), atol=1e-3)
    np.testing.assert_allclose(found.mean(axis=0), whole.items, atol=0.2 * (high - low) / 3)
    sized = levels.encode(whole, None, push(0))
    assert sized.size_bytes == -(-len(whole.flat) * 2 // 8) + 8 * sum(part.size > 0 for part in whole.parts)


def test_numbers_that_are_not_sent_keep_the_receivers_value():
    """One wave of a run, against the same merges in plain numpy: blends, and the mean over those that sent a number."""
    for protocol, policy in (
        (GOSSIP, {"name": "chunks", "pieces": 2}),
        ({**GOSSIP, "average": "all"}, {"name": "top-k"}),
    ):
        prepared = prepare(scenario(policy, protocol=protocol))
        arena, runner, seen = prepared.executor.work.arena, prepared.tape_runner(), []
        (merger,) = prepared.seams.schemes[0].steps if "average" not in protocol else [prepared.seams.reducer]
        original = merger.prepare

        def spy(program, tasks, arena=arena, original=original, seen=seen, prepared=prepared):
            expected = {int(t): merged_plainly(prepared, arena, program, int(t)) for t in tasks}
            written = original(program, tasks)
            for task, row in expected.items():
                if row is not None:
                    np.testing.assert_allclose(arena.rows[program.target[task]], row, rtol=2e-6, atol=1e-7)
                    seen.append(task)
            return written

        object.__setattr__(merger, "prepare", spy)
        for _ in prepared.schedule.play(runner.run_segment):
            pass
        assert len(seen) > 10


def merged_plainly(prepared, arena, program, task):
    entries = range(program.merge_offsets[task], program.merge_offsets[task + 1])
    if not len(entries):
        return None
    row, merged = arena.rows[program.source[task]].copy(), prepared.components.layout.merged
    rows = [arena.rows[program.merge_row[entry]].copy() for entry in entries]
    for entry, other in zip(entries, rows, strict=True):
        message, sender = program.merge_message[[entry]], program.merge_sender[[entry]]
        prepared.seams.schemes[0].messages.expand([other], slice(0, len(other)), message, sender)
    received = [other[merged] for other in rows]
    if (program.merge_keep[list(entries)] < 0).any():
        weights = [
            prepared.components.merge_weights[program.node[task]],
            *program.merge_weight[list(entries)],
        ]
        models = np.array([row[merged], *received])
        there = ~np.isnan(models)
        row[merged] = (np.where(there, models, 0) * np.array(weights)[:, None]).sum(0) / (
            there * np.array(weights)[:, None]
        ).sum(0)
        return row
    for entry, model in zip(entries, received, strict=True):
        keep = program.merge_keep[entry]
        row[merged] = np.where(np.isnan(model), row[merged], keep * row[merged] + (1 - keep) * model)
    return row


@pytest.mark.parametrize(
    ("policy", "train_on"),
    [
        ({"name": "chunks", "pieces": 2}, "wake"),
        ({"name": "top-k", "share": 0.3}, "wake"),
        ({"name": "top-k", "share": 0.3}, "receive"),
        ({"name": "random-k"}, "wake"),
    ],
)
@pytest.mark.cases(1)
def test_executors_agree_and_float16_runs(policy, train_on):
    run = tiny_scenario(policies=[{**policy, "nodes": "all"}], protocol={**GOSSIP, "train_on": train_on})
    rows = [run_to_end(run, name=name)[0] for name in ("reference", "batched", "fused")]
    models = [each.executor.store.load(each.planner.current_rows) for each in rows]

    for other in models[1:]:
        np.testing.assert_allclose(other, models[0], atol=1e-5)
    half = run_to_end(run, name="reference", storage="float16")[0]
    found = half.executor.store.load(half.planner.current_rows)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, models[0], atol=0.02)


@pytest.mark.parametrize(
    ("policy", "options"),
    [("quantize", {}), ("top-k", {"share": 0.3}), ("random-k", {"k": 9}), ("chunks", {"pieces": 2})],
)
@pytest.mark.full
def test_they_keep_the_contract_of_policies(policy, options):
    check_policy(POLICIES[policy], options)


@pytest.mark.parametrize("rule", ["mean", "median", "trimmed-mean"])
def test_rules_see_only_those_that_sent_a_number(rule):
    rows = np.array([[1, NAN, 3, NAN], [5, 2, NAN, NAN], [9, 4, 7, NAN]], np.float32)
    made = make_aggregator({"name": rule, "drop": 0} if rule == "trimmed-mean" else rule)
    own = np.full(4, 100, np.float32)

    found = reduce_parts(made, own, Inbox(rows, np.arange(3), np.ones(3)))

    assert found.tolist() == [5, 3, 5, 100]
    assert made.takes_parts
    assert not make_aggregator({"name": "krum", "byzantine": 1}).takes_parts


def test_observers_complete_what_they_receive():
    sends = PartialMessages(
        LAYOUT,
        OutgoingTransforms(LAYOUT, 2),
        np.array([False, True]),
        np.zeros(2, np.int64),
        np.zeros(0, np.int32),
    )
    views = PartialViews(sends, 1, np.full(LAYOUT.row_size, 7, np.float32))
    rows = np.ones((2, LAYOUT.row_size), np.float32)
    rows[0, LAYOUT.items.start], rows[0, 0] = NAN, NAN
    rows[1] = 3.0
    program = Program(
        np.zeros(1, np.int32), np.ones(1, np.int32), np.ones(1, np.int32), np.zeros(1, np.int32), np.array([0, 1]),
        np.zeros(1, np.int32), np.full(1, 0.5, np.float32), np.zeros(1, np.int32),
    )  # fmt: skip
    single, pool = rows.copy(), rows[:1].copy()

    views.complete_merges(
        MergeDeliveries(single, Merges.of(program), np.zeros(1, np.int64)), np.ones(1, np.int32)
    )
    views.complete(pool, np.zeros(1, np.int32), np.ones(1, np.int32), np.zeros(1, np.int32))

    assert single[0, [0, LAYOUT.items.start]].tolist() == [0, 3]
    assert pool[0, LAYOUT.items.start] == 7
    pool[0], pool[0, 1] = 2.0, NAN
    views.complete(pool, np.zeros(1, np.int32), np.ones(1, np.int32), np.zeros(1, np.int32))
    assert pool[0, 1] == 1  # as received before


def test_a_push_knows_its_round_its_receivers_and_its_cohort():
    behaviours = [Behaviour((), (Op.ADOPT, Op.TRAIN, Op.PUSH)), Behaviour((Op.PUSH,), (Op.POOL,))]
    log, tape = PushLog(np.array([True, True, True, False]), np.array([0, 0, 0, 1]), behaviours, 3), Tape()
    tape.wake(1.0, 3, [0, 2])
    tape.deliver(1.5, 2, 1, [3])
    log.read_segment(tape.cut())
    event = log.event(2, 0)

    assert (event.round, event.receivers.tolist(), event.cohort.tolist()) == (1, [3], [0, 2])
    restored = PushLog(np.array([True, True, True, False]), np.array([0, 0, 0, 1]), behaviours, 3)
    restored.restore(log.state())
    tape.wake(2.0, 3, [1])
    tape.deliver(2.5, 0, 0, [3])
    restored.read_segment(tape.cut())
    late = restored.event(0, 0)
    assert (late.round, late.cohort.tolist()) == (2, [0, 2])


def test_a_log_of_one_node_keeps_no_requests_to_others():
    behaviours = [Behaviour((), (Op.ADOPT, Op.TRAIN, Op.PUSH)), Behaviour((Op.PUSH,), (Op.POOL,))]
    log, tape = PushLog(np.array([False, False, True, False]), np.array([0, 0, 0, 1]), behaviours, 3), Tape()
    tape.wake(1.0, 3, [0, 2])
    log.read_segment(tape.cut())
    assert log.state()["asked"].tolist() == [[1, 0]]  # of both messages only that to node 2, and its cohort
    tape.deliver(1.5, 2, 1, [3])
    log.read_segment(tape.cut())
    assert log.event(2, 0).cohort.tolist() == [0, 2]
    assert not len(log.state()["asked"])


@pytest.mark.parametrize(
    ("policy", "protocol", "said"),
    [
        ({"name": "chunks", "pieces": 5}, GOSSIP, "its chunks do not cover its model"),
        ({"name": "chunks", "pieces": 2}, FEDERATED, "its chunks do not cover its model"),
        ({"name": "top-k", "k": 10**6}, GOSSIP, "k: found 1000000; expected at most"),
        ({"name": "random-k", "k": 10**6}, FEDERATED, "k: found 1000000; expected at most"),
        ({"name": "random-k", "k": 3, "share": 0.5}, GOSSIP, "found both share and k"),
        ({"name": "top-k"}, PERSONAL, "sends parts of models"),
        (
            {"name": "top-k"},
            {**FEDERATED, "merge": {"name": "krum", "byzantine": 1}},
            "krum compares whole models",
        ),
        ({"name": "top-k"}, {**FEDERATED, "server": "adam"}, "protocol.server computes with whole models"),
    ],
)
def test_bad_input_is_refused_with_one_message(policy, protocol, said):
    with pytest.raises(ScenarioError, match=said) as caught:
        prepare(scenario(policy, protocol=protocol))

    assert "\n" not in str(caught.value).strip() or "share" in policy


def test_memory_and_messages_by_receiver_exclude_each_other():
    with pytest.raises(ScenarioError, match="use only one of them on a node"):
        prepare(scenario({"name": "chunks", "pieces": 2}, {"name": "top-k"}))


def test_every_push_of_a_node_waits_for_the_one_before():
    """Pushes with memory are in different waves, even if the node's version does not change between them."""
    prepared = prepare(scenario({"name": "top-k"}, protocol={**GOSSIP, "train_on": "receive"}))
    plans, runner = [], prepared.tape_runner()
    plan = prepared.planner.plan
    object.__setattr__(prepared.planner, "plan", lambda segment: plans.append(plan(segment)) or plans[-1])
    for _ in prepared.schedule.play(runner.run_segment):
        pass

    for made in plans:
        for wave in range(len(made.task_offsets) - 1):
            tasks = made.order[made.task_offsets[wave] : made.task_offsets[wave + 1]]
            pushing = made.program.node[tasks[made.program.push[tasks] >= 0]]
            assert len(np.unique(pushing)) == len(pushing)


def test_a_transform_must_announce_that_numbers_are_missing():
    from gossiprec.compute.message_encoder import _check

    whole = payload()
    missing = dataclasses.replace(whole, sent=np.zeros(len(whole.flat), np.bool_))
    with pytest.raises(ScenarioError, match="set is_partial = True"):
        _check(missing, [part.shape for part in whole.parts], "mine", push(0), is_partial=False)
    wrong = dataclasses.replace(whole, sent=np.zeros(2, np.bool_))
    with pytest.raises(ScenarioError, match="expected a bool for each of its"):
        _check(wrong, [part.shape for part in whole.parts], "mine", push(0), is_partial=True)
