"""Attacks, one file each. They see observations only, never nodes, other nodes' data or the ground truth."""

from __future__ import annotations

from gossiprec.adversaries.attacks.base import Attack
from gossiprec.base.registry import Registry

ATTACKS: Registry[type[Attack]] = Registry("attack", __name__, group="attacks")

__all__ = ["ATTACKS", "Attack"]
