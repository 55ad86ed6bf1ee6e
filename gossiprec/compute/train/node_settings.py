"""What defences do to each node's training, as plain numbers per node."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from gossiprec.arrays import F32, I8, I64

NO_LIMIT = 2**31 - 1
"""More local updates than any run has."""


class TrainingMode(IntEnum):
    """Ways of training, from the cheapest to the dearest."""

    PLAIN = 0
    ANCHORED = 1
    """With a drift penalty."""
    PRIVATE = 2
    """With clipped samples and noise, and possibly a drift penalty."""

    @property
    def way(self) -> str:
        """What kernels call it."""
        return self.name.lower()


@dataclass(frozen=True)
class NodeSettings:
    """One number per node for each thing a policy can change; policies write into the arrays before a run.

    Compiled loops read them beside the models, so a defence costs nothing where it is not used, and a node without any
    takes exactly the steps of a run without policies.

    Attributes
    ----------
    drift_penalty : ndarray of float32, shape (n_nodes,)
        tau: adds ``tau * sum_j ||v_j - v_j(start)||^2`` over the items j of a batch to its loss, where the start is
        the item table that the local update began with; 0: none. Under DP-SGD over all items, after the noise.
    clip_norm : ndarray of float32, shape (n_nodes,)
        C: each sample's gradient is scaled down to Euclidean norm C; 0: not clipped.
    noise_multiplier : ndarray of float32, shape (n_nodes,)
        sigma: N(0, (sigma C)^2) is added to each number of the summed gradient of a batch; 0: none.
    most_updates : ndarray of int64, shape (n_nodes,)
        Local updates after which the node trains no more.
    """

    drift_penalty: F32
    clip_norm: F32
    noise_multiplier: F32
    most_updates: I64

    @classmethod
    def none(cls, n_nodes: int) -> NodeSettings:
        """Return the treatment of nodes without policies."""
        return cls(
            drift_penalty=np.zeros(n_nodes, np.float32),
            clip_norm=np.zeros(n_nodes, np.float32),
            noise_multiplier=np.zeros(n_nodes, np.float32),
            most_updates=np.full(n_nodes, NO_LIMIT, np.int64),
        )

    @property
    def kinds(self) -> I8:
        """How each node trains (:class:`TrainingMode`), shape (n_nodes,)."""
        anchored = np.where(self.drift_penalty > 0, TrainingMode.ANCHORED, TrainingMode.PLAIN)
        return np.where(self.clip_norm > 0, TrainingMode.PRIVATE, anchored).astype(np.int8)

    @property
    def ways(self) -> frozenset[str]:
        """The ways in which any node trains."""
        return frozenset(TrainingMode(kind).way for kind in np.unique(self.kinds).tolist())
