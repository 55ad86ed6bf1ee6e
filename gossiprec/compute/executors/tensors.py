"""Tensors for the executors that use torch: rows of the host, padded widths and stacks of local updates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gossiprec.base.arrays import I32, I64, U32
from gossiprec.compute.executors.base import ExecutorContext
from gossiprec.compute.local_update import TrainingMode
from gossiprec.compute.store import Handles
from gossiprec.compute.store.arena import Arena
from gossiprec.models.base import Model
from gossiprec.models.base.graph import GraphModel
from gossiprec.models.base.parameter_blocks import Layout
from gossiprec.models.base.terms import ItemTerm
from gossiprec.models.feeds.base import Columns, Feed
from gossiprec.numerics.torch_setup import make_adam, make_sgd

Tensors = dict[str, Tensor]


class HostRows:
    """Models and moments of an arena on the host, copied to the device of torch and back.

    Parameters
    ----------
    arena : Arena
    device : torch.device
    """

    def __init__(self, arena: Arena, device: torch.device) -> None:
        self._arena, self._device = arena, device

    def take(self, handles: Handles) -> Tensor:
        """Return copies of rows, shape (n, row_size)."""
        return to_tensor(self._arena.load(handles)).to(self._device)

    def put(self, handles: Handles, rows: Tensor, keys: U32 | None) -> None:
        """Write rows, shape (n, row_size); float16 rounds by `keys`."""
        self._arena.store(handles, rows.cpu().numpy(), keys)

    def take_moments(self, nodes: I64) -> list[Tensor]:
        """Return copies of the nodes' first and second moments, of shape (n, size) each."""
        owned, size = self._arena.moment_rows(nodes), self._arena.layout.size
        both = (self._arena.first, self._arena.second)
        return [to_tensor(part[owned, :size]).to(self._device) for part in both]

    def put_moments(self, nodes: I64, moments: Sequence[Tensor]) -> None:
        """Write the nodes' moments."""
        owned, size = self._arena.moment_rows(nodes), self._arena.layout.size
        for stored, part in zip((self._arena.first, self._arena.second), moments, strict=True):
            stored[owned, :size] = part.cpu().numpy()


LEAST_STACK = 4
"""Smallest number of nodes in a stack: fewer use other kernels of matrix products on some processors."""


def table_views(layout: Layout, row: Tensor) -> Tensors:
    """Return the tensors of a row, or of rows stacked in front, as views (see :attr:`Layout.tables`)."""
    shapes = layout.tables
    parts = torch.split(row[..., : layout.size], [prod(shape) for shape in shapes.values()], dim=-1)
    return {
        name: part.view(*row.shape[:-1], *shape)
        for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }


def loss_of_samples(model: Model, layout: Layout, tables: Tensors, samples: Columns) -> Tensor:
    """Return the model's loss on samples of one user; `tables` hold no row of another.

    No number drops out, and the additions of a recommender do not count.
    """
    batch = {name: to_tensor(column) for name, column in samples.items()}
    batch["user"] = torch.zeros(1, dtype=torch.int64)
    batch["weights"] = torch.ones(len(next(iter(samples.values()))))
    p: Mapping[str, Tensor] = {**layout.blocks_by_name(tables), **constants_to_tensors(model.constants)}
    if isinstance(model, GraphModel):
        p = model.encode_client(p, batch)
    return model.loss(p, batch)


def batch_items(feed: Feed, batch: Mapping[str, Any]) -> Tensor:
    """Return the items in a batch of the feed, ascending, each once."""
    items = np.concatenate([np.asarray(batch[name]).ravel() for name in feed.item_columns])
    return torch.from_numpy(np.unique(items[items >= 0]))  # -1: no item


def loss_of_terms(terms: Mapping[ItemTerm, float], items: Tensor, start: Tensor, touched: Tensor) -> Tensor:
    """Return the sum of some terms in a step, given the item table now and before the local update."""
    now, before = items[touched], start[touched]
    return torch.stack([factor * term.loss(now, before) for term, factor in terms.items()]).sum()


def make_optimizer(
    work: ExecutorContext,
    tables: Mapping[str, Tensor],
    owned: int,
    steps: Mapping[str, float],
    cut: Callable[[Tensor], Tensor] = lambda table: table,
    **implementation: bool,
) -> torch.optim.Optimizer:
    """Return the optimizer of some tables in its last state; Adam's moments are views of the arena's rows.

    Parameters
    ----------
    work : ExecutorContext
    tables : mapping of str to Tensor
    owned : int
        Row of the arena's moments.
    steps : mapping of str to float
        Number of steps taken, by table.
    cut : callable
        Function that takes the part of a moment that belongs to the given part of its table.
    **implementation : bool
        `foreach` or `fused` of Adam.
    """
    training, arena, parameters = work.training, work.arena, list(tables.values())
    if training.optimizer == "sgd":
        return make_sgd(parameters, lr=training.learning_rate, foreach=False)
    betas = training.beta1, training.beta2
    adam = make_adam(
        parameters, lr=training.learning_rate, betas=betas, eps=training.epsilon, **implementation
    )
    moments = (arena.first, arena.second)
    first, second = (table_views(arena.layout, torch.from_numpy(part[owned])) for part in moments)
    for name, parameter in tables.items():
        step = torch.tensor(float(steps[name]))
        adam.state[parameter] = {"step": step, "exp_avg": cut(first[name]), "exp_avg_sq": cut(second[name])}
    return adam


