"""Defences: per-node policies, one file each. None is built in yet; the registry is where they will be found."""

from __future__ import annotations

from typing import Any

from gossiprec.registry import Registry

POLICIES: Registry[type[Any]] = Registry("policy", __name__)

__all__ = ["POLICIES"]
