"""Rows as tensors: what the executors that use torch share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gossiprec.arrays import I64, U32
from gossiprec.compute.store.arena import Arena
from gossiprec.compute.store.base import Handles
from gossiprec.feeds.base import Columns
from gossiprec.models.base.blocks import Layout

Tensors = dict[str, Tensor]


class HostRows:
    """Models and moments of an arena on the host, moved to where torch computes and back.

    Parameters
    ----------
    arena : Arena
    device : torch.device
    """

    def __init__(self, arena: Arena, device: torch.device) -> None:
        self._arena, self._device = arena, device

    def take(self, handles: Handles) -> Tensor:
        """Return copies of rows, shape (n, row_size)."""
        return tensor_of(self._arena.load(handles)).to(self._device)

    def put(self, handles: Handles, rows: Tensor, keys: U32 | None) -> None:
        """Write rows, shape (n, row_size); float16 rounds by `keys`."""
        self._arena.store(handles, rows.cpu().numpy(), keys)

    def take_moments(self, nodes: I64) -> list[Tensor]:
        """Return copies of the nodes' first and second moments, of shape (n, size) each."""
        owned, size = self._arena.owned(nodes), self._arena.layout.size
        both = (self._arena.first, self._arena.second)
        return [tensor_of(part[owned, :size]).to(self._device) for part in both]

    def put_moments(self, nodes: I64, moments: Sequence[Tensor]) -> None:
        """Write the nodes' moments."""
        owned, size = self._arena.owned(nodes), self._arena.layout.size
        for stored, part in zip((self._arena.first, self._arena.second), moments, strict=True):
            stored[owned, :size] = part.cpu().numpy()


LEAST_STACK = 4
"""Nodes in a stack, at the least: fewer take other kernels of matrix products on some processors."""


def tables_of(layout: Layout, row: Tensor) -> Tensors:
    """Return the tensors of a row, or of rows stacked in front, as views (see :attr:`Layout.tables`)."""
    shapes = layout.tables
    parts = torch.split(row[..., : layout.size], [prod(shape) for shape in shapes.values()], dim=-1)
    return {
        name: part.view(*row.shape[:-1], *shape)
        for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }


def tensor_of(column: npt.NDArray[Any]) -> Tensor:
    """Return a column as a tensor: ids as int64, which torch asks for in an index."""
    return torch.from_numpy(column.astype(np.int64) if column.dtype == np.int32 else column)


def constants_of(constants: Mapping[str, npt.NDArray[Any]]) -> Tensors:
    """Return a model's constants as tensors."""
    return {name: torch.from_numpy(values) for name, values in constants.items()}


def length_of(batch: Columns) -> int:
    """Return how many samples there are."""
    return len(next(iter(batch.values())))


def are_lists(samples: Columns) -> bool:
    """Whether each sample is a list of items, as wide as whole vectors (:mod:`gossiprec.feeds.lists`)."""
    return samples["items"].ndim > 1


def forms_of(samples: Iterable[Columns]) -> I64:
    """Return a number for each batch, equal for those whose single samples have as many numbers."""
    known: dict[tuple[tuple[int, ...], ...], int] = {}
    shapes = (tuple(part.shape[1:] for part in columns.values()) for columns in samples)
    return np.array([known.setdefault(shape, len(known)) for shape in shapes], np.int64)


def padded_width(length: npt.ArrayLike) -> I64:
    """Return `length` rounded up to a multiple of 32 and of an eighth of the next power of two."""
    lengths = np.asarray(length, np.int64)
    power = 2 ** np.ceil(np.log2(np.maximum(lengths, 1))).astype(np.int64)
    unit = np.maximum(32, power // 8)
    return -(-lengths // unit) * unit


def alike(widths: I64, stack_rows: int) -> Iterator[tuple[int, I64]]:
    """Yield each width but 0 with the places that have it in order, a stack at a time; few places are repeated."""
    for width in np.unique(widths[widths > 0]).tolist():
        for places in pieces(np.flatnonzero(widths == width), stack_rows):
            yield width, np.sort(np.resize(places, max(len(places), LEAST_STACK)))


def pieces(places: I64, size: int) -> Iterator[I64]:
    """Cut `places` into consecutive pieces of at most `size`."""
    return (places[start : start + size] for start in range(0, len(places), size))
