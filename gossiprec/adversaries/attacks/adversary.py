"""Active adversaries: nodes of users that an attacker has taken over, which see, send what they like, and report."""

from __future__ import annotations

import copy
import threading
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from gossiprec.adversaries.attacks import Attack, AttackContext
from gossiprec.adversaries.attacks.observations import Observations
from gossiprec.base.arrays import I64
from gossiprec.base.errors import PluginError
from gossiprec.compute.messages import MessagePayload, PushContext


class NodeMemory(Mapping[int, dict[str, Any]]):
    """What each node of an adversary remembers: plain values, lists and arrays by name.

    While one node observes or forges, only its own memory can be read: what other nodes have seen by then depends on
    the order in which the emulator computes them.

    Parameters
    ----------
    nodes : ndarray of int64
    """

    def __init__(self, nodes: I64) -> None:
        self._parts: dict[int, dict[str, Any]] = {node: {} for node in nodes.tolist()}
        self._active = threading.local()

    def __getitem__(self, node: int) -> dict[str, Any]:
        active = getattr(self._active, "node", None)
        if active is not None and int(node) != active:
            raise PluginError(
                f"adversaries: found the memory of node {node} read while node {active} observes or forges; expected "
                f"that of node {active} only; combine the nodes in findings(), rankings() or item_scores()"
            )
        return self._parts[int(node)]

    def __iter__(self) -> Iterator[int]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    @contextmanager
    def only(self, node: int) -> Iterator[None]:
        """Let this thread read the memory of one node only until the body ends."""
        self._active.node = node
        try:
            yield
        finally:
            self._active.node = None


class Adversary(Attack):
    """Nodes of users that see what they receive, and send what they like.

    They wake, merge and train like other nodes; only what leaves them is theirs to decide. A scenario lists them in the
    section ``adversaries``, with their nodes. Reports are those of every attack: :meth:`findings`, :meth:`item_scores`,
    :meth:`guesses` and :meth:`rankings`.

    Attributes
    ----------
    memory : mapping of int to dict
        What each node remembers. Checkpoints and shards carry it; anything else that changes during a run is lost. In
        :meth:`observe` and :meth:`forge` only the memory of the node itself can be read, in reports that of all nodes.
    """

    sends: ClassVar[bool] = True
    memory: NodeMemory

    def __init__(self, options: Any, context: AttackContext) -> None:
        super().__init__(options, context)
        self.memory = NodeMemory(context.nodes)

    @property
    def nodes(self) -> I64:
        """The nodes that the scenario gives to the adversary, ascending."""
        return self.context.nodes

    def observe(self, seen: Observations) -> None:
        """Process one received model: the first and only delivery in `seen`, to the node ``seen.receivers[0]``.

        Models come in the order in which the node merges them, before it sends its next message. Clients without a
        model (``client_model: none``) receive none; :meth:`forge` gets the version that they were sent.
        """

    @abstractmethod
    def forge(
        self, message: MessagePayload, base: MessagePayload | None, push: PushContext
    ) -> MessagePayload | None:
        """Return the payload that the node ``push.node`` sends in place of a message, or None to send it as it is.

        Parameters
        ----------
        message : MessagePayload
            A copy of the message, after the policies of the node. What is returned has the same shapes and finite
            numbers; an update may name other items (`touched`, ascending) with a row for each.
        base : MessagePayload or None
            A copy of the node's version before its last local update: with a coordinator the version that it was sent.
            None if the node has not trained since its last message.
        push : PushContext
        """

    def state(self, now: float) -> Mapping[str, Any]:
        """Return the memory of all nodes, for a checkpoint."""
        return self.export_node_state(self.nodes, whole=True)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the memory of all nodes."""
        self.import_node_state(self.nodes, state)

    def export_node_state(self, nodes: I64, *, whole: bool) -> Mapping[str, Any]:
        """Return copies of the memory of some nodes."""
        return {str(node): copy.deepcopy(self.memory[node]) for node in nodes.tolist()}

    def import_node_state(self, nodes: I64, state: Mapping[str, Any]) -> None:
        """Take over the memory of some nodes."""
        for node in nodes.tolist():
            self.memory[node].clear()
            self.memory[node].update(copy.deepcopy(dict(state[str(node)])))
