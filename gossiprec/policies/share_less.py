"""Share less: the user's row stays at home, and items are kept from drifting towards the user.

References
----------
CDA paper (arXiv 2306.08929), section 4.1: the item tables and shared weights alone are sent, and the loss is
``L_rec + tau ||V - V_ref||``. The norm is not said there, and the published code has no such term; here it is the
squared Frobenius norm over the items of the batch.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from gossiprec.arrays import I64
from gossiprec.compute.messages import Transform
from gossiprec.compute.train.local_update import TrainingSettings
from gossiprec.compute.train.node_settings import NodeSettings
from gossiprec.models.base import BlockRole
from gossiprec.options import Options
from gossiprec.policies import POLICIES
from gossiprec.policies.base import Policy


class ShareLessOptions(Options):
    """Options of Share less."""

    tau: float = Field(
        default=1.0,
        ge=0,
        description="weight of the squared drift of items since the start of the local update; 0: none",
    )


class WithholdUserRow(Transform):
    """Leaves the user's row out of the message."""

    hides = frozenset({BlockRole.USER})


@POLICIES.register("share-less")
class ShareLess(Policy):
    """Messages carry no user row; touched items are drawn back to where the local update began.

    Notes
    -----
    The reference table is the one the local update starts from: under FedAvg the received global table, as in the
    paper; in gossip the node's own after merging, where the paper writes the node's own of its previous step.
    """

    Options = ShareLessOptions
    options: ShareLessOptions

    def transform(self) -> Transform:
        """Withhold the row."""
        return WithholdUserRow()

    def configure(
        self, node_settings: NodeSettings, *, training: TrainingSettings, updates: I64 | None
    ) -> None:
        """Set the drift penalty."""
        node_settings.drift_penalty[self.nodes] = np.float32(self.options.tau)