def to_tensor(column: npt.NDArray[Any]) -> Tensor:
    """Return a column as a tensor; ids become int64, which torch requires of an index."""
    return torch.from_numpy(column.astype(np.int64) if column.dtype == np.int32 else column)


def constants_to_tensors(constants: Mapping[str, npt.NDArray[Any]]) -> Tensors:
    """Return a model's constants as tensors."""
    return {name: torch.from_numpy(values) for name, values in constants.items()}


def batch_length(batch: Columns) -> int:
    """Return the number of samples of a batch."""
    return len(next(iter(batch.values())))


def holds_item_lists(samples: Columns) -> bool:
    """Return whether each sample is a list of items (:mod:`gossiprec.models.feeds.sequences`)."""
    return samples["items"].ndim > 1


def batch_shape_keys(samples: Iterable[Columns]) -> I64:
    """Return a number for each batch, equal for batches of which the samples have equal shapes."""
    known: dict[tuple[tuple[int, ...], ...], int] = {}
    shapes = (tuple(part.shape[1:] for part in columns.values()) for columns in samples)
    return np.array([known.setdefault(shape, len(known)) for shape in shapes], np.int64)


def padded_width(length: npt.ArrayLike) -> I64:
    """Return `length` rounded up to a multiple of 32 and of an eighth of the next power of two."""
    lengths = np.asarray(length, np.int64)
    power = 2 ** np.ceil(np.log2(np.maximum(lengths, 1))).astype(np.int64)
    unit = np.maximum(32, power // 8)
    return -(-lengths // unit) * unit


def group_by_width(widths: I64, stack_rows: int) -> Iterator[tuple[int, I64]]:
    """Yield each nonzero width with its places, stack by stack; places are repeated if there are few."""
    for width in np.unique(widths[widths > 0]).tolist():
        for places in chunked(np.flatnonzero(widths == width), stack_rows):
            yield width, np.sort(np.resize(places, max(len(places), LEAST_STACK)))


def chunked(places: I64, size: int) -> Iterator[I64]:
    """Yield consecutive pieces of `places`, each of `size` or fewer."""
    return (places[start : start + size] for start in range(0, len(places), size))


def padded_batch_size(samples: Columns) -> int:
    """Return the padded number of samples of a batch, 0 for an empty batch."""
    if not samples:
        return 0
    return batch_length(samples) if holds_item_lists(samples) else int(padded_width(batch_length(samples)))


def empty_stack(samples: Columns, shape: tuple[int, ...], width: int) -> dict[str, npt.NDArray[Any]]:
    """Return zeroed columns for a stack of batches like one of them, with their ``weights``."""
    columns = {
        name: np.zeros((*shape, width, *column.shape[1:]), column.dtype) for name, column in samples.items()
    }
    return {**columns, "weights": np.zeros((*shape, width), np.float32)}


def fill_stack(stack: Mapping[str, npt.NDArray[Any]], place: tuple[Any, ...], batch: Columns) -> None:
    """Write a batch to a place of a stack; its samples have weight 1, and the padding behind them 0."""
    for name, column in batch.items():
        stack[name][(*place, slice(len(column)))] = column
    stack["weights"][(*place, slice(batch_length(batch)))] = 1.0


@dataclass(frozen=True)
class UpdateStack:
    """Local updates to run stacked, those with most batches first.

    Attributes
    ----------
    node, target : ndarray of int64, shape (n_tasks,)
    keys : ndarray of uint32, shape (n_tasks,), or None
        Keys by which trained rows are rounded, or None.
    n_steps : ndarray of int64, shape (n_tasks,)
        Batches of each task, all epochs together.
    columns : dict of str to ndarray, shape (n_tasks, n_steps[0], width)
        Samples, and their ``weights``: 0 is padding.
    drawn : dict of str to ndarray, shape (n_tasks, n_steps[0], ...)
        Other draws of each step.
    kind : TrainingMode
        The training mode of all of them.
    """

    node: I64
    target: I64
    keys: U32 | None
    n_steps: I64
    columns: Columns
    drawn: Columns
    kind: TrainingMode

    @classmethod
    def pad(
        cls, node: I32, target: I32, keys: U32 | None, tasks: list[list[tuple[Columns, Columns]]], width: int,
        kind: TrainingMode,
    ) -> UpdateStack:  # fmt: skip
        """Pad each task's batches to `width`."""
        n_steps = np.array([len(steps) for steps in tasks], np.int64)
        shape, (samples, of_step) = (len(tasks), int(n_steps.max())), tasks[0][0]
        columns = empty_stack(samples, shape, width)
        drawn = {name: np.zeros((*shape, *one.shape), one.dtype) for name, one in of_step.items()}
        for t, steps in enumerate(tasks):
            for k, (batch, of_step) in enumerate(steps):
                fill_stack(columns, (t, k), batch)
                for name, one in of_step.items():
                    drawn[name][t, k] = one
        return cls(node.astype(np.int64), target.astype(np.int64), keys, n_steps, columns, drawn, kind)
