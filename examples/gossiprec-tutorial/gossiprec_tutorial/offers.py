"""Offers: a node announces its model in a few bytes, and sends it only to peers that want it."""

from __future__ import annotations

from pydantic import PositiveFloat

from gossiprec.compute.plan.tape import Behaviour, Op
from gossiprec.network.protocols import PROTOCOLS, Send
from gossiprec.network.protocols.epidemic import Epidemic, EpidemicOptions

OFFER, WANT = "offer", "want"


class OffersOptions(EpidemicOptions):
    """Options of the protocol."""

    patience: PositiveFloat = 2.0
    """time for which a node wants no other model of a peer from which it has one"""


@PROTOCOLS.register("offers")
class Offers(Epidemic):
    """On wake: train, and offer the model to random peers. Those that want it get it, unless they ask too late."""

    Options = OffersOptions
    messages_per_wake = view_size = None  # they depend on what arrives
    role_behaviours = (Behaviour((Op.TRAIN,), (Op.BLEND,), on={OFFER: (), WANT: (Op.PUSH,)}),)

    def __init__(self, options, **setting):
        super().__init__(options, **setting)
        self._last = {}  # the time at which each node last received a model of each peer

    @property
    def control_messages(self):
        """Sizes in bytes of the messages that carry no model."""
        return {OFFER: 32, WANT: 16}

    @property
    def max_messages_per_wake(self):
        """An offer, an answer and a model for each peer."""
        return 3 * self.options.receivers

    def predicted_fraction_met(self, rounds):
        """Return None: it is not known."""

    def on_wake(self, node, now):
        """Offer the model to the peers of this wake."""
        return [Send(peer, OFFER) for peer in super().on_wake(node, now)]

    def on_receive(self, message):
        """Want what is new, send what is wanted, and note what arrives."""
        pair = message.receiver, message.sender
        if message.kind == OFFER:
            age = message.time - self._last.get(pair, -1e9)
            return [message.reply(WANT)] if age > self.options.patience else []
        if message.kind == WANT:
            return [message.reply()] if message.time - message.answers.sent_at < self.options.patience else []
        self._last[pair] = message.time
        return []
