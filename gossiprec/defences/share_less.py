"""Share less: the user's row is not sent, and items are kept from drifting towards the user.

References
----------
CDA paper (arXiv 2306.08929), section 4.1: only the item tables and shared weights are sent, and the loss is ``L_rec +
tau ||V - V_ref||``. The paper does not specify the norm, and the published code has no such term; here it is the
squared Frobenius norm over the items of the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from numpy import float32
from pydantic import Field

from gossiprec.base.arrays import I64
from gossiprec.base.options import Options
from gossiprec.compute.local_update import NodeSettings, TrainingSettings
from gossiprec.compute.messages import Transform, WithholdUserRow
from gossiprec.defences import POLICIES, Policy
from gossiprec.models.base.terms import ItemTerm

if TYPE_CHECKING:
    from torch import Tensor


def squared_drift(items: Tensor, start: Tensor) -> Tensor:
    """Return the squared Frobenius norm of the change since the start of the local update."""
    return (items - start).square().sum()


def add_drift_gradient(slopes, item, start, strength):  # type: ignore[no-untyped-def]
    """Add the gradient of the drift of one item, times `strength`."""
    for k in range(len(item)):
        slopes[k] += float32(2.0) * strength * (item[k] - start[k])


DRIFT = ItemTerm(squared_drift, add_drift_gradient)


class ShareLessOptions(Options):
    """Options of Share less."""

    tau: float = Field(default=1.0, ge=0)
    """weight of the squared drift of items since the start of the local update; 0: none"""
    adds_loss: ClassVar[bool] = True
    """Whether a local update has a term in its loss, in addition to the model's."""

    def describe_ineffective(self, scenario: Any) -> Iterator[str]:
        """Yield a note if a local update has one step, in which no item has drifted yet."""
        training = scenario.training
        if self.tau and training.batch_size == "full" and training.local_epochs == 1:
            yield (
                "policies: share-less: tau pulls items back to their values at the start of a local update, "
                "but with one step per update (training.batch_size: full, local_epochs: 1) no item has "
                "moved yet, so every tau gives the same result; raise training.local_epochs or set a batch "
                "size to make tau effective"
            )


@POLICIES.register("share-less")
class ShareLess(Policy):
    """Messages carry no user row; touched items are drawn back to their values at the start of the local update.

    Notes
    -----
    The reference table is the one at the start of the local update. Under FedAvg this is the received global table,
    as in the paper. In gossip it is the node's own table after merging; the paper uses its own table of the previous
    step.
    """

    Options = ShareLessOptions
    options: ShareLessOptions

    def transform(self) -> Transform:
        """Return the transform that withholds the row."""
        return WithholdUserRow()

    def configure(
        self, node_settings: NodeSettings, *, training: TrainingSettings, updates: I64 | None
    ) -> None:
        """Add the drift of items to the loss."""
        if self.options.tau:
            node_settings.add_term(DRIFT, self.nodes, self.options.tau)
