"""Local updates as stacks of tensors: how wide they are, and what fills them up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gossiprec.arrays import I32, I64, U32
from gossiprec.compute.executors.tensors import are_lists, length_of, padded_width
from gossiprec.compute.train.node_settings import Kind
from gossiprec.feeds.base import Columns


def width_of(samples: Columns) -> int:
    """Return for how many samples there is room where some are computed; none for none."""
    if not samples:
        return 0
    return length_of(samples) if are_lists(samples) else int(padded_width(length_of(samples)))


@dataclass(frozen=True)
class Stack:
    """Local updates to run side by side, those with most batches first.

    Attributes
    ----------
    node, target : ndarray of int64, shape (n_tasks,)
    keys : ndarray of uint32, shape (n_tasks,), or None
        For rounding what was trained.
    n_steps : ndarray of int64, shape (n_tasks,)
        Batches of each task, all epochs together.
    columns : dict of str to ndarray, shape (n_tasks, n_steps[0], width)
        Samples, and their ``weights``: 0 is padding.
    drawn : dict of str to ndarray, shape (n_tasks, n_steps[0], ...)
        What else is drawn for each step.
    kind : Kind
        How all of them train.
    """

    node: I64
    target: I64
    keys: U32 | None
    n_steps: I64
    columns: Columns
    drawn: Columns
    kind: Kind

    @classmethod
    def pad(
        cls, node: I32, target: I32, keys: U32 | None, lessons: list[list[tuple[Columns, Columns]]], width: int,
        kind: Kind,
    ) -> Stack:  # fmt: skip
        """Pad each task's batches to `width`."""
        n_steps = np.array([len(steps) for steps in lessons], np.int64)
        shape, (samples, of_step) = (len(lessons), int(n_steps.max())), lessons[0][0]
        columns = {
            name: np.zeros((*shape, width, *column.shape[1:]), column.dtype)
            for name, column in samples.items()
        }
        drawn = {name: np.zeros((*shape, *one.shape), one.dtype) for name, one in of_step.items()}
        columns["weights"] = np.zeros((*shape, width), np.float32)
        for t, steps in enumerate(lessons):
            for k, (batch, of_step) in enumerate(steps):
                for name, column in batch.items():
                    columns[name][t, k, : len(column)] = column
                for name, one in of_step.items():
                    drawn[name][t, k] = one
                columns["weights"][t, k, : length_of(batch)] = 1.0
        return cls(node.astype(np.int64), target.astype(np.int64), keys, n_steps, columns, drawn, kind)
