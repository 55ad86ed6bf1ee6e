"""Protocols: the actions of a node on wake and on receive. One file per protocol."""

from __future__ import annotations

from gossiprec.base.registry import Registry
from gossiprec.network.protocols.base import Protocol
from gossiprec.network.protocols.messages import Message, Reaction, Send

PROTOCOLS: Registry[type[Protocol]] = Registry("protocol", __name__, group="protocols")

__all__ = ["PROTOCOLS", "Message", "Protocol", "Reaction", "Send"]
