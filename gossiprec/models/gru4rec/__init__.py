"""GRU4Rec: a recurrent network that reads a user's sequence."""

from __future__ import annotations

from gossiprec.models.gru4rec.model import GRU4Rec

__all__ = ["GRU4Rec"]
