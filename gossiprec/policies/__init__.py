"""Defences of nodes: one file per policy."""

from __future__ import annotations

from gossiprec.policies.base import Policy, PrivacySpent
from gossiprec.registry import Registry

POLICIES: Registry[type[Policy]] = Registry("policy", __name__, group="policies")

__all__ = ["POLICIES", "Policy", "PrivacySpent"]
