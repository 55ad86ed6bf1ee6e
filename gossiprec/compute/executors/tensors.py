"""Rows as tensors: what the executors that use torch share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gossiprec.models.base.blocks import Layout

Tensors = dict[str, Tensor]


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


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Let torch use one thread: how it divides a sum or a scatter among threads may show in the last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
