"""What becomes of a model on its way out: what does not leave, and the size of a message that follows from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gossiprec.aggregators.base import ModelDelta
from gossiprec.arrays import F32, I32, I64, Bools
from gossiprec.errors import ScenarioError
from gossiprec.models.base import BlockRole, Layout
from gossiprec.old_names import forward
from gossiprec.rng import generator

BYTES = 4
"""Of a number in a message: float32."""


def sendable_widths(layout: Layout) -> dict[BlockRole, int]:
    """Return the numbers of a model version that can leave, by what they belong to: all but private ones."""
    return {
        BlockRole.USER: layout.users.stop - layout.users.start,
        BlockRole.ITEM: layout.items.stop - layout.items.start,
        BlockRole.SHARED: layout.n_shared,
    }


@dataclass(frozen=True)
class MessagePayload:
    """What a message carries, by what it belongs to.

    Attributes
    ----------
    users : ndarray of float32, shape (n_users, user_width), or None
        The user's row (or all rows, where nodes hold them); None: it stays at home.
    items : ndarray of float32, shape (n_items, item_width) or (n_touched, item_width)
    shared : ndarray of float32, shape (n_shared,)
    touched : ndarray of int32, shape (n_touched,), or None
        Whose rows `items` are, where an update leaves; None: those of all items.
    """

    users: F32 | None
    items: F32
    shared: F32
    touched: I32 | None = None

    @classmethod
    def of(cls, row: F32, layout: Layout, *, hides_user: bool) -> MessagePayload:
        """Return a copy of what leaves of a row."""
        users = row[layout.users].reshape(layout.n_users, -1).copy()
        items = row[layout.items].reshape(layout.n_items, -1).copy()
        return cls(None if hides_user else users, items, row[layout.shared].copy())

    @property
    def parts(self) -> list[F32]:
        """What is carried, part by part."""
        return [part for part in (self.users, self.items, self.shared) if part is not None]


@dataclass(frozen=True)
class PushContext:
    """What a transform may know of the push it encodes: of its own node, and nothing of anybody else.

    Attributes
    ----------
    node : int
    number : int
        Of the node's pushes so far, from 0.
    items : ndarray of int32, shape (n_items_of_the_node,)
        The node's own training items.
    round : int
        In which it leaves, from 1: by the coordinator's wakes so far, in gossip by the node's own; 0: not counted, as
        for pushes that are not forged.
    """

    seed: int
    node: int
    number: int
    items: I32
    round: int = 0

    def generator(self, purpose: str) -> np.random.Generator:
        """Return draws that depend on seed, purpose, node and push alone: on no thread, wave or executor."""
        return generator(self.seed, purpose, self.node, self.number)


class Transform:
    """What a policy makes of its nodes' messages.

    One object serves all nodes of the policy, on any thread: it keeps nothing.

    Attributes
    ----------
    rewrites : bool
        Numbers change on their way out: :meth:`encode` is asked at each push.
    hides : frozenset of Role
        Blocks that do not leave: receivers have to do without them, and messages are smaller by them.
    extra_bytes : int
        What a message holds besides the blocks that leave.
    """

    hides: ClassVar[frozenset[BlockRole]] = frozenset()
    rewrites: ClassVar[bool] = False
    extra_bytes: int = 0

    def encode(
        self, payload: MessagePayload, base: MessagePayload | None, push: PushContext
    ) -> MessagePayload:
        """Return what leaves in place of a payload: the same shapes, and finite numbers.

        Parameters
        ----------
        payload : Payload
            A copy, which may be changed; what earlier policies of the scenario have made of it.
        base : Payload or None
            A copy of the node's version before its last local update, as it would have left: for clients of FedAvg what
            they were sent. None: the node has not trained since its last push.
        push : Push
        """
        raise NotImplementedError(f"{type(self).__name__} rewrites messages but does not implement transform")


class WithholdUserRow(Transform):
    """A transform that leaves the user's row out of messages; private weights never leave."""

    hides = frozenset({BlockRole.USER})


class Forgery(ABC):
    """What nodes without data send: written from scratch, push by push.

    One object may serve several nodes; it keeps nothing from push to push.
    """

    @abstractmethod
    def forge(self, sent: MessagePayload, push: PushContext) -> ModelDelta:
        """Return what a message changes of a version.

        Parameters
        ----------
        sent : Payload
            A copy of the version: what the node was sent under FedAvg, its own in gossip.
        push : Push

        Raises
        ------
        ScenarioError
            If what it is made of is no change of the version.
        """


class OutgoingTransforms:
    """The transforms that messages of each node pass, in the order of the scenario.

    Parameters
    ----------
    layout : Layout
    n_nodes : int
    """

    def __init__(self, layout: Layout, n_nodes: int) -> None:
        self._layout = layout
        self._hides = {role: np.zeros(n_nodes, np.bool_) for role in sendable_widths(layout)}
        self._extra = np.zeros(n_nodes, np.int64)
        self._rewriting: list[tuple[str, Transform, Bools]] = []
        self._forged = np.zeros(n_nodes, np.bool_)

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
        if transform.rewrites:
            used = np.zeros(len(self._extra), np.bool_)
            used[nodes] = True
            self._rewriting.append((name, transform, used))

    def forge(self, nodes: I64) -> None:
        """Say that what some nodes send is written from scratch."""
        self._forged[nodes] = True

    def hides(self, role: BlockRole) -> Bools:
        """Return which nodes' messages lack the blocks of a role, shape (n_nodes,)."""
        return self._hides[role]

    @property
    def rewrites(self) -> Bools:
        """Which nodes' messages are rewritten or forged, shape (n_nodes,)."""
        rewrites = self._forged.copy()
        for *_, used in self._rewriting:
            rewrites |= used
        return rewrites

    def rewriting(self, node: int) -> list[tuple[str, Transform]]:
        """Return the names of a node's policies that rewrite its messages, with their transforms, in order."""
        return [(name, transform) for name, transform, used in self._rewriting if used[node]]

    @property
    def extra_bytes(self) -> I64:
        """What transforms add to each node's messages, shape (n_nodes,)."""
        return self._extra

    @property
    def message_bytes(self) -> I64:
        """Size of what each node sends: the blocks that leave, and what transforms add; shape (n_nodes,)."""
        leaves = [(~self._hides[role]) * width for role, width in sendable_widths(self._layout).items()]
        size: I64 = BYTES * np.sum(leaves, axis=0) + self._extra
        return size

    def _refuse(self, name: str, role: BlockRole) -> None:
        if role is not BlockRole.USER:
            raise ScenarioError(
                f"policies: {name} hides the {role.value} blocks, but receivers merge them; only the user's "
                "row can be withheld"
            )
        if self._layout.user_width == 0:
            raise ScenarioError(
                f"policies: {name} withholds the user's row, but the model has none; remove the policy"
            )
        if self._layout.n_users > 1:
            raise ScenarioError(
                f"policies: {name} withholds the user's row, but with protocol.user_table 'averaged' every "
                "node holds and sends all rows; set protocol.user_table to 'own'"
            )


forward(__name__)
