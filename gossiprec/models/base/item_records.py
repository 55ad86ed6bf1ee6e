"""Records of items: the rows that a local update touches, with their moments and gradients.

A touched item is one *record* ``[theta | m | v | gradient]`` in a small working set while its node trains. Workspaces
have the arrays `items`, `record_of`, `held`, `touched`, `at_step`, `records`, `tables` and `moves`
(:class:`gossiprec.models.base.template_kernels.TemplateWorkspace` describes them).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import float32

from gossiprec.base.arrays import F32
from gossiprec.native.jit import borrow, copy_floats
from gossiprec.numerics.lazy_adam import advance_record, advance_rows, fill_moves, fill_tables, move_record
from gossiprec.numerics.merge import narrow_row, widen_row


class NodeRow(NamedTuple):
    """A model version or its item table, and Adam's moments of it."""

    theta: F32
    first: F32
    second: F32


@borrow
def load_record(item, count, begin, dim, row, adam, space):
    """Copy an item's row into a record if it has none; return the number of records, which was `count`."""
    if space.record_of[item] >= 0:
        return count
    records, low, at = space.records, begin + np.int64(item) * dim, count * 4 * dim
    space.record_of[item] = count
    space.held[count] = item
    widen_row(records, at, row.theta, low, dim)
    if adam:
        copy_floats(records, at + dim, row.first, low, dim)
        copy_floats(records, at + 2 * dim, row.second, low, dim)
    return count + 1


@borrow
def store_records(count, begin, dim, row, key, adam, space):
    """Copy the records back and clear them; numbers of float16 are rounded by `key`."""
    records = space.records
    for c in range(count):
        item = space.held[c]
        space.record_of[item] = -1
        low, at = begin + item * dim, c * 4 * dim
        narrow_row(row.theta, low, low, records, at, dim, key)
        if adam:
            copy_floats(row.first, low, records, at + dim, dim)
            copy_floats(row.second, low, records, at + 2 * dim, dim)


@borrow
def touch_record(c, count, step, space, dim, adam, one_segment, epsilon):
    """Bring a record up to date and list it if the batch has not touched it; return the number of listed records."""
    at_step, records = space.at_step, space.records
    if at_step[c] < 0:
        return count
    if one_segment and at_step[c] < step:
        move_record(records, c, dim, space.moves, at_step[c], epsilon)
    elif adam and at_step[c] < step:
        advance_record(records, c, dim, space.tables, at_step[c], step, epsilon)
    at_step[c] = -1
    space.touched[count] = c
    return count + 1


@borrow
def begin_epoch(n_steps, done, count, table, space, rule):
    """Move the rows that no sample touches, all steps in one pass; return whether one table covers the epoch."""
    one_segment = False
    if rule.adam:
        one_segment = fill_tables(space.tables, done, n_steps, rule.rate, rule.beta1, rule.beta2) == 1
        advance_rows(table.theta, table.first, table.second, space.tables, 0, n_steps, float32(rule.epsilon))
    for c in range(count):
        space.at_step[c] = 0
    return one_segment


@borrow
def end_epoch(n_steps, count, space, dim, rule, one_segment):
    """Bring all records up to date."""
    records, at_step, tables, epsilon = space.records, space.at_step, space.tables, float32(rule.epsilon)
    if one_segment:
        fill_moves(tables, n_steps, space.moves)
    for c in range(count if rule.adam else 0):
        if one_segment and at_step[c] < n_steps:
            move_record(records, c, dim, space.moves, at_step[c], epsilon)
        elif at_step[c] < n_steps:
            advance_record(records, c, dim, tables, at_step[c], n_steps, epsilon)
