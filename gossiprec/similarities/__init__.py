"""Similarities of items: what replaces an item likely, where a recommender contributes data that are perturbed."""

from __future__ import annotations

from gossiprec.registry import Registry
from gossiprec.similarities.base import Similarity

SIMILARITIES: Registry[type[Similarity]] = Registry("similarity", __name__, group="similarities")

__all__ = ["SIMILARITIES", "Similarity"]
