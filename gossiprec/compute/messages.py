"""Messages that nodes send: payloads, the transforms and forgeries that change them, and their sizes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from gossiprec.base.arrays import F32, I32, I64, Bools
from gossiprec.base.errors import ScenarioError
from gossiprec.base.isolation import is_foreign
from gossiprec.base.rng import generator, philox_words
from gossiprec.models.base import BlockRole, Layout
from gossiprec.rules.aggregators import ModelDelta

BYTES = 4
"""Bytes of a number in a message, which is a float32."""


@dataclass(frozen=True)
class MessageSize:
    """The size of a message: its numbers, the bits of each, and the bytes in addition."""

    n_numbers: int
    bits: int = 8 * BYTES
    overhead: int = 0

    @property
    def bytes(self) -> int:
        """The size in bytes."""
        return -(-self.n_numbers * self.bits // 8) + self.overhead


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
    sent : ndarray of bool, shape (n_numbers,), or None
        Which of the numbers in :attr:`flat` are sent, or None if all are. Receivers of models keep their own value of
        the others; a coordinator to which clients send updates takes that of its version.
    bits : int
        Bits of a sent number in the message.
    overhead : int
        Bytes of the message in addition to its numbers, such as the places of the numbers that are sent.
    n_numbers : int or None
        Count of numbers from which receivers compute all others, or None if each number is sent as it is.
    """

    users: F32 | None
    items: F32
    shared: F32
    touched: I32 | None = None
    sent: Bools | None = None
    bits: int = 8 * BYTES
    overhead: int = 0
    n_numbers: int | None = None

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

    @property
    def flat(self) -> F32:
        """A copy of all numbers: the user's, the items', and the shared weights, shape (n_numbers,)."""
        return np.concatenate([part.ravel() for part in self.parts])

    def with_numbers(self, flat: F32) -> MessagePayload:
        """Return the payload with other numbers, in the order of :attr:`flat`."""
        ends = np.cumsum([part.size for part in self.parts])
        *users, items, shared = np.split(flat, ends[:-1])
        return replace(
            self,
            users=None if self.users is None else users[0].reshape(self.users.shape),
            items=items.reshape(self.items.shape),
            shared=shared.reshape(self.shared.shape),
        )

    @property
    def size_bytes(self) -> int:
        """Size of the message in bytes: the numbers that are sent, and the overhead."""
        count = sum(part.size for part in self.parts) if self.sent is None else np.count_nonzero(self.sent)
        count = count if self.n_numbers is None else self.n_numbers
        return MessageSize(int(count), self.bits, self.overhead).bytes


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
        Round of the push, from 1, counted by the coordinator's wakes, or in gossip by the node's own.
    receivers : ndarray of int64, shape (n_receivers,)
        The receivers of the push, each once, in the order of sending.
    cohort : ndarray of int64, shape (n_clients,)
        With a coordinator, the clients that it sent this version to together with the node, ascending; empty in gossip,
        if no node knows with which others its message will be merged.
    memory : ndarray of float32, shape (n_numbers,)
        What the transform or forgery has written there at the node's pushes so far, zero at first, if it keeps a
        memory; else empty. Encoding may change it.
    """

    seed: int
    node: int
    number: int
    items: I32
    round: int = 0
    receivers: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    cohort: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    memory: F32 = field(default_factory=lambda: np.zeros(0, np.float32))

    def generator(self, purpose: str) -> np.random.Generator:
        """Return a generator that depends only on seed, purpose, node and push."""
        return generator(self.seed, purpose, self.node, self.number)


class Transform:
    """A policy's rewriting of its nodes' messages.

    One object serves all nodes of the policy, on any thread, so it must not keep state; what a node's next push depends
    on belongs into :attr:`PushContext.memory`.

    Attributes
    ----------
    rewrites : bool
        Whether numbers change on their way out: :meth:`encode` is then called at each push.
    hides : frozenset of BlockRole
        Withheld blocks: receivers do not get them, and messages are smaller by them.
    per_receiver : bool
        Whether each receiver of a push may be sent something else: :meth:`encode` is then called for each, with the
        receiver as its last argument.
    is_partial : bool
        Whether messages may lack numbers (:attr:`MessagePayload.sent`).
    resizes : bool
        Whether the size of a message is that of the encoded payload (:attr:`MessagePayload.size_bytes`), not that of
        its blocks.
    keeps_memory : bool
        Whether a node's pushes depend on its earlier ones, by :attr:`PushContext.memory`.
    sums_updates : bool
        Whether the memory also gets each local update after which nothing was sent, number by number.
    extra_bytes : int
        Bytes that a message holds in addition to its blocks.
    cut : Cut or None
        How models are cut into pieces, if :meth:`encode` leaves one piece of them and changes nothing else. If no other
        transform rewrites a node's messages, receivers read the piece in its version; :meth:`encode` is not called.
    has_fixed_size : bool
        Whether each message of a whole model has the planned size (:meth:`planned_size`).
    n_virtual_nodes : int
        Number of identities under which a node sends, one for each piece; 0 if it sends under its own id.
    """

    hides: ClassVar[frozenset[BlockRole]] = frozenset()
    rewrites: ClassVar[bool] = False
    per_receiver: ClassVar[bool] = False
    is_partial: ClassVar[bool] = False
    resizes: ClassVar[bool] = False
    keeps_memory: ClassVar[bool] = False
    sums_updates: ClassVar[bool] = False
    extra_bytes: int = 0
    has_fixed_size: ClassVar[bool] = False
    cut: Cut | None = None
    n_virtual_nodes: int = 0

    def planned_size(self, size: MessageSize) -> MessageSize:
        """Return the largest size of an encoded message, which decides how long sending it takes, given that before."""
        return size

    def encode(
        self, payload: MessagePayload, base: MessagePayload | None, push: PushContext
    ) -> MessagePayload:
        """Return the payload to send in place of the given one, with equal shapes and finite numbers.

        A transform that is :attr:`per_receiver` gets the receiver of the message as a fourth argument.

        Parameters
        ----------
        payload : MessagePayload
            A copy, which may be changed, as rewritten by earlier policies of the scenario.
        base : MessagePayload or None
            A copy of the node's version before its last local update, without withheld blocks; for clients of FedAvg
            the version that they were sent. None if the node has not trained since its last push.
        push : PushContext
        """
        raise NotImplementedError(f"{type(self).__name__} rewrites messages but does not define encode()")


class WithholdUserRow(Transform):
    """A transform that leaves the user's row out of messages; private weights never leave."""

    hides = frozenset({BlockRole.USER})


