"""Purposes of random draws that plain and compiled code share."""

from __future__ import annotations

from gossiprec.base.rng import purpose_id

NEGATIVES = purpose_id("negatives")
SHUFFLE = purpose_id("shuffle")
