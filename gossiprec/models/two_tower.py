"""Two towers: a row for each user and each item, learnt by contrasting positives with candidates.

References
----------
Specification, section 6: FedCL's "NCF", which under its loss scores only by dot products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gossiprec.models import MODELS
from gossiprec.models.base.kernel_interface import CompiledGradient, ModelKernels
from gossiprec.models.base.parameter_blocks import ParameterBlock, TensorMap, embedding_blocks, normal
from gossiprec.models.base.sequence_model import SequenceModel, SequenceOptions
from gossiprec.models.feeds import ListFeed

if TYPE_CHECKING:
    from torch import Tensor


class TwoTowerOptions(SequenceOptions):
    """Options of two towers."""

    in_batch: bool = False
    """for `sampled`: also contrast a positive with the other items of the list"""


@MODELS.register("two-tower")
class TwoTower(SequenceModel):
    """Score of item j for user u: ``u . v_j``; the order of the user's items does not matter."""

    Options = TwoTowerOptions
    options: TwoTowerOptions
    feed = ListFeed

    def blocks(self) -> tuple[ParameterBlock, ...]:
        """Return ``users | items``."""
        initial = normal(self.options.init_std)
        return embedding_blocks(self.options.dim, initial, initial)

    @classmethod
    def kernels(cls) -> type[ModelKernels]:
        """Return the compiled form, which trains by the gradient."""
        from gossiprec.models.base.gradient_kernels import GradientKernels

        return GradientKernels

    def gradient(self) -> CompiledGradient:
        """Return the gradient of the user's row and the candidates."""
        from gossiprec.models.base.dot_product_gradients import two_tower_gradient

        return two_tower_gradient(in_batch=self.options.in_batch)

    def states(self, p: TensorMap, batch: TensorMap) -> Tensor:
        """Return the user's row, at every place."""
        return p["users"][batch["user"]][:, None].expand(*batch["items"].shape, -1)

    def state_after(self, p: TensorMap, history: Tensor, user: Tensor) -> Tensor:
        """Return the users' rows."""
        return p["users"][user].expand(len(history), -1)

    def score_all_items(self, p: TensorMap) -> Callable[[Tensor], Tensor]:
        """Return the function that multiplies the item table by a user's row."""
        return lambda user: p["items"] @ p["users"][user][0]
