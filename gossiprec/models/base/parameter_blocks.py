"""The parameters of a model by name and role, and their positions in a row."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F32, I64

if TYPE_CHECKING:
    from torch import Tensor

TensorMap: TypeAlias = "Mapping[str, Tensor]"
"""Tensors by name, such as the blocks of a version or the columns of a batch."""

_ALIGNMENT = 16  # floats: one 64-byte cache line

Initial = Callable[[np.random.Generator, int], npt.NDArray[np.floating]]
"""Function that draws initial values of a block, given a generator and a number of values."""


class BlockRole(StrEnum):
    """The owner of a block's parameters, which determines how they are merged and sent."""

    USER = "user"
    """A row per user: a node holds its own, which is not merged (unless every node holds the whole table)."""
    ITEM = "item"
    """A row per item: merged and sent."""
    SHARED = "shared"
    """Weights that belong to no user and no item: merged and sent."""
    PRIVATE = "private"
    """Weights of the node only: neither merged nor sent."""


def zeros(rng: np.random.Generator, count: int) -> npt.NDArray[np.floating]:
    """Return zeros; draws nothing."""
    return np.zeros(count)


def ones(rng: np.random.Generator, count: int) -> npt.NDArray[np.floating]:
    """Return ones; draws nothing."""
    return np.ones(count)


def normal(std: float) -> Initial:
    """Return an initialiser with draws of N(0, std^2)."""
    return lambda rng, count: rng.normal(0.0, std, count)


def uniform(bound: float) -> Initial:
    """Return an initialiser with draws of U(-bound, bound)."""
    return lambda rng, count: rng.uniform(-1.0, 1.0, count) * bound


@dataclass(frozen=True)
class ParameterBlock:
    """One named tensor of a model.

    Attributes
    ----------
    name : str
    role : BlockRole
    shape : tuple of int
        Shape of one user's, or one item's, part; of the whole block for SHARED and PRIVATE.
    initial : callable
        Function that draws initial values.
    """

    name: str
    role: BlockRole
    shape: tuple[int, ...]
    initial: Initial = zeros

    @property
    def width(self) -> int:
        """Number of values in one part."""
        return prod(self.shape)


