"""FedYogi: adaptive server optimization in which the mean square changes by a bounded amount.

References
----------
S. J. Reddi et al., "Adaptive federated optimization", ICLR 2021, algorithm 2 (FedYogi).
"""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F32
from gossiprec.rules.servers import SERVERS
from gossiprec.rules.servers.adaptive import Adaptive


@SERVERS.register("fedyogi")
class FedYogi(Adaptive):
    """The steps of `adaptive`, with the mean square moved towards the square of the delta as Yogi does.

    The mean square grows as fast as Adam's, but shrinks by no more than ``(1 - beta2)`` times the square of the delta,
    so that one large delta is not soon forgotten.
    """

    def next_square(self, square: F32, difference: F32) -> F32:
        """Return ``v - (1 - beta2) d^2 sign(v - d^2)``."""
        new = np.square(difference)
        found = square - (1.0 - self.options.beta2) * new * np.sign(square - new)
        return found.astype(np.float32, copy=False)
