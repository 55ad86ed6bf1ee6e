"""Hit ratio: whether a test item is among the first K."""

from __future__ import annotations

from gossiprec.measures import MEASURES
from gossiprec.measures.hit import Hit


@MEASURES.register("hr")
class HitRatio(Hit):
    """1 if the test item is among the first K of the sampled items, averaged over test items, then users.

    References
    ----------
    X. He et al., "Neural Collaborative Filtering", WWW 2017: one held-out item among 99 sampled ones.
    """

    sampled = True
