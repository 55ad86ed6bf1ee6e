"""What travels between shards: the rows that others merge, each version once, ahead of the wave that reads it."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.errors import ShardLostError
from gossiprec.compute.plan.program import ExecutionPlan, PoolDeliveries, Program
from gossiprec.compute.shards import InProcessChannel, Mailbox, NodePartition, RowRouter

NONE = np.zeros(0, np.int32)


def plan_of(*waves, sighted=()):
    """Return a plan of (node, target row, rows merged) in waves; a node reads its own row.

    `sighted` are (wave, row) that a pool sees.
    """
    tasks = [(wave, *task) for wave, some in enumerate(waves) for task in some]
    merged = [rows for *_, rows in tasks]
    offsets = np.cumsum([0, *map(len, merged)])
    columns = [np.array(column, np.int32) for column in zip(*[task[:3] for task in tasks], strict=True)]
    wave, node, target = columns
    rows = np.concatenate([NONE, *merged]).astype(np.int32)
    program = Program(node, node, target, node, offsets, rows, np.full(len(rows), 0.5, np.float32), rows)
    edges, seen = np.arange(len(waves) + 1), np.array([w for w, _ in sighted], np.int64)
    row = np.array([r for _, r in sighted], np.int32)
    none = np.zeros(len(row), np.int32)
    return ExecutionPlan(
        program, np.arange(len(tasks)), np.searchsorted(wave, edges), PoolDeliveries(none, none, row, none),
        np.searchsorted(seen, edges),
    )  # fmt: skip


def routes(number, of=(0, 0, 1, 1), n=2):
    return RowRouter(NodePartition(np.array(of), n, number), keeps_first=False)


def sent(route):
    """Return (due, shard, wave, rows) of all that leaves."""
    found = [(due, b.shard, b.wave, b.rows.tolist()) for due, some in route.outgoing.items() for b in some]
    return sorted(found)


def came(route):
    """Return (shard, wave, rows) of all that comes in."""
    return [(b.shard, b.wave, b.rows.tolist()) for wave in route.waves for b in wave.incoming]


def test_what_another_shard_merges_is_sent_and_nothing_else():
    plan = plan_of([(0, 0, [1]), (2, 2, [1, 3])])
    there, here = routes(1).shard_plan(plan), routes(0).shard_plan(plan)

    assert sent(here) == [(0, 1, 0, [1])]
    assert came(there) == [(0, 0, [1])]
    assert sent(there) == came(here) == []


def test_tasks_wait_only_for_what_comes_in():
    route = routes(1).shard_plan(plan_of([(2, 2, [1]), (3, 3, [2])]))

    assert route.waves[0].ready.tolist() == [1]
    assert route.waves[0].waiting.tolist() == [0]


def test_a_version_travels_once_until_it_is_written_again():
    here = routes(0)
    plan = plan_of([(2, 2, [0])], [(3, 3, [0])], [(0, 0, [])], [(2, 2, [0])])

    assert sent(here.shard_plan(plan)) == [(0, 1, 0, [0]), (3, 1, 3, [0])]
    assert sent(here.shard_plan(plan_of([(3, 3, [0])]))) == []


def test_rows_leave_a_wave_ahead_or_as_soon_as_they_are_written():
    plan = plan_of([(0, 0, [])], [(1, 1, [])], [(2, 2, [0])], [(3, 3, [1])], [(0, 0, [])], [(3, 3, [0])])

    assert sent(routes(0).shard_plan(plan)) == [(1, 1, 2, [0]), (2, 1, 3, [1]), (5, 1, 5, [0])]


def test_a_copy_is_outdated_when_its_owner_writes_again_and_a_row_of_one_s_own_never():
    plan = plan_of([(2, 2, [0])], [(0, 0, []), (1, 1, []), (3, 3, [])], [(0, 0, [])])

    assert [wave.outdated.tolist() for wave in routes(1).shard_plan(plan).waves] == [[], [0], []]
    assert [wave.outdated.tolist() for wave in routes(0).shard_plan(plan).waves] == [[], [], []]


def test_what_pools_see_comes_to_shard_0():
    plan = plan_of([(0, 0, [])], sighted=[(0, 3)])

    assert came(routes(0).shard_plan(plan)) == [(1, 0, [3])]
    assert sent(routes(1).shard_plan(plan)) == [(0, 0, 0, [3])]


def test_a_row_belongs_to_whom_it_was_written_by_last():
    here = routes(0)
    here.shard_plan(plan_of([(2, 4, [])]))

    assert here.last_writing_shard(np.array([0, 2, 4])).tolist() == [0, 1, 1]
    assert here.holds(np.array([0, 2, 4])).tolist() == [True, False, False]


@pytest.mark.parametrize("seed", range(5))
def test_what_one_sends_is_what_the_other_expects(seed):
    rng = np.random.default_rng(seed)
    of = rng.integers(0, 3, 8)
    each = [routes(number, of, 3) for number in range(3)]
    for _ in range(3):
        waves = [
            [(int(node), int(node), rng.integers(0, 8, 2).tolist()) for node in rng.permutation(8)[:3]]
            for _ in range(4)
        ]
        found = [some.shard_plan(plan_of(*waves, sighted=[(1, 5), (2, 0)])) for some in each]
        out = sorted((me, *rest) for me, route in enumerate(found) for _, *rest in sent(route))
        due = sorted(
            (shard, me, wave, rows) for me, route in enumerate(found) for shard, wave, rows in came(route)
        )
        assert out == due


def test_whoever_waits_for_a_shard_that_has_died_is_told():
    mailboxes = [Mailbox(), Mailbox()]
    InProcessChannel(1, mailboxes).send(0, ("rows", 0), "came before")
    mailboxes[0].fail(ShardLostError(1, "killed"))
    mailboxes[0].fail(ShardLostError(0, "a later reason"))
    here = InProcessChannel(0, mailboxes)

    assert here.receive(1, ("rows", 0)) == "came before"
    with pytest.raises(ShardLostError, match="shard 1 died: killed"):
        here.receive(1, ("rows", 1))
