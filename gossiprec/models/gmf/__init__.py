"""Generalised matrix factorisation."""

from __future__ import annotations

from gossiprec.models.gmf.model import GMF

__all__ = ["GMF"]
