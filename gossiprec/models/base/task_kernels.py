"""The compiled loop over tasks, for any model: merges and local updates, one task after the other.

The loop is a template: :func:`gossiprec.native.jit.specialise` puts a model's own functions in place of the stubs of
this module. A model has one specialisation for each way of training.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gossiprec.native.jit import NO_DENORMALS, borrow, specialise, swap_float_mode
from gossiprec.numerics.flat_ops import range_is_finite


def new_workspace(most, versions, rule, sizes, options):
    """Stand in for the model's: return working arrays for nodes with up to `most` positives."""
    raise NotImplementedError


def merge_task(index, columns, versions, sizes, merging, options, space):
    """Stand in for the model's: leave the merged version in the task's target row."""
    raise NotImplementedError


def train_task(index, columns, versions, samples, rule, sizes, options, space):
    """Stand in for the model's: run the task's local update, in place on its target row."""
    raise NotImplementedError


@borrow
def skip_merge(index, columns, versions, sizes, merging, options, space):
    """Merge nothing: another kernel merged before."""


@borrow
def max_positives(tasks, columns, samples):
    """Return the largest number of positives of a node that trains in the tasks."""
    most = 0
    for index in tasks:
        if columns.update[index] >= 0:
            node = columns.node[index]
            most = max(most, samples.offsets[node + 1] - samples.offsets[node])
    return most


@borrow
def is_finite(index, columns, versions, sizes):
    """Return whether the task's target row is finite."""
    return range_is_finite(versions.rows, np.int64(columns.target[index]) * sizes.width, sizes.width)


def run_tasks(tasks, columns, versions, samples, rule, sizes, merging, options):
    """Run tasks one after the other (see :class:`gossiprec.compute.plan.program.Program`).

    Parameters
    ----------
    tasks : ndarray of int64
    columns : TaskColumns
    versions : Versions
    samples : Samples
    rule : TrainingRule
    sizes : Sizes
    merging : NamedTuple, number or None
        Inputs of the model's merges. If None, the machine code has no part for merges.
    options : NamedTuple or None
        Further inputs of the model, such as the settings of nodes.
    """
    mode = swap_float_mode(NO_DENORMALS)
    space = new_workspace(max_positives(tasks, columns, samples), versions, rule, sizes, options)
    for index in tasks:
        merge_task(index, columns, versions, sizes, merging, options, space)
        node = columns.node[index]
        trains = columns.update[index] >= 0 and not columns.refused[index]
        if trains and samples.offsets[node + 1] > samples.offsets[node]:
            train_task(index, columns, versions, samples, rule, sizes, options, space)
            columns.finite[index] = is_finite(index, columns, versions, sizes)
    swap_float_mode(mode)


@functools.cache
def specialise_tasks(workspace: Any, train: Any, merge: Any = skip_merge) -> Any:
    """Return the loop with a model's own functions in place."""
    return specialise(run_tasks, new_workspace=workspace, train_task=train, merge_task=merge)
