"""Membership inference by a threshold on the loss: an item with a low loss by a victim's model is taken for a member.

References
----------
Yeom, Giacomelli, Fredrikson and Jha, "Privacy risk in machine learning: analyzing the connection to overfitting",
CSF 2018, with one threshold for all; here all thresholds are tried, which gives the ROC curve.

Notes
-----
The score is the logit of the candidate: the loss of an item as a training item, ``log(1 + exp(-logit))``, falls with
it, so both give the same curve. Of a model that predicts no probabilities it is the predicted score, by which it ranks
items. Victims that hide their user row are scored by the direction in which their item rows move (docs/membership.md):
this is a choice, the paper has no such victims.
"""

from __future__ import annotations

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.adversaries.attacks.membership import MembershipAttack
from gossiprec.base.arrays import F64


@ATTACKS.register("loss-mia")
class LossMIA(MembershipAttack):
    """Membership inference from the loss of single items, by single nodes, coalitions or the coordinator."""

    name = "loss-mia"

    def _scores_of(self, slot: int) -> F64:
        """Return the logits of all candidates."""
        return self.logits(slot)