@dataclass(frozen=True)
class Layout:
    """Positions of the parameters of a model version in its flat row: ``[users | items | shared | private]``.

    Blocks of a role are adjacent, in the order in which the model names them; blocks of users and items are adjacent
    within each user's or item's part.

    Parameters
    ----------
    blocks : tuple of ParameterBlock
    n_items : int
    n_users : int
        Number of users held by every node: 1 (only its own row) or all (the whole user table).
    """

    blocks: tuple[ParameterBlock, ...]
    n_items: int
    n_users: int = 1

    def blocks_of_role(self, role: BlockRole) -> tuple[ParameterBlock, ...]:
        """Return the blocks of a role."""
        return tuple(block for block in self.blocks if block.role is role)

    def _width(self, role: BlockRole) -> int:
        return sum(block.width for block in self.blocks_of_role(role))

    @functools.cached_property
    def user_width(self) -> int:
        """Number of values per user."""
        return self._width(BlockRole.USER)

    @functools.cached_property
    def item_width(self) -> int:
        """Number of values per item, over all item tables."""
        return self._width(BlockRole.ITEM)

    @functools.cached_property
    def n_shared(self) -> int:
        """Number of weights that belong to no user and no item."""
        return self._width(BlockRole.SHARED)

    @functools.cached_property
    def users(self) -> slice:
        """The user rows."""
        return slice(0, self.n_users * self.user_width)

    @functools.cached_property
    def items(self) -> slice:
        """The item tables."""
        return slice(self.users.stop, self.users.stop + self.n_items * self.item_width)

    @functools.cached_property
    def shared(self) -> slice:
        """The shared weights."""
        return slice(self.items.stop, self.items.stop + self.n_shared)

    @functools.cached_property
    def private(self) -> slice:
        """The private weights of the node."""
        return slice(self.shared.stop, self.shared.stop + self._width(BlockRole.PRIVATE))

    @functools.cached_property
    def merged(self) -> slice:
        """The columns that a receiver merges: all except private weights and a user row of its own.

        A table of all users is merged, too.
        """
        return slice(self.users.stop if self.n_users == 1 else 0, self.shared.stop)

    @functools.cached_property
    def size(self) -> int:
        """Number of parameters."""
        return int(self.private.stop)

    @functools.cached_property
    def row_size(self) -> int:
        """Length of a stored row: `size` rounded up to whole cache lines."""
        return -(-self.size // _ALIGNMENT) * _ALIGNMENT

    @functools.cached_property
    def message_bytes(self) -> int:
        """Size in bytes of a message with everything that is not private, in float32."""
        return 4 * int(self.shared.stop)

    @functools.cached_property
    def tables(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the tensors in a row, in order: all users, all items, and each other block."""
        shapes: dict[str, tuple[int, ...]] = {}
        if self.user_width:
            shapes["users"] = (self.n_users, self.user_width)
        if self.item_width:
            shapes["items"] = (self.n_items, self.item_width)
        others = (*self.blocks_of_role(BlockRole.SHARED), *self.blocks_of_role(BlockRole.PRIVATE))
        return shapes | {block.name: block.shape for block in others}

    def blocks_by_name(self, tables: Mapping[str, Any]) -> dict[str, Any]:
        """Return every block by its name, as a view of the tensors (or arrays) of :attr:`tables`."""
        found = dict(tables)
        for role, table in ((BlockRole.USER, "users"), (BlockRole.ITEM, "items")):
            at, blocks = 0, self.blocks_of_role(role)
            for block in blocks:
                whole = tables[table]
                part = whole if len(blocks) == 1 else whole[..., at : at + block.width]
                found[block.name] = part if len(block.shape) == 1 else part.reshape(len(whole), *block.shape)
                at += block.width
        return found

    def version_tables(self, version: Any) -> dict[str, Any]:
        """Return the tables of a version ``[items | shared]``, a flat tensor or array, as views."""
        end = self.n_items * self.item_width
        items = {"items": version[:end].reshape(self.n_items, self.item_width)} if end else {}
        return items | self.shared_blocks(version[end:])

    def shared_blocks(self, shared: Any) -> dict[str, Any]:
        """Return the shared blocks by name, as views of the flat tensor or array that holds them in order."""
        found, at = {}, 0
        for block in self.blocks_of_role(BlockRole.SHARED):
            found[block.name] = shared[at : at + block.width].reshape(block.shape)
            at += block.width
        return found

    def extract_submodel(
        self, row: npt.NDArray[np.floating], kept: npt.NDArray[np.integer], user: int
    ) -> F32:
        """Return the small model ``[one user's row | kept items | shared]`` of a row, in the layout's order."""
        small = replace(self, n_items=len(kept), n_users=1)
        at = 0 if self.n_users == 1 else user * self.user_width
        vector = np.zeros(small.row_size, np.float32)
        vector[small.users] = row[at : at + self.user_width]
        vector[small.items] = row[self.items].reshape(self.n_items, -1)[kept].ravel()
        vector[small.shared] = row[self.shared]
        return vector

    def user_index(self, node: I64) -> I64:
        """Return the row of each node's user in its own model: 0, or the node id if nodes hold the user table."""
        return np.zeros_like(node) if self.n_users == 1 else node

    def initial_user(self, rng: np.random.Generator) -> F32:
        """Draw one user's row, shape (user_width,)."""
        drawn = [block.initial(rng, block.width) for block in self.blocks_of_role(BlockRole.USER)]
        return np.concatenate([np.zeros(0), *drawn]).astype(np.float32)

    def initial_common(self, rng: np.random.Generator) -> F32:
        """Draw the item tables and shared weights that all nodes start from, flat, in the order of the row."""
        items = [
            block.initial(rng, self.n_items * block.width).reshape(self.n_items, -1)
            for block in self.blocks_of_role(BlockRole.ITEM)
        ]
        drawn = [np.concatenate(items, axis=1).ravel()] if items else []
        drawn += [block.initial(rng, block.width) for block in self.blocks_of_role(BlockRole.SHARED)]
        return np.concatenate([np.zeros(0), *drawn]).astype(np.float32)

    def initial_private(self, rng: np.random.Generator) -> F32:
        """Draw one node's private weights, flat."""
        drawn = [block.initial(rng, block.width) for block in self.blocks_of_role(BlockRole.PRIVATE)]
        return np.concatenate([np.zeros(0), *drawn]).astype(np.float32)


def embedding_blocks(dim: int, users: Initial, items: Initial) -> tuple[ParameterBlock, ParameterBlock]:
    """Return the blocks ``users`` and ``items``, which have rows of `dim` values, given their initialisers."""
    return (
        ParameterBlock("users", BlockRole.USER, (dim,), users),
        ParameterBlock("items", BlockRole.ITEM, (dim,), items),
    )
