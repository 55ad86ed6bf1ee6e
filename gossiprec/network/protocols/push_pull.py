"""Push-pull anti-entropy: a node exchanges models with random nodes, or asks them for theirs.

References
----------
A. Demers, D. Greene, C. Hauser, W. Irish, J. Larson, S. Shenker, H. Sturgis, D. Swinehart, D. Terry, "Epidemic
algorithms for replicated database maintenance", PODC 1987, section 1.3: push, pull and push-pull; M. Jelasity,
A. Montresor, O. Babaoglu, "Gossip-based aggregation in large dynamic networks", ACM TOCS 2005: push-pull averaging.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from gossiprec.base.options import Count
from gossiprec.compute.plan.tape import Behaviour, Op
from gossiprec.network.protocols import PROTOCOLS
from gossiprec.network.protocols.epidemic import Epidemic, EpidemicOptions
from gossiprec.network.protocols.messages import Message, Send

REQUEST, PUSH = "request", "push"


class PushPullOptions(EpidemicOptions):
    """Options of push-pull gossip."""

    receivers: Count = 1
    """number of random nodes with which a node exchanges models per wake"""
    exchange: Literal["push-pull", "pull"] = "push-pull"
    """push-pull: a node sends its model, the other answers with its own, and both merge; pull: a node asks for the
    model of the other, and only the node that asks merges"""
    request_bytes: Count = 64
    """size of a request in bytes, for pull"""


@PROTOCOLS.register("push-pull")
class PushPull(Epidemic):
    """On wake: train, and send the model, or a request, to random nodes. On receive: answer with the own model."""

    Options = PushPullOptions
    options: PushPullOptions
    messages_per_wake = None
    view_size = None

    @property
    def max_messages_per_wake(self) -> int:
        """Messages to the receivers, and their answers."""
        return 2 * self.options.receivers

    @property
    def control_messages(self) -> Mapping[str, int]:
        """The request of a pull."""
        return {REQUEST: self.options.request_bytes} if self.options.exchange == "pull" else {}

    @property
    def role_behaviours(self) -> Sequence[Behaviour]:
        """A model is answered with the version from before it is merged, so that both nodes merge the same two."""
        if self.options.exchange == "pull":
            return [Behaviour((Op.TRAIN,), (Op.BLEND,), on={REQUEST: (Op.PUSH,)})]
        return [Behaviour((Op.TRAIN, Op.PUSH), (Op.BLEND,), on={PUSH: (Op.PUSH, Op.BLEND)})]

    def on_wake(self, node: int, now: float) -> Sequence[Send]:  # type: ignore[override]
        """Return messages to the random nodes of this wake."""
        kind = REQUEST if self.options.exchange == "pull" else PUSH
        return [Send(peer, kind) for peer in super().on_wake(node, now)]

    def on_receive(self, message: Message) -> Sequence[Send]:
        """Return the answer to a model that was pushed, or to a request."""
        return [message.reply()] if message.kind in (REQUEST, PUSH) else ()

    def predicted_fraction_met(self, rounds: float) -> float:
        """Return ``1 - (1 - s / (N - 1))**(k V)`` after V wakes; k is 2, since both of a pair can begin (pull: 1)."""
        return super().predicted_fraction_met(rounds if self.options.exchange == "pull" else 2.0 * rounds)
