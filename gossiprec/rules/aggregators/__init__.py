"""Aggregation rules: how a receiver combines the models that it receives. One file per rule."""

from __future__ import annotations

from gossiprec.base.registry import Registry
from gossiprec.rules.aggregators.base import Aggregator, Inbox, InboxConfig

AGGREGATORS: Registry[type[Aggregator]] = Registry("aggregator", __name__, group="aggregators")

__all__ = ["AGGREGATORS", "Aggregator", "Inbox", "InboxConfig"]
