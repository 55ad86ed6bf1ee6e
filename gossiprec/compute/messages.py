"""Messages that nodes send: payloads, the transforms and forgeries that change them, and their sizes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gossiprec.base.arrays import F32, I32, I64, Bools
from gossiprec.base.errors import ScenarioError
from gossiprec.base.rng import generator
from gossiprec.models.base import BlockRole, Layout
from gossiprec.old_names import forward
from gossiprec.rules.aggregators.base import ModelDelta

BYTES = 4
"""Bytes of a number in a message, which is a float32."""


def sendable_widths(layout: Layout) -> dict[BlockRole, int]:
    """Return the count of numbers by block role that a message can carry; private weights never leave."""
    return {
        BlockRole.USER: layout.users.stop - layout.users.start,
        BlockRole.ITEM: layout.items.stop - layout.items.start,
        BlockRole.SHARED: layout.n_shared,
    }


@dataclass(frozen=True)
class MessagePayload:
    """The content of a message by block role.

    Attributes
    ----------
    users : ndarray of float32, shape (n_users, user_width), or None
        The user's row (or all rows, if nodes hold them), or None if it is withheld.
    items : ndarray of float32, shape (n_items, item_width) or (n_touched, item_width)
    shared : ndarray of float32, shape (n_shared,)
    touched : ndarray of int32, shape (n_touched,), or None
        The items of which an update holds the rows, or None if `items` holds all items.
    """

    users: F32 | None
    items: F32
    shared: F32
    touched: I32 | None = None

    @classmethod
    def of(cls, row: F32, layout: Layout, *, hides_user: bool) -> MessagePayload:
        """Return a copy of the parts of a row that a message carries."""
        users = row[layout.users].reshape(layout.n_users, -1).copy()
        items = row[layout.items].reshape(layout.n_items, -1).copy()
        return cls(None if hides_user else users, items, row[layout.shared].copy())

    @property
    def parts(self) -> list[F32]:
        """The arrays of the payload, without a withheld user row."""
        return [part for part in (self.users, self.items, self.shared) if part is not None]


@dataclass(frozen=True)
class PushContext:
    """The information that a transform has about the push that it encodes; it covers the sending node only.

    Attributes
    ----------
    node : int
    number : int
        Number of the push among the node's, from 0.
    items : ndarray of int32, shape (n_items_of_the_node,)
        The node's own training items.
    round : int
        Round of the push, from 1, counted by the coordinator's wakes, or in gossip by the node's own. It is 0 if rounds
        are not counted, as for pushes that are not forged.
    """

    seed: int
    node: int
    number: int
    items: I32
    round: int = 0

    def generator(self, purpose: str) -> np.random.Generator:
        """Return a generator that depends only on seed, purpose, node and push."""
        return generator(self.seed, purpose, self.node, self.number)


class Transform:
    """A policy's rewriting of its nodes' messages.

    One object serves all nodes of the policy, on any thread, so it must not keep state.

    Attributes
    ----------
    rewrites : bool
        Whether numbers change on their way out: :meth:`encode` is then called at each push.
    hides : frozenset of BlockRole
        Withheld blocks: receivers do not get them, and messages are smaller by them.
    extra_bytes : int
        Bytes that a message holds in addition to its blocks.
    """

    hides: ClassVar[frozenset[BlockRole]] = frozenset()
    rewrites: ClassVar[bool] = False
    extra_bytes: int = 0

    def encode(
        self, payload: MessagePayload, base: MessagePayload | None, push: PushContext
    ) -> MessagePayload:
        """Return the payload to send in place of the given one, with equal shapes and finite numbers.

        Parameters
        ----------
        payload : MessagePayload
            A copy, which may be changed, as rewritten by earlier policies of the scenario.
        base : MessagePayload or None
            A copy of the node's version before its last local update, without withheld blocks; for clients of FedAvg
            the version that they were sent. None if the node has not trained since its last push.
        push : PushContext
        """
        raise NotImplementedError(f"{type(self).__name__} rewrites messages but does not implement transform")


class WithholdUserRow(Transform):
    """A transform that leaves the user's row out of messages; private weights never leave."""

    hides = frozenset({BlockRole.USER})


class Forgery(ABC):
    """A source of forged messages, for nodes without data.

    One object may serve several nodes; it must not keep state from push to push.
    """

    @abstractmethod
    def forge(self, sent: MessagePayload, push: PushContext) -> ModelDelta:
        """Return the forged change of a version.

        Parameters
        ----------
        sent : MessagePayload
            A copy of the version: under FedAvg the one that the node was sent, in gossip its own.
        push : PushContext

        Raises
        ------
        ScenarioError
            If the inputs of the forgery do not give a valid change of the version.
        """


class OutgoingTransforms:
    """The transforms of each node's messages, in the order of the scenario.

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
        """Add a transform, of the policy `name`, to the messages of some nodes.

        Raises
        ------
        ScenarioError
            If it hides blocks that receivers need, or that no node has.
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
        """Mark the messages of some nodes as forged."""
        self._forged[nodes] = True

    def hides(self, role: BlockRole) -> Bools:
        """Return whether each node withholds the blocks of a role, shape (n_nodes,)."""
        return self._hides[role]

    @property
    def rewrites(self) -> Bools:
        """Whether each node's messages are rewritten or forged, shape (n_nodes,)."""
        rewrites = self._forged.copy()
        for *_, used in self._rewriting:
            rewrites |= used
        return rewrites

    def rewriting(self, node: int) -> list[tuple[str, Transform]]:
        """Return the names of a node's policies that rewrite its messages, with their transforms, in order."""
        return [(name, transform) for name, transform, used in self._rewriting if used[node]]

    @property
    def extra_bytes(self) -> I64:
        """Bytes that transforms add to each node's messages, shape (n_nodes,)."""
        return self._extra

    @property
    def message_bytes(self) -> I64:
        """Size of each node's messages in bytes: sent blocks and additions of transforms; shape (n_nodes,)."""
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