class Forgery(ABC):
    """A source of forged messages, for nodes without data.

    One object may serve several nodes; it must not keep state from push to push, except in :attr:`PushContext.memory`.

    Attributes
    ----------
    memory_numbers : int
        Numbers that each node keeps from push to push, zero at first.
    """

    memory_numbers: int = 0

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

    Attributes
    ----------
    extra_bytes : ndarray of int64, shape (n_nodes,)
        Bytes that transforms add to each node's messages.
    """

    def __init__(self, layout: Layout, n_nodes: int) -> None:
        self.layout = layout
        self._hides = {role: np.zeros(n_nodes, np.bool_) for role in sendable_widths(layout)}
        self.extra_bytes = np.zeros(n_nodes, np.int64)
        self._rewriting: list[tuple[str, Transform, Bools]] = []
        self._forged = np.zeros(n_nodes, np.bool_)
        self._taken_over = np.zeros(n_nodes, np.bool_)
        self._remembering = np.zeros(n_nodes, np.bool_)

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
        self.extra_bytes[nodes] += transform.extra_bytes
        if transform.rewrites:
            used = np.zeros(len(self.extra_bytes), np.bool_)
            used[nodes] = True
            self._rewriting.append((name, transform, used))
            self._refuse_memory_by_receiver(nodes)

    def mark_forged(self, nodes: I64, *, remembers: bool = False) -> None:
        """Mark the messages of some nodes as forged, and whether each push depends on earlier ones."""
        self._forged[nodes] = True
        self._remembering[nodes] = remembers

    def take_over(self, nodes: I64) -> None:
        """Mark nodes of which an adversary decides what they send, by what they have received and sent so far."""
        self._taken_over[nodes] = True

    def withholds_role(self, role: BlockRole) -> Bools:
        """Return whether each node withholds the blocks of a role, shape (n_nodes,)."""
        return self._hides[role]

    @property
    def rewrites_messages(self) -> Bools:
        """Whether each node's messages are rewritten or forged, shape (n_nodes,)."""
        rewrites = self._forged | self._taken_over
        for *_, used in self._rewriting:
            rewrites |= used
        return rewrites

    @property
    def writes_rows(self) -> Bools:
        """Whether each node's messages are rows of their own, and not its versions or pieces of them."""
        return self.rewrites_messages & ~self.only_cuts

    def rewriting_transforms(self, node: int) -> list[tuple[str, Transform]]:
        """Return the names of a node's policies that rewrite its messages, with their transforms, in order."""
        return [(name, transform) for name, transform, used in self._rewriting if used[node]]

    def nodes_with(self, flag: str) -> Bools:
        """Return whether a transform of each node has a flag, such as `is_partial`, shape (n_nodes,)."""
        found = np.zeros(len(self.extra_bytes), np.bool_)
        for _, transform, used in self._rewriting:
            if getattr(transform, flag):
                found |= used
        return found & ~self._forged

    @property
    def in_order(self) -> Bools:
        """Whether each push of a node waits for its earlier pushes and merges, shape (n_nodes,)."""
        return self.nodes_with("keeps_memory") | self._taken_over | self._remembering

    @property
    def cuts(self) -> list[tuple[Cut, Bools]]:
        """The cuts of models into pieces, each with the nodes that use it."""
        return [
            (transform.cut, used & ~self._forged) for _, transform, used in self._rewriting if transform.cut
        ]

    @property
    def only_cuts(self) -> Bools:
        """Whether messages of each node are pieces of its versions and differ in nothing else, shape (n_nodes,)."""
        return self.nodes_with("cut") & self._has_one_transform

    @property
    def fixed_sizes(self) -> Bools:
        """Whether all messages of each node have the planned size, shape (n_nodes,)."""
        return self.nodes_with("has_fixed_size") & self._has_one_transform

    @property
    def packed_counts(self) -> I64:
        """Count of numbers in each node's messages if their transform can pack them, else 0; shape (n_nodes,)."""
        found, alone = np.zeros(len(self.extra_bytes), np.int64), self._has_one_transform & ~self._forged
        numbers = self._numbers
        for _, transform, used in self._rewriting:
            if isinstance(transform, RowTransform):
                for n in np.unique(numbers[used & alone]).tolist():
                    found[used & alone & (numbers == n)] = transform.packed_count(n)
        return found

    @property
    def _has_one_transform(self) -> Bools:
        """Whether one transform of gossiprec, and nothing else, rewrites the messages of each node."""
        counts = np.zeros(len(self.extra_bytes), np.int64)
        for _, transform, used in self._rewriting:
            counts[used] += 2 if is_foreign(transform) else 1
        return np.asarray((counts == 1) & ~self._taken_over)

    @property
    def message_bytes(self) -> I64:
        """Size of each node's messages in bytes: sent blocks and additions of transforms; shape (n_nodes,)."""
        return BYTES * self._numbers + self.extra_bytes

    @property
    def planned_bytes(self) -> I64:
        """The largest size of each node's messages that is known before the run, shape (n_nodes,)."""
        sizes = [MessageSize(int(count)) for count in self._numbers]
        for _, transform, used in self._rewriting:
            for node in np.flatnonzero(used & ~self._forged).tolist():
                sizes[node] = transform.planned_size(sizes[node])
        return np.array([size.bytes for size in sizes], np.int64) + self.extra_bytes

    @property
    def _numbers(self) -> I64:
        leaves = [(~self._hides[role]) * width for role, width in sendable_widths(self.layout).items()]
        return np.asarray(np.sum(leaves, axis=0), np.int64)

    def _refuse_memory_by_receiver(self, nodes: I64) -> None:
        both = self.nodes_with("keeps_memory") & self.nodes_with("per_receiver")
        if both[nodes].any():
            names = " and ".join(name for name, *_ in (self.rewriting_transforms(int(nodes[both[nodes]][0]))))
            raise ScenarioError(
                f"policies: {names}: one sends each receiver something else, another remembers what all receivers were "
                "sent; use only one of them on a node"
            )

    def _refuse(self, name: str, role: BlockRole) -> None:
        if role is not BlockRole.USER:
            raise ScenarioError(
                f"policies: {name} hides the {role.value} blocks, but receivers merge them; only the user's "
                "row can be withheld"
            )
        if self.layout.user_width == 0:
            raise ScenarioError(
                f"policies: {name} withholds the user's row, but the model has none; remove the policy"
            )
        if self.layout.n_users > 1:
            raise ScenarioError(
                f"policies: {name} withholds the user's row, but with protocol.user_table 'averaged' every "
                "node holds and sends all rows; set protocol.user_table to 'own'"
            )


