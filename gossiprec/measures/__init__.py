"""Measures as pure functions on arrays, one idea a file.

Nothing here knows a run, a model or a file. Measures of recommendations are registered, one a file, under the names
by which scenarios ask for them; ``ranking`` and ``full_ranking`` find the ranks they look at. ``communities`` is the
ground truth of the attack, ``attack`` its success, ``meetings`` how far a node can see, ``gini`` inequality.
"""

from __future__ import annotations

from gossiprec.measures.base import Measure
from gossiprec.registry import Registry

MEASURES: Registry[type[Measure]] = Registry("measure", __name__, group="measures")

__all__ = ["MEASURES", "Measure"]
