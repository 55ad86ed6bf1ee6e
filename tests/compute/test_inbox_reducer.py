"""Reducing one inbox, before each of the executors goes on."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.options import NoOptions
from gossiprec.compute.inbox_reducer import InboxReducer, ReceiverConfig
from gossiprec.compute.plan.program import Program
from gossiprec.rules.aggregators import Aggregator
from tests.compute.worlds import EVERY, World, make_executor, up_to_date


class Largest(Aggregator):
    """Takes the largest of each number, and notes what it was given."""

    def reduce(self, own, inbox):
        self.given = (own, inbox)
        return np.max([models.max(axis=0) for _, models in inbox.models(own)], axis=0)


def one_task(target, update=-1):
    """Node 1 has received rows 0, 2, 3, a discarded one of NaN in row 6, and mixes in row 4, of which 3/4 are kept."""
    return Program(
        node=np.array([1], np.int32),
        source=np.array([1], np.int32),
        target=np.array([target], np.int32),
        update=np.array([update], np.int32),
        merge_offsets=np.array([0, 5]),
        merge_row=np.array([0, 2, 6, 3, 4], np.int32),
        merge_keep=np.array([-1, -1, 1, -1, 0.75], np.float32),
        merge_message=np.arange(5, dtype=np.int32),
        merge_weight=np.array([1.0, 2, 9, 3, 9]),
    )


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("target", [1, 7])
def test_an_executor_goes_on_from_what_the_last_models_of_the_inbox_were_reduced_to(name, target):
    executor = make_executor(name, World().workload())
    arena, layout = executor.work.arena, executor.work.layout
    arena.rows[6] = np.nan
    before, rule, program = arena.rows.copy(), Largest(NoOptions()), one_task(target)
    reducing = InboxReducer({1: ReceiverConfig("largest", rule, 2, 0.5)}, arena, 0, np.zeros(5))

    program.continue_from(reducing.prepare(program, np.array([0])))
    executor.run(program, np.array([0]))
    up_to_date(arena)

    merged = layout.merged
    own, inbox = rule.given
    np.testing.assert_array_equal(own, before[1, merged])
    np.testing.assert_array_equal(inbox.rows[inbox.row_index, :], before[[2, 3], merged])
    assert inbox.weights.tolist() == [2, 3]
    assert inbox.own_weight == 0.5
    largest = np.maximum(before[2, merged], before[3, merged])
    np.testing.assert_array_equal(arena.rows[target, layout.users], before[1, layout.users])
    np.testing.assert_allclose(
        arena.rows[target, merged],
        0.75 * np.maximum(largest, before[1, merged]) + 0.25 * before[4, merged],
        rtol=1e-5,
        atol=1e-7,
    )
    others = np.delete(np.arange(len(before)), target)
    np.testing.assert_array_equal(arena.rows[others], before[others])


def test_nodes_without_an_inbox_are_left_alone():
    work, program = World().workload(), one_task(1)
    before = work.arena.rows.tobytes()

    receivers = {2: ReceiverConfig("largest", Largest(NoOptions()), None, 1.0)}
    written = InboxReducer(receivers, work.arena, 0, np.zeros(5)).prepare(program, np.array([0]))

    program.continue_from(written)

    assert work.arena.rows.tobytes() == before
    assert program.merge_keep.tolist() == [-1, -1, 1, -1, 0.75]