@dataclass(frozen=True)
class PushKeys:
    """The random bits of some pushes.

    Attributes
    ----------
    seed : int
    node, number : ndarray of int64, shape (n,)
        The sender of each push, and the number of the push among the node's.
    """

    seed: int
    node: I64
    number: I64
    _drawn: dict[int, I64] = field(default_factory=dict)

    def of(self, purpose: int) -> I64:
        """Return 32 random bits for each push, equal for all its receivers."""
        if purpose not in self._drawn:
            words = philox_words(self.seed, 0, self.number, self.node, purpose)
            self._drawn[purpose] = words[:, 0].astype(np.int64)
        return self._drawn[purpose]


@dataclass(frozen=True)
class Cut:
    """A cut of models into disjoint pieces that cover them; each receiver of a push is sent one piece.

    Attributes
    ----------
    n_pieces : int
    contiguous : bool
        Whether a piece holds neighbouring numbers; else every n-th number.
    purpose : int
        Purpose of the random shift of each push.
    header : int
        Bytes of a message that name the piece.
    """

    n_pieces: int
    contiguous: bool
    purpose: int
    header: int

    def pieces(self, bits: I64, place: I64) -> I64:
        """Return the piece in each message, given random bits of its push and the receiver's place."""
        return (place + bits) % self.n_pieces

    def columns(self, piece: I64, begin: I64, end: int) -> tuple[I64, I64, I64]:
        """Return the first column, the end and the step of each piece of rows with numbers in ``begin .. end``."""
        if not self.contiguous:
            return begin + piece, np.full_like(piece, end), np.full_like(piece, self.n_pieces)
        width = end - begin
        low, high = (begin + part * width // self.n_pieces for part in (piece, piece + 1))
        return low, high, np.ones_like(piece)


@dataclass(frozen=True)
class PushedRows:
    """The messages of some pushes, one row each: the user's numbers, the items', and the shared weights.

    Attributes
    ----------
    values : ndarray of float32, shape (n, width)
        The numbers to send, NaN if a number is not sent; encoding changes them.
    bases : ndarray of float32, shape (n, width), or None
        The versions before the local update, equal to `values` if there was none; None if the transform needs no base.
    memory : ndarray of float32, shape (n_nodes, width), or (1, width)
        What the transform remembers of nodes; encoding changes it.
    ends : tuple of int
        The ends of the user's numbers, the items' and the shared weights.
    pushes : PushKeys
        More pushes, and in `among` which of them these are.
    place, n_receivers : ndarray of int64, shape (n,)
        Place of the receiver among the receivers of the push, and their number; 0 and 1 if all are sent the same.
    """

    values: F32
    bases: F32 | None
    memory: F32
    ends: tuple[int, int, int]
    pushes: PushKeys
    among: slice
    place: I64
    n_receivers: I64

    @property
    def memory_row(self) -> I64:
        """The row of :attr:`memory` of each sender, shape (n,)."""
        return self.pushes.node[self.among] if len(self.memory) > 1 else np.zeros(len(self.values), np.int64)

    def keys(self, purpose: int) -> I64:
        """Return 32 random bits for each push, equal for all its receivers."""
        return self.pushes.of(purpose)[self.among]


class PackedRows(NamedTuple):
    """Pushes of which the messages are packed.

    Attributes
    ----------
    source, base, target : ndarray of int32, shape (n,)
        The rows of the versions to send, of those before the local update, and of the messages.
    memory : ndarray of float32, shape (n_nodes, n_columns)
    pushes : PushKeys
    begin, end : int
        The columns of rows that a message may have.
    first : int
        The column of rows from which on numbers are packed.
    """

    source: I32
    base: I32
    target: I32
    memory: F32
    pushes: PushKeys
    begin: int
    end: int
    first: int


class RowTransform(Transform):
    """A transform that encodes many pushes per call."""

    rewrites = True
    resizes = True
    needs_base: ClassVar[bool] = False
    """Whether it reads :attr:`PushedRows.bases`."""

    def packed_count(self, n_numbers: int) -> int:
        """Return how many of its numbers each message has, if :meth:`pack_rows` packs them, else 0."""
        return 0

    def pack_rows(self, rows: F32, packed: PackedRows) -> None:
        """Write packed numbers of versions to the rows of messages."""
        raise NotImplementedError(f"{type(self).__name__} packs no rows")

    @abstractmethod
    def encode_rows(self, rows: PushedRows) -> None:
        """Encode the values in place."""

    @abstractmethod
    def resized(self, payload: MessagePayload) -> MessagePayload:
        """Return an encoded payload with the bits of a number and the overhead of the message."""

    def encode(
        self, payload: MessagePayload, base: MessagePayload | None, push: PushContext, *receiver: int
    ) -> MessagePayload:
        """Return the encoded payload."""
        before = payload.flat
        values = before.copy() if payload.sent is None else np.where(payload.sent, before, np.float32(np.nan))
        bases = (values if base is None else base.flat)[None] if self.needs_base else None
        place = int(np.flatnonzero(push.receivers == receiver[0])[0]) if receiver else 0
        keys = PushKeys(push.seed, np.array([push.node]), np.array([push.number]))
        n_receivers = np.array([len(push.receivers) if receiver else 1])
        ends = np.cumsum(
            [0 if payload.users is None else payload.users.size, payload.items.size, payload.shared.size]
        )
        rows = PushedRows(
            values[None], bases, push.memory[None], tuple(ends.tolist()), keys, slice(1), np.array([place]),
            n_receivers,
        )  # fmt: skip
        self.encode_rows(rows)
        missing = np.isnan(values)
        encoded = payload.with_numbers(np.where(missing, before, values))
        return self.resized(replace(encoded, sent=~missing if missing.any() else payload.sent))


def check_forged(where: str, found: Any, message: MessagePayload, n_items: int) -> MessagePayload:
    """Return the message with forged numbers.

    Parameters
    ----------
    where : str
        The adversary, the node and the push, for errors.
    found : MessagePayload or None
        What the adversary sends; None for the message as it is.
    message : MessagePayload
        What the node would send.
    n_items : int

    Raises
    ------
    ScenarioError
        If the two do not fit, or a number is not finite; it names the field, what was found, and what is expected.
    """
    if found is None:
        return message
    if not isinstance(found, MessagePayload):
        raise ScenarioError(
            f"{where}: forge() returned {type(found).__name__}; expected a MessagePayload, or None to send the message "
            "as it is; fix the adversary"
        )
    _check_parts(where, found, message, n_items)
    users = None if found.users is None else np.array(found.users, np.float32)
    items, shared = np.array(found.items, np.float32), np.array(found.shared, np.float32)
    touched, sent = message.touched, message.sent
    if touched is not None and found.touched is not None and not np.array_equal(touched, found.touched):
        touched, sent = np.array(found.touched, np.int32), None
    return replace(message, users=users, items=items, shared=shared, touched=touched, sent=sent)


def _check_parts(where: str, found: MessagePayload, message: MessagePayload, n_items: int) -> None:
    """Refuse parts of other shapes, of other items, or with numbers that are not finite."""
    shapes = {part: np.shape(getattr(message, part)) for part in ("items", "shared")}
    if message.touched is not None:
        touched = np.asarray(message.touched if found.touched is None else found.touched)
        if (
            touched.ndim != 1
            or (len(touched) and not 0 <= touched.min() <= touched.max() < n_items)
            or (np.diff(touched) <= 0).any()
        ):
            raise ScenarioError(
                f"{where}: touched is {touched.tolist()}; expected ascending items from 0 to {n_items - 1}; fix forge()"
            )
        shapes["items"] = (len(touched), *shapes["items"][1:])
    if (found.users is None) != (message.users is None):
        hides, sends = (
            ("sends no user row", "sends one") if message.users is None else ("sends one", "sends none")
        )
        raise ScenarioError(
            f"{where}: users: found a message that {sends}; expected the node's own, which {hides}; fix forge()"
        )
    if message.users is not None:
        shapes["users"] = np.shape(message.users)
    for part, expected in shapes.items():
        numbers = np.asarray(getattr(found, part))
        if numbers.shape != expected:
            raise ScenarioError(
                f"{where}: {part}: found shape {numbers.shape}; expected {expected}, as the node would send; "
                "fix forge()"
            )
        if not np.isfinite(numbers).all():
            raise ScenarioError(
                f"{where}: {part}: found NaN or infinite values; expected finite numbers; lower training.learning_rate "
                "if the model has diverged, otherwise fix forge()"
            )
