"""Membership inference from updates: which item rows a victim moved, and in which direction.

A local update moves the rows of training items towards the user, those of sampled other items away from it, and no
others. An update of a client without a model names the rows that it touched, so this is visible directly.

References
----------
Melis, Song, De Cristofaro and Shmatikov, "Exploiting unintended feature leakage in collaborative learning", S&P 2019,
section on embeddings: rows of absent words have no gradient. The direction as evidence, the weights and the sum over
updates are choices made here.

Notes
-----
An update is the difference between a received model and the version before: at a coordinator the version that it sent,
or from which the update was made; in gossip the model received last from the same node, so that it begins with a
node's second message. (The receiver's own model differs by its own training, too.) The evidence for an item is by how
much its move raised the victim's score of it, as a share of the root of the sum of squares over the candidates; it is
added up over updates.

The scores of a victim that hides its user row are unknown. The direction of its updates is then the sum of the moves of
its candidates, each weighted by its length, and the evidence is the move along it: each training item moves in each
epoch, and other candidates only if they are sampled.
"""

from __future__ import annotations

import numpy as np

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.adversaries.attacks.membership import MembershipAttack
from gossiprec.base.arrays import F64


@ATTACKS.register("update-mia")
class UpdateMIA(MembershipAttack):
    """Membership inference from how item rows move, by single nodes, coalitions or the coordinator."""

    name = "update-mia"
    compares = True

    def _scores_of(self, slot: int) -> F64:
        """Return the evidence for all candidates so far."""
        return np.asarray(self.evidence[slot], np.float64)
