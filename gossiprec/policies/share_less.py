"""Share less: the user's row stays at home, and items are kept from drifting towards the user.

References
----------
CDA paper (arXiv 2306.08929), section 7.1: the item tables and shared weights alone are sent, and the loss is
``L_rec + tau ||V - V_ref||``. The norm is not said there, and the published code has no such term; here it is the
squared Frobenius norm over the items of the batch.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from gossiprec.arrays import I64
from gossiprec.compute.train.local_update import TrainingSettings
from gossiprec.compute.train.node_settings import NodeSettings
from gossiprec.errors import ScenarioError
from gossiprec.models.base import Model
from gossiprec.models.base.blocks import Layout
from gossiprec.options import Options
from gossiprec.policies import POLICIES
from gossiprec.policies.base import Policy


class ShareLessOptions(Options):
    """Options of Share less."""

    tau: float = Field(
        default=1.0,
        ge=0,
        description="weight of the items' squared drift since the local update began; 0: none",
    )


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
    hides_user = True

    def check(self, model: Model, layout: Layout) -> None:
        """Refuse models without a user row, and protocols whose nodes hold everyone's."""
        if layout.user_width == 0:
            raise ScenarioError(
                f"policies: share-less withholds the user's row, but {type(model).__name__} has none; "
                "leave the policy out"
            )
        if layout.n_users > 1:
            raise ScenarioError(
                "policies: share-less withholds the user's row, but under protocol.user_table 'averaged' every node "
                "holds and sends all rows; set protocol.user_table to 'own'"
            )

    def configure(
        self, node_settings: NodeSettings, *, training: TrainingSettings, updates: I64 | None
    ) -> None:
        """Withhold the row and set the drift penalty."""
        self.refuse_overlap(node_settings.hides_user, "share-less")
        node_settings.hides_user[self.nodes] = True
        node_settings.drift_penalty[self.nodes] = np.float32(self.options.tau)
