"""CL4FedRec and rCL4FedRec: contrastive learning with synthetic users, and a popularity regulariser at the server.

References
----------
The CL4FedRec paper (specification, section 3.2): synthetic users (eq. 5), user and item views, L = L_rec + 0.5 L_uc +
0.5 L_ic, the server's regulariser (eq. 14, ``rcl4fedrec``). Gaps in the paper are filled by the specification's
recommendations, each an option here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F32
from gossiprec.base.options import LARGEST, Options
from gossiprec.federated import RECOMMENDERS
from gossiprec.federated.base import AnalyticTerm, Recommender
from gossiprec.federated.cl4fedrec.coordinator import PopularityRegulariser, SyntheticUsers
from gossiprec.federated.coordinator_hook import CoordinatorContext, CoordinatorHook
from gossiprec.models.base import Layout
from gossiprec.models.base.analytic_gradients import AnalyticGradient
from gossiprec.models.base.contrastive import (
    draw_view_noise,
    info_nce,
    noisy_views,
    normalise_embeddings,
    signed_noise,
)
from gossiprec.models.base.parameter_blocks import TensorMap
from gossiprec.models.feeds.base import Columns
from gossiprec.rules.servers.base import ClientAnswers, Extras, RoundContext

if TYPE_CHECKING:
    from torch import Tensor


class CL4FedRecOptions(Options):
    """Options of CL4FedRec."""

    temperature: float = Field(default=0.2, gt=0)
    """tau of both contrastive losses"""
    user_weight: float = Field(default=0.5, ge=0)
    """lambda 1, weight of the user loss; 0: off"""
    item_weight: float = Field(default=0.5, ge=0)
    """lambda 2, weight of the item loss; 0: off"""
    noise: float = Field(default=0.1, gt=0)
    """eta, norm of the noise of a user's view"""
    item_views: Literal["step", "noise"] = "step"
    """step: items move by one gradient step for a user's view (as in the paper); noise: as in SimGCL"""
    item_view_scale: float | Literal["learning-rate"] = 0.1
    """norm to which the step of each item is scaled; learning-rate: use the learning rate of the training"""
    item_loss: Literal["mean", "sum"] = "mean"
    """reduction over a client's positives; the paper has a sum"""
    synthetic_users: int = Field(default=60, ge=1, le=100_000)
    """|U_syn|: 60 or 10 in the paper"""
    synthetic_items: int = Field(default=30, ge=1, le=LARGEST)
    """N, number of items of each, without repetition"""
    synthetic_by: Literal["popularity", "uniform"] = "popularity"
    """how their items are drawn; uniform: ablation"""
    refresh: bool = True
    """fit them to the current items in every epoch (eq. 5); false: ablation"""
    fit_steps: int = Field(default=10, ge=1, le=10**4)
    """Adam steps of a refresh, warm-started"""
    fit_rate: float = Field(default=0.01, gt=0)
    """learning rate of a refresh"""


class RegularisedOptions(CL4FedRecOptions):
    """Options of rCL4FedRec."""

    hot_items: int = Field(default=100, ge=1, le=LARGEST)
    """number of most popular items that are spread out"""
    sub_items: int = Field(default=256, ge=1, le=LARGEST)
    """|V_sub|, number of other items, redrawn in each step"""
    regulariser_steps: int = Field(default=1, ge=1, le=10**4)
    """Adam steps at the end of an epoch"""
    regulariser_rate: float = Field(default=0.001, gt=0)
    """their learning rate"""


