"""Protocols: the actions of a node on wake and on receive. One file per protocol."""

from __future__ import annotations

from gossiprec.protocols.base import Protocol
from gossiprec.registry import Registry

PROTOCOLS: Registry[type[Protocol]] = Registry("protocol", __name__, group="protocols")

__all__ = ["PROTOCOLS", "Protocol"]
