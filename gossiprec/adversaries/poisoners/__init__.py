"""Poisoners: nodes without data that send fabricated updates. One file per poisoner."""

from __future__ import annotations

from gossiprec.adversaries.poisoners.base import Poisoner, PoisonerContext
from gossiprec.base.registry import Registry

POISONERS: Registry[type[Poisoner]] = Registry("poisoner", __name__, group="poisoners")

__all__ = ["POISONERS", "Poisoner", "PoisonerContext"]
