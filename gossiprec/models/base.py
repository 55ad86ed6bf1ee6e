"""What a model tells the emulator: the roles of its parameters, where it starts, and its torch module."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from gossiprec.options import Options
from gossiprec.rng import generator

if TYPE_CHECKING:
    import torch

F32 = npt.NDArray[np.float32]

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

    def user_index(self, node: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
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

    def initial_rows(self, layout: Layout, n_nodes: int, seed: int) -> F32:
        """Return every node's first version, shape (n_nodes, row_size).

        Item tables and shared weights are common to all nodes; each user's row is a draw of its own.
        """
        rows = np.zeros((n_nodes, layout.row_size), np.float32)
        rows[:, layout.items.start : layout.size] = self.initial_common(
            layout.n_items, generator(seed, "initial-common")
        )
        users = np.stack([self.initial_user(generator(seed, "initial-user", n)) for n in range(n_nodes)])
        rows[:, layout.users] = users if layout.n_users == 1 else users[: layout.n_users].reshape(1, -1)
        return rows