@RECOMMENDERS.register("cl4fedrec")
class CL4FedRec(Recommender):
    """Contrastive learning of two views of the user against synthetic users, and of two views per positive item."""

    Options = CL4FedRecOptions
    options: CL4FedRecOptions
    loss_weights = ("user_weight", "item_weight")

    def draws(self, layout: Layout, samples: Columns, draw: np.random.Generator) -> tuple[Columns, Columns]:
        """Return the proportions of two noises on the user's row, and with noisy item views on every item's row."""
        of_step = {"user_noise": draw.random((2, layout.user_width), np.float32)}
        if self.options.item_views == "step" or not self.options.item_weight:
            return of_step, {}
        return of_step, draw_view_noise(samples, self.negatives + 1, layout.item_width, draw)

    def loss(self, p: TensorMap, batch: TensorMap, extras: TensorMap) -> Tensor:
        """Return L_rec + lambda 1 L_uc + lambda 2 L_ic."""
        options, user = self.options, p["users"][batch["user"]]
        noise = batch["user_noise"]
        views = [user + signed_noise(user, noise[k], options.noise) for k in range(2)]
        total = self.model.loss(p, batch)
        if options.user_weight:
            total = total + options.user_weight * self._of_users(views, extras["synthetic_users"])
        if options.item_weight:
            total = total + options.item_weight * self._of_items(p, batch, views)
        return total

    def analytic_term(self, gradient: AnalyticGradient) -> AnalyticTerm | None:
        """Return the analytic gradient of both contrastive losses, or None."""
        from gossiprec.federated.cl4fedrec import kernels
        from gossiprec.federated.kernels import terms

        options, size = self.options, self.options.item_view_scale
        if options.temperature < terms.LEAST_TEMPERATURE:
            return None
        numbers = np.array(
            [
                options.temperature, options.user_weight, options.item_weight, options.noise,
                options.item_loss == "sum", *((self.learning_rate, 0.0) if size == "learning-rate" else (size, 1.0)),
            ]
        )  # fmt: skip
        names = {"extra": "synthetic_users", "of_step": "user_noise"}
        if options.item_views == "noise" and options.item_weight:
            return AnalyticTerm(kernels.add_noisy_view_losses, numbers, **names, of_samples="item_noise")
        return AnalyticTerm(kernels.specialise_moved_items(gradient.fill), numbers, **names)

    def _of_users(self, views: list[Tensor], others: Tensor) -> Tensor:
        """Return L_uc: the two views should be nearer to each other than the first view to any synthetic user."""
        import torch

        one, other = (normalise_embeddings(view)[0] for view in views)
        own = (one * other).sum() / self.options.temperature
        against = normalise_embeddings(others) @ one / self.options.temperature
        return torch.logsumexp(torch.cat([own[None], against]), dim=0) - own

    def _of_items(self, p: TensorMap, batch: TensorMap, views: list[Tensor]) -> Tensor:
        """Return L_ic over the client's positives."""
        each = self.negatives + 1  # a positive, then its negatives
        present = batch["weights"][::each]
        rows = p["items"][batch["items"][::each]]
        if self.options.item_views == "noise":
            one, other = noisy_views(rows, batch["item_noise"][::each], self.options.noise)
        else:
            one, other = (rows + self._item_steps(p, batch, view)[batch["items"][::each]] for view in views)
        total = info_nce(one, other, present, self.options.temperature)
        return total / present.sum().clamp(min=1.0) if self.options.item_loss == "mean" else total

    def _item_steps(self, p: TensorMap, batch: TensorMap, view: Tensor) -> Tensor:
        """Return the step of every item for a view of the user, constant to gradients."""
        from torch.func import grad

        still = {name: part.detach() for name, part in p.items()}

        def loss(items: Tensor) -> Tensor:
            return self.model.loss({**still, "items": items, "users": view.detach()}, batch)

        slope = grad(loss)(still["items"]).detach()
        scale = self.options.item_view_scale
        return (
            -self.learning_rate * slope if scale == "learning-rate" else -scale * normalise_embeddings(slope)
        )

    def coordinator_hook(self, known: CoordinatorContext) -> CoordinatorHook:
        """Return the coordinator's part: synthetic users and the regulariser."""
        options = self.options
        synthetic = SyntheticUsers(
            known, number=options.synthetic_users, items=options.synthetic_items, by=options.synthetic_by,
            steps=options.fit_steps if options.refresh else 0, rate=options.fit_rate,
        )  # fmt: skip
        return CL4FedRecHook(known, synthetic, self.regulariser(known))

    def regulariser(self, known: CoordinatorContext) -> PopularityRegulariser | None:
        """Return the server's own step at the end of an epoch, or None."""
        return None


class CL4FedRecHook(CoordinatorHook):
    """The coordinator's part: the regulariser at the end of every epoch, new synthetic users at its beginning."""

    def __init__(
        self, known: CoordinatorContext, synthetic: SyntheticUsers, regulariser: PopularityRegulariser | None
    ) -> None:
        self._known, self._synthetic, self._regulariser = known, synthetic, regulariser
        self.extra_bytes = synthetic.users.nbytes

    def step(self, version: F32, answers: ClientAnswers, round: RoundContext) -> tuple[F32, Extras]:
        """Return the version and the epoch's synthetic users."""
        epoch, over = self._known.begun(round), self._known.over(round)
        if over and self._regulariser is not None:
            version = self._regulariser.applied(version, over)
        if epoch is not None:
            self._synthetic.refresh(version, epoch)
        return version, {"synthetic_users": self._synthetic.users.copy()}

    def state(self) -> dict[str, Any]:
        """Return the synthetic users."""
        return {"users": self._synthetic.users}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the synthetic users that :meth:`state` returned."""
        self._synthetic.users[:] = state["users"]


@RECOMMENDERS.register("rcl4fedrec")
class RegularisedCL4FedRec(CL4FedRec):
    """CL4FedRec, with the server's popularity regulariser at the end of every epoch."""

    Options = RegularisedOptions

    def regulariser(self, known: CoordinatorContext) -> PopularityRegulariser:
        """Return the popularity regulariser."""
        options: RegularisedOptions = self.options  # type: ignore[assignment]
        return PopularityRegulariser(
            known, hot=options.hot_items, sub=options.sub_items, steps=options.regulariser_steps,
            rate=options.regulariser_rate, temperature=options.temperature,
        )  # fmt: skip
