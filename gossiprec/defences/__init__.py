"""Defences of nodes: one file per policy."""

from __future__ import annotations

from gossiprec.base.registry import Registry
from gossiprec.defences.base import Policy, PrivacySpent

POLICIES: Registry[type[Policy]] = Registry("policy", __name__, group="policies")

__all__ = ["POLICIES", "Policy", "PrivacySpent"]
