"""CL4FedRec and rCL4FedRec: contrastive learning with synthetic users, and a popularity regulariser at the server.

References
----------
The CL4FedRec paper (specification, section 3.2): synthetic users (eq. 5), user and item views, L = L_rec + 0.5 L_uc +
0.5 L_ic, the server's regulariser (eq. 14, ``rcl4fedrec``). Gaps in the paper are filled by the specification's
recommendations, each an option here.

Notes
-----
Synthetic users: eq. 5; left open are the initial distribution (the
model's own), the optimizer (Adam, warm-started from the epoch before) and the negatives (four per item, drawn in each
epoch). Regulariser: eq. 14; left open are the number of other items (256, drawn again for each step among those that
are not hot) and the optimizer (Adam, reset in each epoch).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F32, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import LARGEST, Options
from gossiprec.base.rng import generator
from gossiprec.federated import RECOMMENDERS, AnalyticTerm, CoordinatorContext, CoordinatorHook, Recommender
from gossiprec.models.base import Layout
from gossiprec.models.base.contrastive import (
    draw_view_noise,
    info_nce,
    noisy_views,
    normalise_embeddings,
    signed_noise,
)
from gossiprec.models.base.kernel_interface import CompiledGradient
from gossiprec.models.base.parameter_blocks import TensorMap
from gossiprec.models.feeds.base import Columns
from gossiprec.rules.servers import ClientAnswers, Extras, RoundContext

if TYPE_CHECKING:
    from torch import Tensor


NEGATIVES = 4


class SyntheticUsers:
    """Rows of users that do not exist.

    Parameters
    ----------
    known : CoordinatorContext
    number, items : int
        Number of synthetic users, and number of items of each; the items stay for the run.
    by : {'popularity', 'uniform'}
        Distribution of the items, drawn without repetition.
    steps : int
        Adam steps per refresh; with 0 the rows keep their initial values.
    rate : float

    Attributes
    ----------
    users : ndarray of float32, shape (number, user_width)
    items : ndarray of int64, shape (number, items)

    Raises
    ------
    ScenarioError
        If there are fewer than `items` items.
    """

    def __init__(
        self,
        context: CoordinatorContext,
        *,
        number: int,
        items: int,
        by: Literal["popularity", "uniform"],
        steps: int,
        rate: float,
    ) -> None:
        self._known, self._steps, self._rate = context, steps, rate
        layout = context.layout
        weights = context.popularity.astype(np.float64) if by == "popularity" else np.ones(layout.n_items)
        there = int(np.count_nonzero(weights))
        if items > there or items + 1 > layout.n_items:
            raise ScenarioError(
                f"recommender: synthetic_items is {items}, but there are {there} items to draw from among "
                f"{layout.n_items}; lower it"
            )
        draws = [generator(context.seed, "synthetic-user", user) for user in range(number)]
        self.users: F32 = np.stack([layout.initial_user(draw) for draw in draws])
        share = weights / weights.sum()
        self.items: I64 = np.stack(
            [draw.choice(layout.n_items, items, replace=False, p=share) for draw in draws]
        )

    def refresh(self, version: F32, epoch: int) -> None:
        """Fit the rows to their items, with the version's items and weights frozen."""
        if not self._steps:
            return
        import torch
        from torch.func import vmap

        from gossiprec.numerics.torch_setup import make_adam

        known, n = self._known, len(self.users)
        frozen = known.layout.version_tables(torch.from_numpy(version.copy()))
        items = np.stack([self._samples(user, epoch) for user in range(n)])
        labels = np.zeros(items.shape, np.float32)
        labels[:, :: NEGATIVES + 1] = 1.0
        batch = {"items": torch.from_numpy(items), "labels": torch.from_numpy(labels)}
        batch["weights"] = torch.ones_like(batch["labels"])
        batch["user"] = torch.zeros((n, 1), dtype=torch.int64)
        rows = torch.from_numpy(self.users.copy()).requires_grad_()

        def loss(row: torch.Tensor, own: dict[str, torch.Tensor]) -> torch.Tensor:
            return known.model.loss({**frozen, "users": row[None]}, own)

        adam = make_adam([rows], lr=self._rate, foreach=False)
        for _ in range(self._steps):
            adam.zero_grad()
            torch.autograd.backward(vmap(loss)(rows, batch).sum())
            adam.step()
        self.users[:] = rows.detach().numpy()

    def _samples(self, user: int, epoch: int) -> I64:
        """Return each item of a synthetic user followed by its negatives."""
        own, draw = self.items[user], generator(self._known.seed, "synthetic-negatives", user, epoch)
        others = np.setdiff1d(np.arange(self._known.layout.n_items), own)
        negatives = others[draw.integers(len(others), size=(len(own), NEGATIVES))]
        return np.concatenate([own[:, None], negatives], axis=1).ravel()


