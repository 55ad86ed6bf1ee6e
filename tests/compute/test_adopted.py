"""Which version a client adopts of those that it was sent."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.compute.plan.program import Program


def program_of(draw, n_tasks):
    """Draw tasks with up to four versions each, adopted or blended into others."""
    counts = draw.integers(0, 5, n_tasks)
    entries = int(counts.sum())
    return Program(
        node=np.arange(n_tasks, dtype=np.int32),
        source=draw.integers(100, 200, n_tasks).astype(np.int32),
        target=np.arange(n_tasks, dtype=np.int32),
        update=np.zeros(n_tasks, np.int32),
        merge_offsets=np.concatenate([[0], counts.cumsum()]),
        merge_row=draw.integers(0, 100, entries).astype(np.int32),
        merge_keep=draw.choice([0.0, 0.5, 1.0], entries).astype(np.float32),
        merge_message=np.arange(entries, dtype=np.int32),
    )


def adopted_last(program, task):
    found = program.source[task]
    for entry in range(program.merge_offsets[task], program.merge_offsets[task + 1]):
        if program.merge_keep[entry] == 0:
            found = program.merge_row[entry]
    return found


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_last_that_replaces_its_own_or_else_its_own(seed):
    draw = np.random.default_rng(seed)
    program = program_of(draw, 30)
    for tasks in (np.arange(30), np.sort(draw.choice(30, 7, replace=False)), np.zeros(0, np.int64)):
        assert program.adopted_rows(tasks).tolist() == [adopted_last(program, task) for task in tasks]
