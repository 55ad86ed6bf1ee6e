"""Matrix factorisation."""

from __future__ import annotations

from gossiprec.models.mf.model import MF

__all__ = ["MF"]
