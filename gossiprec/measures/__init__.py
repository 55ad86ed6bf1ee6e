"""Measures as pure functions on arrays, one idea per file.

Nothing here depends on runs, models or files. Measures of recommendations are registered, one per file, under the
names that scenarios use; ``ranking`` computes the ranks. ``communities`` is the ground truth of the attack,
``attack_accuracy`` its success and the fraction of nodes met.
"""

from __future__ import annotations

from gossiprec.base.registry import Registry
from gossiprec.measures.base import Measure

MEASURES: Registry[type[Measure]] = Registry("measure", __name__, group="measures")

__all__ = ["MEASURES", "Measure"]
