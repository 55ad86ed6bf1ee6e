"""Random-k: numbers that do not depend on the node's data."""

from __future__ import annotations

from gossiprec.defences import POLICIES
from gossiprec.defences.sparsify import Sparsification


@POLICIES.register("random-k")
class RandomK(Sparsification):
    """A message holds k numbers at random, others for each push; receivers keep their own value of the others.

    Clients of FedAvg add the change that they have not sent so far to the numbers that they send.
    """

    largest = False
