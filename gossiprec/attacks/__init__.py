"""Attacks that only look: one file each. They see observations, never nodes, data of others or the truth."""

from __future__ import annotations

from gossiprec.attacks.base import Attack
from gossiprec.registry import Registry

ATTACKS: Registry[type[Attack]] = Registry("attack", __name__, group="attacks")

__all__ = ["ATTACKS", "Attack"]
