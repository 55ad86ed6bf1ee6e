"""What becomes of a model on its way out: what does not leave, and the size of a message that follows from it."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

import numpy as np

from gossiprec.arrays import I64, Bools
from gossiprec.errors import ScenarioError
from gossiprec.models.base import Layout

BYTES = 4
"""Of a number in a message: float32."""


class Role(Enum):
    """What a block of parameters belongs to."""

    USER = "user"
    ITEM = "item"
    SHARED = "shared"


def widths(layout: Layout) -> dict[Role, int]:
    """Return the numbers of a model version by what they belong to."""
    return {
        Role.USER: layout.users.stop - layout.users.start,
        Role.ITEM: layout.items.stop - layout.items.start,
        Role.SHARED: layout.n_shared,
    }


class Transform:
    """What a policy makes of its nodes' messages.

    One object serves all nodes of the policy, on any thread: it keeps nothing.

    Attributes
    ----------
    hides : frozenset of Role
        Blocks that do not leave: receivers have to do without them, and messages are smaller by them.
    extra_bytes : int
        What a message holds besides the blocks that leave.
    """

    hides: ClassVar[frozenset[Role]] = frozenset()
    extra_bytes: int = 0


class Outgoing:
    """The transforms that messages of each node pass, in the order of the scenario.

    Parameters
    ----------
    layout : Layout
    n_nodes : int
    """

    def __init__(self, layout: Layout, n_nodes: int) -> None:
        self._layout = layout
        self._hides = {role: np.zeros(n_nodes, np.bool_) for role in Role}
        self._extra = np.zeros(n_nodes, np.int64)

    def add(self, name: str, transform: Transform, nodes: I64) -> None:
        """Let the messages of some nodes pass one more transform, that of the policy `name`.

        Raises
        ------
        ScenarioError
            If it hides what a receiver cannot do without, or what nobody has.
        """
        for role in transform.hides:
            self._refuse(name, role)
            self._hides[role][nodes] = True
        self._extra[nodes] += transform.extra_bytes

    def hides(self, role: Role) -> Bools:
        """Return which nodes' messages lack the blocks of a role, shape (n_nodes,)."""
        return self._hides[role]

    @property
    def message_bytes(self) -> I64:
        """Size of what each node sends: the blocks that leave, and what transforms add; shape (n_nodes,)."""
        leaves = [(~self._hides[role]) * width for role, width in widths(self._layout).items()]
        size: I64 = BYTES * np.sum(leaves, axis=0) + self._extra
        return size

    def _refuse(self, name: str, role: Role) -> None:
        if role is not Role.USER:
            raise ScenarioError(
                f"policies: {name} hides the {role.value} blocks, but receivers merge them; only the user's row can "
                "stay at home"
            )
        if self._layout.user_width == 0:
            raise ScenarioError(
                f"policies: {name} withholds the user's row, but the model has none; leave the policy out"
            )
        if self._layout.n_users > 1:
            raise ScenarioError(
                f"policies: {name} withholds the user's row, but under protocol.user_table 'averaged' every node holds "
                "and sends all rows; set protocol.user_table to 'own'"
            )
