"""Personalised ranking metric embedding with geography."""

from __future__ import annotations

from gossiprec.models.prme_g.model import PRMEG

__all__ = ["PRMEG"]
