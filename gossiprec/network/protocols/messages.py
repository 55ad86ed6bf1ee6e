"""Messages as protocols see them: those that arrive, those to send, and the book of messages in transit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gossiprec.base.errors import ScenarioError
from gossiprec.base.registry import registry_name
from gossiprec.compute.plan.tape import MERGING, Op, operations_by_slot, slot_names

if TYPE_CHECKING:
    from gossiprec.network.protocols import Protocol

UPDATES = "client-updates"
"""The run mode of clients without a model."""
MODEL = "model"
"""The kind of messages with a model that a protocol does not name."""
MAX_BYTES = 2**31 - 2
"""Largest size of a control message: the log holds sizes as 32-bit integers."""


class Message(NamedTuple):
    """A message that has arrived.

    Attributes
    ----------
    id : int
        Its number in the run, in the order of sending.
    sender, receiver : int
    kind : str
    sent_at, time : float
        Virtual times at which it left its sender, and arrived.
    answers : Message or None
        The message that it answers, without what that one answered.
    """

    id: int
    sender: int
    receiver: int
    kind: str
    sent_at: float
    time: float
    answers: Message | None

    def reply(self, kind: str = MODEL) -> Send:
        """Return an answer to the sender."""
        return Send(self.sender, kind, self)


class Send(NamedTuple):
    """A message to send.

    Attributes
    ----------
    receiver : int
    kind : str
        A kind of control message, or of messages that carry the sender's model.
    answers : Message, optional
        The arrived message that it answers.
    """

    receiver: int
    kind: str = MODEL
    answers: Message | None = None


@dataclass(frozen=True)
class Reaction:
    """The reaction of a node to a message, if its operations do not follow from the kind of the message.

    Attributes
    ----------
    operations : str
        Name of the operations in :attr:`gossiprec.compute.plan.tape.Behaviour.on`.
    sends : sequence of Send
    """

    operations: str
    sends: Sequence[Send] = ()


class _InTransit(NamedTuple):
    """A message in transit; `caused` is the number of messages that follow from the same wake, as a list of one."""

    sender: int
    kind: str
    sent_at: float
    answers: Message | None
    caused: list[int]


class MessageBook:
    """The messages in transit of a protocol that sees messages; the engine calls it in place of the protocol.

    Parameters
    ----------
    protocol : Protocol

    Attributes
    ----------
    slot, heard_control, controls
        As in :class:`gossiprec.network.sim.engine.Book`.

    Raises
    ------
    ScenarioError
        If a control message has no size, or a role would merge it.
    """

    def __init__(self, protocol: Protocol) -> None:
        self.slot, self.heard_control = 0, False
        self.controls: Sequence[int] = []
        self._protocol = protocol
        self._roles: list[int] = protocol.roles.tolist()
        self._slots = {name: number for number, name in enumerate(slot_names(protocol.role_behaviours), 2)}
        self._operations = operations_by_slot(protocol.role_behaviours)
        self._control = {kind: number for number, kind in enumerate(protocol.control_messages, 1)}
        self._size = {number: protocol.control_messages[kind] for kind, number in self._control.items()}
        self._of_updates = protocol.mode_of(protocol.options) == UPDATES
        self._transit: dict[int, _InTransit] = {}
        self._heard: _InTransit | None = None
        self._arrived_at: list[int] = []  # receiver of each message that has arrived, else -1
        self._check_controls()

    @classmethod
    def of(cls, protocol: Protocol) -> MessageBook | None:
        """Return the book of a protocol, or None if the protocol does not see messages.

        Raises
        ------
        ScenarioError
            If the protocol cannot have messages of several kinds.
        """
        mode = protocol.mode_of(protocol.options)
        if protocol.sees_messages and mode not in ("whole-models", UPDATES):
            raise ScenarioError(
                f"protocol {registry_name(protocol)}: found on_receive in the run mode {mode}; expected nodes that "
                "send models, or clients that send updates; use on_delivery"
            )
        if protocol.control_messages and not protocol.sees_messages:
            raise ScenarioError(
                f"protocol {registry_name(protocol)}: found control_messages, but no on_receive; define "
                "on_receive(message), which may return ()"
            )
        return cls(protocol) if protocol.sees_messages else None

    def _check_controls(self) -> None:
        for kind, size in self._protocol.control_messages.items():
            if not isinstance(size, int) or not 1 <= size <= MAX_BYTES:
                raise ScenarioError(
                    f"{self._name}: control_messages: found a size of {size} bytes for {kind!r}; expected 1 to "
                    f"{MAX_BYTES}"
                )
            for role, behaviour in enumerate(self._protocol.role_behaviours):
                operations = behaviour.on.get(kind)
                if operations is None or MERGING & set(operations):
                    found = "no operations" if operations is None else "a merge"
                    raise ScenarioError(
                        f"{self._name}: role_behaviours: found {found} for {kind!r} in role {role}, but "
                        f"control messages carry no model; add {kind!r} to `on` with operations that merge "
                        "nothing, for example ()"
                    )
        clients = self._protocol.role_behaviours[self._roles[0]]
        if self._of_updates and any(clients.on.values()):
            kind = next(kind for kind, operations in clients.on.items() if operations)
            raise ScenarioError(
                f"{self._name}: role_behaviours: found operations of clients on receiving {kind!r}; expected (), for a "
                "client without a model has a version only while it answers it; let only models have operations"
            )

    @property
    def _name(self) -> str:
        return f"protocol {registry_name(self._protocol)}"

    def on_wake(self, node: int, now: float) -> Sequence[int]:
        """Return the messages that the node sends on its wake."""
        self._heard = None
        return self._protocol.on_wake(node, now)

    def on_missed_wake(self, node: int, now: float) -> None:
        """Pass the missed wake to the protocol."""
        self._protocol.on_missed_wake(node, now)

    def on_delivery(self, node: int, message: int, now: float) -> Sequence[int]:
        """Pass a message to the protocol; return the messages that the node sends."""
        heard = self._heard = self._transit.pop(message)
        self.heard_control = heard.kind in self._control
        self._arrived_at[message] = node
        found = self._protocol.on_receive(
            Message(message, heard.sender, node, heard.kind, heard.sent_at, now, heard.answers)
        )
        operations, sends = (
            (found.operations, found.sends) if isinstance(found, Reaction) else (heard.kind, found)
        )
        self.slot = self._slots.get(operations, 0)
        if isinstance(found, Reaction):
            self._check_reaction(node, now, operations)
        if self._of_updates and node < self._protocol.n_users:
            self._check_answer(node, now, heard.kind, sends)
        return sends  # type: ignore[return-value]

    def _check_reaction(self, node: int, now: float, operations: str) -> None:
        if operations not in self._slots:
            raise self._error(node, now, f"operations {operations!r}", f"one of {[*self._slots]}")
        if self.heard_control and MERGING & set(self._operations[self._roles[node]][self.slot]):
            raise self._error(node, now, f"a merge ({operations!r}) of a control message", "no merge")

    def post(self, node: int, first: int, sent_at: float, sends: Sequence[int | Send]) -> Sequence[int]:
        """Note messages first, first + 1, ..., of which those with models come first; return their receivers."""
        heard = self._heard
        made = [send if isinstance(send, Send) else Send(send) for send in sends]
        made.sort(key=lambda send: send.kind in self._control)
        caused = [0] if heard is None else heard.caused
        caused[0] += len(made)
        limit = self._protocol.max_answers
        if heard is not None and caused[0] > limit:
            raise self._error(
                node, sent_at, f"more than {limit} messages that follow from one wake", "an end of the answers",
                "let on_receive answer fewer messages, or raise the protocol's `max_answers`",
            )  # fmt: skip
        self._arrived_at += [-1] * (first + len(made) - len(self._arrived_at))
        operations = self._operations[self._roles[node]][0 if heard is None else self.slot or 1]
        for message, send in enumerate(made, first):
            self._check_send(node, sent_at, send, Op.PUSH in operations)
            answers = None if send.answers is None else send.answers._replace(answers=None)
            self._transit[message] = _InTransit(node, send.kind, sent_at, answers, caused)
        self.controls = [self._control.get(send.kind, 0) for send in made]
        return [send.receiver for send in made]

    def _check_answer(self, node: int, now: float, heard: str, sends: Sequence[int | Send]) -> None:
        """Refuse a client that does not answer each version once: memory and rounds are planned by that."""
        made = [send if isinstance(send, Send) else Send(send) for send in sends]
        found = [send.receiver for send in made if send.kind not in self._control]
        expected = [] if heard in self._control else [self._protocol.n_users]
        if found != expected:
            raise self._error(
                node, now, f"models to {found} after {heard!r}",
                f"models to {expected}, for a client without a model answers each version once",
                "send it no version that it must not answer",
            )  # fmt: skip

    def _check_send(self, node: int, now: float, send: Send, pushes: bool) -> None:
        receiver, kind, answers = send
        if not isinstance(receiver, (int, np.integer)) or not 0 <= receiver < len(self._roles):
            raise self._error(node, now, f"receiver {receiver}", f"a node, 0 to {len(self._roles) - 1}")
        if kind != MODEL and kind not in self._slots:
            raise self._error(
                node, now, f"a message of kind {kind!r}", f"{MODEL!r} or one of {[*self._slots]}"
            )
        if kind not in self._control and not pushes:
            raise self._error(node, now, f"a model ({kind!r}) to send", "Op.PUSH in the node's operations")
        if answers is not None:
            known = isinstance(answers, Message) and 0 <= answers.id < len(self._arrived_at)
            if not known or self._arrived_at[answers.id] != node:
                raise self._error(
                    node,
                    now,
                    f"an answer to {answers}, which has not arrived there",
                    "a message that has arrived",
                )

    def _error(self, node: int, now: float, found: str, expected: str, step: str = "") -> ScenarioError:
        advice = f"; {step}" if step else ""
        return ScenarioError(
            f"{self._name}: node {node} at virtual time {now:g}: found {found}; expected {expected}{advice}"
        )

    def size_of(self, message: int) -> int | None:
        """Return the size of a control message in transit; None if it carries a model."""
        return self._size.get(self._control.get(self._transit[message].kind, 0))

    def lost(self, message: int) -> bool:
        """Note that a message is lost; return whether it was a control message."""
        return self._transit.pop(message).kind in self._control
