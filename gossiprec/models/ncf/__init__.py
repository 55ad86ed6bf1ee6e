"""Neural collaborative filtering."""

from __future__ import annotations

from gossiprec.models.ncf.model import NCF

__all__ = ["NCF"]
