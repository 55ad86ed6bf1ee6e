"""A protocol in which nodes ask, give, thank and ignore: all that protocols that see messages can do."""

from __future__ import annotations

from gossiprec.compute.plan.tape import Behaviour, Op
from gossiprec.network.protocols import PROTOCOLS, Reaction, Send


class Talking(PROTOCOLS["rand-gossip"]):
    """On wake: send the model to one peer, and ask the others for theirs."""

    control_messages = {"ask": 40, "thanks": 8}  # noqa: RUF012
    role_behaviours = (
        Behaviour(
            on_wake=(Op.TRAIN, Op.PUSH),
            on_receive=(Op.BLEND,),
            on={"ask": (Op.TRAIN, Op.PUSH), "gift": (Op.PUSH, Op.BLEND), "thanks": (), "ignored": ()},
        ),
    )
    messages_per_wake = max_messages_per_wake = view_size = None

    def on_wake(self, node, now):
        one, *others = super().on_wake(node, now)
        return [*[Send(peer, "ask") for peer in others], Send(one)]

    def on_receive(self, message):
        if message.kind == "ask":
            return [message.reply("gift")]
        if message.kind == "gift":
            return [message.reply("thanks")]
        if message.kind == "thanks":
            return ()
        if message.id % 3:
            return Reaction("ignored")
        return Reaction(
            "gift", [message.reply("gift"), Send((message.receiver + 1) % self.n_users, "thanks")]
        )
