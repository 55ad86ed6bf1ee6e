"""What a receiver makes of the models that reach it: one file each."""

from __future__ import annotations

from gossiprec.aggregators.base import Aggregator, Inbox, InboxConfig
from gossiprec.registry import Registry

AGGREGATORS: Registry[type[Aggregator]] = Registry("aggregator", __name__, group="aggregators")

__all__ = ["AGGREGATORS", "Aggregator", "Inbox", "InboxConfig"]
