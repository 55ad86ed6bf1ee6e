"""What a model tells the emulator: the roles of its parameters, where it starts, and its torch module."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from gossiprec.arrays import F32, I64
from gossiprec.options import Options
from gossiprec.rng import generator

if TYPE_CHECKING:
    import torch


_ALIGNMENT = 16  # floats: one 64-byte cache line


@dataclass(frozen=True)
class Layout:
    """Where the parameters of one model version lie in its flat row: ``[users | items | shared]``.

    Parameters
    ----------
    user_width : int
        Numbers per user.
    item_width : int
        Numbers per item, all item tables together.
    n_shared : int
        Weights that belong to no user and no item.
    n_items : int
    n_users : int
        Users held by every node: 1 (its own row alone) or all (the whole user table).
    """

    user_width: int
    item_width: int
    n_shared: int
    n_items: int
    n_users: int = 1

    @property
    def users(self) -> slice:
        """The user rows."""
        return slice(0, self.n_users * self.user_width)

    @property
    def items(self) -> slice:
        """The item tables."""
        return slice(self.users.stop, self.users.stop + self.n_items * self.item_width)

    @property
    def shared(self) -> slice:
        """The shared weights."""
        return slice(self.items.stop, self.items.stop + self.n_shared)

    @property
    def merged(self) -> slice:
        """What a receiver merges: everything but its own user row, or all of it if nodes hold the user table."""
        return slice(self.users.stop if self.n_users == 1 else 0, self.shared.stop)

    @property
    def size(self) -> int:
        """Number of parameters."""
        return int(self.shared.stop)

    @property
    def row_size(self) -> int:
        """Length of a stored row: `size` rounded up to whole cache lines."""
        return -(-self.size // _ALIGNMENT) * _ALIGNMENT

    @property
    def message_bytes(self) -> int:
        """Size of a message that carries the full model in float32."""
        return 4 * self.size

    def part(self, row: npt.NDArray[np.floating], kept: npt.NDArray[np.integer], user: int) -> F32:
        """Return the small model ``[one user's row | kept items | shared]`` out of a row, of the layout's own type."""
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


class Model(ABC):
    """A recommendation model.

    The torch module returned by :meth:`module` has the parameters ``users`` (n_users, user_width), then the item
    tables, then the shared weights, in the order of the layout; its ``forward(user, items)`` takes `user` of shape (1,)
    and returns one logit per item.
    """

    Options: ClassVar[type[Options]]

    has_sample_gradients: ClassVar[bool] = True
    """Whether the loss of a batch is the mean of its samples' own losses: DP-SGD clips each sample's gradient."""

    trains_on_moves: ClassVar[bool] = False
    """Whether samples are moves between places, (positive, negative, previous); else items with labels."""

    places: F32 | None = None
    """Where items are, shape (n_items, 3), for models that look at it: see :meth:`with_places`."""

    def __init__(self, options: Any) -> None:
        self.options = options

    @abstractmethod
    def layout(self, n_items: int, n_users: int = 1) -> Layout:
        """Return the layout of one version."""

    @abstractmethod
    def initial_user(self, rng: np.random.Generator) -> F32:
        """Draw one user row, shape (user_width,)."""

    @abstractmethod
    def initial_common(self, n_items: int, rng: np.random.Generator) -> F32:
        """Draw the item tables and shared weights that all nodes start from, flat, in the order of the layout."""

    @abstractmethod
    def module(self, layout: Layout) -> torch.nn.Module:
        """Return a fresh torch module; the caller loads its values."""

    @abstractmethod
    def loss(self, logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Return the mean loss of a batch; `weights` is 1 for a sample and 0 for padding."""

    def batch_loss(
        self,
        call: Callable[..., Any],
        user: torch.Tensor,
        items: torch.Tensor,
        labels: torch.Tensor,
        weights: torch.Tensor,
    ) -> torch.Tensor:
        """Return what a batch of samples is trained to lower; `call` is the module's ``forward``."""
        return self.loss(call(user, items), labels, weights)

    def with_places(self, places: F32) -> Model:
        """Return the model of items at `places`, shape (n_items, 3): unit vectors. Most models do not look at them."""
        return self

    def fill_rows(self, rows: npt.NDArray[np.floating], layout: Layout, seed: int) -> None:
        """Write every node's first version into `rows`, shape (n_nodes, row_size), one after the other.

        Item tables and shared weights are common to all nodes; each user's row is a draw of its own.
        """
        common = self.initial_common(layout.n_items, generator(seed, "initial-common")).astype(rows.dtype)
        users = np.stack([self.initial_user(generator(seed, "initial-user", n)) for n in range(len(rows))])
        for node, row in enumerate(rows):
            row[layout.items.start : layout.size] = common
            row[layout.users] = users[node] if layout.n_users == 1 else users[: layout.n_users].ravel()

    def initial_rows(self, layout: Layout, n_nodes: int, seed: int) -> F32:
        """Return every node's first version, shape (n_nodes, row_size)."""
        rows = np.zeros((n_nodes, layout.row_size), np.float32)
        self.fill_rows(rows, layout, seed)
        return rows
