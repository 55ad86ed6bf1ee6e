"""Aggregation rules: how a receiver combines the models that it receives. One file per rule."""

from __future__ import annotations

from gossiprec.aggregators.base import Aggregator, Inbox, InboxConfig
from gossiprec.registry import Registry

AGGREGATORS: Registry[type[Aggregator]] = Registry("aggregator", __name__, group="aggregators")

__all__ = ["AGGREGATORS", "Aggregator", "Inbox", "InboxConfig"]
