"""Fitting of many user rows to frozen items and weights, for observers of models without kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from gossiprec.base.arrays import F32, I64
from gossiprec.compute.executors.tensors import (
    Tensors,
    batch_length,
    batch_shape_keys,
    constants_to_tensors,
    empty_stack,
    fill_stack,
    group_by_width,
    holds_item_lists,
    padded_width,
    table_views,
    to_tensor,
)
from gossiprec.models.base import Model
from gossiprec.models.base.parameter_blocks import Layout
from gossiprec.models.feeds.base import Columns
from gossiprec.numerics.torch_setup import single_torch_thread

STACK_BYTES = 32 << 20
"""Bytes of models held at once."""


def fit_user_rows(
    model: Model,
    layout: Layout,
    start: F32,
    samples: Sequence[Columns],
    frozen: Callable[[I64], F32],
    *,
    steps: int,
    rate: float,
) -> F32:
    """Return user rows after steps of Adam on all samples of each; a row without samples is unchanged.

    A row's bytes do not depend on the other rows, as in :mod:`gossiprec.compute.executors.batched`.

    Parameters
    ----------
    model : Model
    layout : Layout
        The layout of models that hold one user's row.
    start : ndarray of float32, shape (n_rows, user_width)
    samples : sequence of Columns
        One for each row.
    frozen : callable
        Function of places of rows that returns their item tables and shared weights, shape (n_places, n_columns).
    steps : int
    rate : float
    """
    constants, found = constants_to_tensors(model.constants), start.copy()

    def loss(user: Tensor, tables: Tensors, batch: Tensors) -> Tensor:
        p = layout.blocks_by_name({**tables, "users": user[None]}) | constants
        return model.loss(p, {**batch, "user": torch.zeros(1, dtype=torch.int64)})

    losses = vmap(loss)
    with single_torch_thread():
        for width, some in _stacks(samples, max(1, STACK_BYTES // (4 * layout.row_size))):
            batch = _padded([samples[place] for place in some], width)
            models = np.zeros((len(some), layout.size), np.float32)
            models[:, layout.items.start : layout.shared.stop] = frozen(some)
            tables = table_views(layout, torch.from_numpy(models))
            users = torch.from_numpy(start[some]).requires_grad_()
            first, second = torch.zeros_like(users), torch.zeros_like(users)
            for step in range(1, steps + 1):
                (gradient,) = torch.autograd.grad(losses(users, tables, batch).sum(), users)
                _descend(users.detach(), gradient, first, second, step, rate)
            found[some] = users.detach().numpy()
    return found


def _descend(users: Tensor, gradient: Tensor, first: Tensor, second: Tensor, step: int, rate: float) -> None:
    """Take a step of Adam, in place, in separate products and sums, so that rounding is the same in any stack."""
    first.mul_(0.9).add_(gradient * 0.1)
    second.mul_(0.999).add_(gradient * gradient * 0.001)
    deviation = (second / (1 - 0.999**step)).sqrt() + 1e-8
    users.sub_(first / (1 - 0.9**step) / deviation * rate)


def _stacks(samples: Sequence[Columns], stack_rows: int) -> Iterator[tuple[int, I64]]:
    """Yield widths with the places of the rows that are fitted together in each."""
    lengths, forms = [batch_length(columns) for columns in samples], batch_shape_keys(samples)
    widths = np.array(lengths, np.int64) if holds_item_lists(samples[0]) else _width(lengths)
    for form in np.unique(forms).tolist():
        yield from group_by_width(np.where(forms == form, widths, 0), stack_rows)


def _width(lengths: Sequence[int]) -> I64:
    """Return the padded width of samples; there are fewer widths than in local updates, for larger stacks."""
    widths = padded_width(lengths)
    power = 2 ** np.floor(np.log2(np.maximum(widths, 1))).astype(np.int64)
    unit = np.maximum(32, power // 2)
    return -(-widths // unit) * unit


def _padded(samples: Sequence[Columns], width: int) -> Tensors:
    """Return samples as a stack with weights, which are 0 for padding."""
    batch = empty_stack(samples[0], (len(samples),), width)
    for k, columns in enumerate(samples):
        fill_stack(batch, (k,), columns)
    return {name: to_tensor(column) for name, column in batch.items()}
