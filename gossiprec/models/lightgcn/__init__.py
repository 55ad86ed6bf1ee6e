"""LightGCN, and what models that contrast its views share."""

from __future__ import annotations

from gossiprec.models.lightgcn.model import LightGCN

__all__ = ["LightGCN"]
