"""Per-node training settings that defences change, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from gossiprec.base.arrays import F32, I8, I64

NO_LIMIT = 2**31 - 1
"""A number of local updates that no run reaches."""


class TrainingMode(IntEnum):
    """Modes of training, from the cheapest to the most expensive."""

    PLAIN = 0
    ANCHORED = 1
    """With a drift penalty."""
    PRIVATE = 2
    """With clipped samples and noise, and possibly a drift penalty."""

    @property
    def way(self) -> str:
        """The name of the mode in kernels."""
        return self.name.lower()


@dataclass(frozen=True)
class NodeSettings:
    """One number per node for each setting that a policy can change; policies write the arrays before a run.

    Compiled loops read them with the models, so a defence costs nothing if it is not used, and a node without one
    takes exactly the steps of a run without policies.

    Attributes
    ----------
    drift_penalty : ndarray of float32, shape (n_nodes,)
        tau: adds ``tau * sum_j ||v_j - v_j(start)||^2`` over the items j of a batch to its loss; the start is
        the item table at the start of the local update; 0 disables it. Under DP-SGD it covers all items and follows
        the noise.
    clip_norm : ndarray of float32, shape (n_nodes,)
        C: each sample's gradient is scaled down to Euclidean norm C; 0 disables clipping.
    noise_multiplier : ndarray of float32, shape (n_nodes,)
        sigma: N(0, (sigma C)^2) is added to each number of the summed gradient of a batch; 0 disables it.
    most_updates : ndarray of int64, shape (n_nodes,)
        Number of local updates after which the node stops training.
    """

    drift_penalty: F32
    clip_norm: F32
    noise_multiplier: F32
    most_updates: I64

    @classmethod
    def none(cls, n_nodes: int) -> NodeSettings:
        """Return the settings of nodes without policies."""
        return cls(
            drift_penalty=np.zeros(n_nodes, np.float32),
            clip_norm=np.zeros(n_nodes, np.float32),
            noise_multiplier=np.zeros(n_nodes, np.float32),
            most_updates=np.full(n_nodes, NO_LIMIT, np.int64),
        )

    @property
    def kinds(self) -> I8:
        """The training mode of each node (:class:`TrainingMode`), shape (n_nodes,)."""
        anchored = np.where(self.drift_penalty > 0, TrainingMode.ANCHORED, TrainingMode.PLAIN)
        return np.where(self.clip_norm > 0, TrainingMode.PRIVATE, anchored).astype(np.int8)

    @property
    def ways(self) -> frozenset[str]:
        """The kernel names of all modes in use."""
        return frozenset(TrainingMode(kind).way for kind in np.unique(self.kinds).tolist())
