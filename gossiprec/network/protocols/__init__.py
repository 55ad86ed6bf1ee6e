"""Protocols: the actions of a node on wake and on receive. One file per protocol."""

from __future__ import annotations

from gossiprec.base.registry import Registry
from gossiprec.network.protocols.base import Protocol

PROTOCOLS: Registry[type[Protocol]] = Registry("protocol", __name__, group="protocols")

__all__ = ["PROTOCOLS", "Protocol"]
