"""Top-k: the numbers that the node has changed most since it sent them last."""

from __future__ import annotations

from gossiprec.defences import POLICIES
from gossiprec.defences.sparsify import Sparsification


@POLICIES.register("top-k")
class TopK(Sparsification):
    """A message holds the k numbers with the largest remembered change; receivers keep their own value of the others.

    The remembered change of a number is the sum of the local updates since it was last sent, without what the node has
    merged. It starts at zero.
    """

    largest = True