class PopularityRegulariser:
    """Adam's steps on the sum, over hot items, of the log of their nearness to others.

    Parameters
    ----------
    known : CoordinatorContext
    hot : int
        Number of hot items: those with the most training interactions, on ties the lower id.
    sub : int
        Number of other items that are drawn for each step.
    steps : int
    rate, temperature : float

    Raises
    ------
    ScenarioError
        If there are too few items, or all are equally popular.
    """

    def __init__(
        self, context: CoordinatorContext, *, hot: int, sub: int, steps: int, rate: float, temperature: float
    ) -> None:
        n_items, popularity = context.layout.n_items, context.popularity
        if hot + sub > n_items:
            raise ScenarioError(
                f"recommender: hot_items {hot} and sub_items {sub} are more than the {n_items} items; lower them"
            )
        if popularity.min() == popularity.max():
            raise ScenarioError(
                f"recommender: the regulariser spreads out popular items, but all {n_items} items have "
                f"{popularity.min()} interactions; use cl4fedrec"
            )
        self._known, self._steps, self._rate, self._temperature = context, steps, rate, temperature
        order = np.argsort(-popularity, kind="stable")
        self.hot: I64 = np.sort(order[:hot])
        self._others, self._sub = np.sort(order[hot:]), sub

    def regularise(self, version: F32, epoch: int) -> F32:
        """Return a version ``[items | shared]`` after the steps at the end of an epoch."""
        import torch

        from gossiprec.numerics.torch_setup import make_adam

        layout, draw = self._known.layout, generator(self._known.seed, "regulariser", 0, epoch)
        width = layout.n_items * layout.item_width
        found = version.copy()
        items = torch.from_numpy(found[:width].reshape(layout.n_items, -1)).requires_grad_()
        adam = make_adam([items], lr=self._rate, foreach=False)
        for _ in range(self._steps):
            sub = draw.choice(self._others, self._sub, replace=False)
            adam.zero_grad()
            near = (
                normalise_embeddings(items[torch.from_numpy(self.hot)])
                @ normalise_embeddings(items[torch.from_numpy(sub)]).T
            )
            torch.autograd.backward(torch.logsumexp(near / self._temperature, dim=1).sum())
            adam.step()
        found[:width] = items.detach().numpy().ravel()
        return found


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

    def analytic_term(self, gradient: CompiledGradient) -> AnalyticTerm | None:
        """Return the analytic gradient of both contrastive losses, or None."""
        from gossiprec.federated import term_kernels

        options, size = self.options, self.options.item_view_scale
        if options.temperature < term_kernels.LEAST_TEMPERATURE:
            return None
        numbers = np.array(
            [
                options.temperature, options.user_weight, options.item_weight, options.noise,
                options.item_loss == "sum", *((self.learning_rate, 0.0) if size == "learning-rate" else (size, 1.0)),
            ]
        )  # fmt: skip
        names = {"extra": "synthetic_users", "of_step": "user_noise"}
        if options.item_views == "noise" and options.item_weight:
            return AnalyticTerm(term_kernels.add_noisy_view_losses, numbers, **names, of_samples="item_noise")
        return AnalyticTerm(term_kernels.specialise_moved_items(gradient.fill), numbers, **names)

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

    def coordinator_hook(self, context: CoordinatorContext) -> CoordinatorHook:
        """Return the coordinator's part: synthetic users and the regulariser."""
        options = self.options
        synthetic = SyntheticUsers(
            context, number=options.synthetic_users, items=options.synthetic_items, by=options.synthetic_by,
            steps=options.fit_steps if options.refresh else 0, rate=options.fit_rate,
        )  # fmt: skip
        return CL4FedRecHook(context, synthetic, self.make_regulariser(context))

    def make_regulariser(self, context: CoordinatorContext) -> PopularityRegulariser | None:
        """Return the server's own step at the end of an epoch, or None."""
        return None


class CL4FedRecHook(CoordinatorHook):
    """The coordinator's part: the regulariser at the end of every epoch, new synthetic users at its beginning."""

    def __init__(
        self,
        context: CoordinatorContext,
        synthetic: SyntheticUsers,
        regulariser: PopularityRegulariser | None,
    ) -> None:
        self._known, self._synthetic, self._regulariser = context, synthetic, regulariser
        self.extra_bytes = synthetic.users.nbytes

    def step(self, version: F32, answers: ClientAnswers, round: RoundContext) -> tuple[F32, Extras]:
        """Return the version and the epoch's synthetic users."""
        epoch, over = self._known.epoch_begun_at(round), self._known.epochs_ended_at(round)
        if over and self._regulariser is not None:
            version = self._regulariser.regularise(version, over)
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

    def make_regulariser(self, context: CoordinatorContext) -> PopularityRegulariser:
        """Return the popularity regulariser."""
        options: RegularisedOptions = self.options  # type: ignore[assignment]
        return PopularityRegulariser(
            context, hot=options.hot_items, sub=options.sub_items, steps=options.regulariser_steps,
            rate=options.regulariser_rate, temperature=options.temperature,
        )  # fmt: skip
