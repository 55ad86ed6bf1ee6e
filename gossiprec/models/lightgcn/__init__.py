"""LightGCN, and the shared part of models that contrast its views."""

from __future__ import annotations

from gossiprec.models.lightgcn.model import LightGCN

__all__ = ["LightGCN"]
