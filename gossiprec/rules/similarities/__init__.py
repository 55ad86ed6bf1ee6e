"""Similarities of items: the likely replacements of an item in data that a recommender perturbs."""

from __future__ import annotations

from gossiprec.base.registry import Registry
from gossiprec.rules.similarities.base import Similarity

SIMILARITIES: Registry[type[Similarity]] = Registry("similarity", __name__, group="similarities")

__all__ = ["SIMILARITIES", "Similarity"]
