"""BERT4Rec: a transformer that fills gaps in a user's sequence."""

from __future__ import annotations

from gossiprec.models.bert4rec.model import BERT4Rec

__all__ = ["BERT4Rec"]
