"""PDC-FRS: users contribute perturbed data, from which the coordinator learns a model that helps theirs.

References
----------
The PDC-FRS paper (specification, section 4): contribution before the first round, an auxiliary model that is trained
before each round, its best items for each user with soft labels, and two contrastive losses. Gaps in the paper are
filled by the specification's recommendations, each an option here.
Silent in the paper: batches of the auxiliary model, and passes before each round.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F32, F64, I32
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import LARGEST, Options, RegisteredName, build_registered
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import generator
from gossiprec.data.training_data import TrainingData
from gossiprec.federated import RECOMMENDERS, AnalyticTerm, CoordinatorContext, CoordinatorHook, Recommender
from gossiprec.federated.pdc_frs.contribution import Contribution, ContributionKnowledge, perturb_items
from gossiprec.models.base import Layout, Model
from gossiprec.models.base.contrastive import normalise_embeddings
from gossiprec.models.base.kernel_interface import CompiledGradient
from gossiprec.models.base.parameter_blocks import TensorMap
from gossiprec.models.feeds import PointwiseFeed
from gossiprec.models.feeds.base import Columns
from gossiprec.numerics.torch_setup import single_torch_thread
from gossiprec.rules.servers import ClientAnswers, Extras, RoundContext
from gossiprec.rules.similarities import SIMILARITIES
from gossiprec.runs.checkpoint_state import Stateful

if TYPE_CHECKING:
    from torch import Tensor


class AuxiliaryModel(Stateful):
    """A model of the run's own kind on contributed sets, trained in batches by Adam with lasting moments.

    Parameters
    ----------
    model : Model
        A model that gives probabilities.
    sets : Ragged of int32, one row a user
    n_items, negatives : int
        Negatives of each item are drawn again in each pass, among the items that are not in the user's set.
    batch : int
        Samples per step.
    rate : float
    seed : int
    """

    checkpointed = ("values", "first", "second", "steps")

    def __init__(
        self, model: Model, sets: Ragged, *, n_items: int, negatives: int, batch: int, rate: float, seed: int
    ) -> None:
        self._model, self._sets, self._seed = model, sets, seed
        self._negatives, self._batch, self._rate = negatives, batch, rate
        self._layout = model.layout(n_items, len(sets))
        self._feed = PointwiseFeed(sets, n_items)
        draw = generator(seed, "auxiliary-model")
        rows = [self._layout.initial_user(draw) for _ in range(len(sets))]
        self._values: F32 = np.concatenate([*rows, self._layout.initial_common(draw)])
        self._first, self._second = (np.zeros_like(self._values) for _ in range(2))
        self._steps = 0

    def train(self, epoch: int) -> None:
        """Train for one pass over all sets, with the order and the negatives drawn for this pass."""
        import torch

        from gossiprec.numerics.torch_setup import make_adam

        drawn = self._feed.samples_of_all(update=epoch, negatives=self._negatives, seed=self._seed)
        samples = {name: torch.from_numpy(column) for name, column in drawn.items()}
        order = generator(self._seed, "auxiliary-order", 0, epoch).permutation(len(drawn["user"]))
        with single_torch_thread():
            values, first, second = map(self._tables, (self._values, self._first, self._second))
            tables = {name: torch.nn.Parameter(table) for name, table in values.items()}
            adam = make_adam(tables.values(), lr=self._rate, fused=True)
            for name, table in tables.items():
                step = torch.tensor(float(self._steps))
                adam.state[table] = {"step": step, "exp_avg": first[name], "exp_avg_sq": second[name]}
            for begin in range(0, len(order), self._batch):
                some = torch.from_numpy(order[begin : begin + self._batch])
                batch = {name: column[some] for name, column in samples.items()}
                batch = {**batch, "user": batch["user"].long(), "items": batch["items"].long()}
                batch["weights"] = torch.ones(len(some))
                adam.zero_grad()
                torch.autograd.backward(self._model.loss(self._layout.blocks_by_name(tables), batch))
                adam.step()
                self._steps += 1

    def _tables(self, row: F32) -> dict[str, Any]:
        """Return the tensors that a row consists of, as views."""
        import torch

        shapes = self._layout.tables
        parts = torch.split(torch.from_numpy(row), [int(np.prod(shape)) for shape in shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore copies of the state that :meth:`state` returned: training writes into them."""
        super().restore({name: copy.copy(value) for name, value in state.items()})

    @property
    def users(self) -> F32:
        """Users' rows, shape (n_users, user_width); a view."""
        return self._values[self._layout.users].reshape(len(self._sets), -1)

    @property
    def items(self) -> F32:
        """Items' rows, shape (n_items, item_width); a view."""
        return self._values[self._layout.items].reshape(self._layout.n_items, -1)

    def best_items(self, number: int) -> tuple[I32, F32]:
        """Return each user's items of highest probability, ascending by item, and the probabilities, (n_users, number).

        On ties the lower id wins.
        """
        found = np.empty((len(self._sets), number), np.int32)
        likely = np.empty((len(self._sets), number), np.float32)
        for user, scores in enumerate(self.iter_scores()):
            chosen = np.sort(np.argsort(-scores, kind="stable")[:number])
            found[user] = chosen
            likely[user] = 1.0 / (1.0 + np.exp(-scores[chosen].astype(np.float64)))
        return found, likely

    def iter_scores(self) -> Any:
        """Yield the scores of all items, float32, user after user."""
        import torch

        everything = torch.arange(self._layout.n_items)
        with torch.no_grad(), single_torch_thread():
            p = self._layout.blocks_by_name(self._tables(self._values))
            of_user = self._model.score_all_items(p)
            for user in range(len(self._sets)):
                one = torch.tensor([user])
                yield (
                    self._model.score(p, {"user": one, "items": everything})
                    if of_user is None
                    else of_user(one)
                ).numpy()


def normalise_rows(rows: F32) -> F64:
    """Return the rows scaled to Euclidean norm 1; rows of zeros stay zero."""
    from gossiprec.models.base.contrastive import TINY

    wide = rows.astype(np.float64)
    return np.asarray(wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), TINY))


ANCHORS = 512
"""Number of items per step of the items' loss."""


class PDCOptions(Options):
    """Options of PDC-FRS."""

    similarity: Annotated[str | dict[str, Any], RegisteredName(SIMILARITIES)] = "titles"
    """item similarity that determines the replacement of items: a name, or name and options"""
    epsilon: float = Field(default=5.0, gt=0)
    """privacy budget of each contributed item"""
    sensitivity: float | None = Field(default=None, gt=0)
    """Delta of the similarity; null: the sensitivity of the similarity, 1 for similarities from 0 to 1"""
    augmented: int = Field(default=30, ge=0, le=LARGEST)
    """alpha, number of items with soft labels per user; 0: off"""
    user_weight: float = Field(default=0.05, ge=0)
    """lambda, weight of the user loss; 0: off"""
    item_weight: float = Field(default=0.05, ge=0)
    """beta, weight of the item loss; 0: off"""
    item_optimizer: Literal["sgd", "adam"] = "sgd"
    """optimizer of the item loss at the coordinator; sgd: a plain step with the clients' learning rate on the sum
    over all items, so that beta matters; adam: a new Adam for this loss only, so that every beta above 0 has the
    same effect"""
    temperature: float = Field(default=0.2, gt=0)
    """tau of both losses"""
    auxiliary_epochs: int = Field(default=1, ge=1, le=10**4)
    """epochs of the auxiliary model before each round"""
    auxiliary_batch: int = Field(default=1024, ge=1, le=LARGEST)
    """batch size of its steps"""
    leaks: int | None = Field(default=None, ge=1, le=LARGEST)
    """community size for which the summary reports what contribution and auxiliary model reveal; null: no such
    report"""

    def describe_ineffective(self, scenario: Any) -> Iterator[str]:
        """Yield a note if Adam optimises only the item loss."""
        if self.item_optimizer == "adam" and self.item_weight:
            yield (
                "recommender.item_weight: a new Adam optimises only the item loss (item_optimizer: adam), so "
                "every weight above 0 gives the same result up to rounding; set item_optimizer to sgd to make "
                "the weight effective"
            )


@RECOMMENDERS.register("pdc-frs")
class PDC(Recommender):
    """Learning also from an auxiliary model's predictions, with users' rows kept near to its rows."""

    Options = PDCOptions
    options: PDCOptions
    loss_weights = ("user_weight", "item_weight")

    def check(self, layout: Layout, *, full_batches: bool) -> None:
        """Refuse also more predicted items than there are."""
        super().check(layout, full_batches=full_batches)
        if self.options.augmented > layout.n_items:
            raise ScenarioError(
                f"recommender: augmented is {self.options.augmented}, but there are {layout.n_items} items; lower it"
            )

    def initial_contribution(self, split: TrainingData, seed: int) -> Contribution:
        """Return the sets that users send before the first round."""
        options = self.options
        if options.leaks is not None and options.leaks >= split.n_users:
            raise ScenarioError(
                f"recommender: leaks is {options.leaks}, but there are only {split.n_users - 1} "
                "other users; lower it"
            )
        try:
            similarity = build_registered(SIMILARITIES, options.similarity).fit(split, seed=seed)
            return perturb_items(
                split.train, similarity, epsilon=options.epsilon, sensitivity=options.sensitivity, seed=seed
            )
        except ScenarioError as error:  # names a key of this section
            raise ScenarioError(f"recommender.{error}") from error

    def extra_samples(self, node: int, positives: I32, extras: Extras) -> Columns:
        """Return the auxiliary model's best items for the user that the user has not taken."""
        if "sent_items" not in extras:
            return {}
        items, labels = extras["sent_items"][node], extras["sent_labels"][node]
        new = ~np.isin(items, positives)
        return {"items": items[new], "labels": labels[new]}

    def client_extras(self, node: int, extras: Extras) -> Columns:
        """Return the user's own row of the auxiliary model, of norm 1."""
        return {"own_auxiliary": extras["auxiliary_users"][:, node].copy()} if self._contrasts(extras) else {}

    def _contrasts(self, extras: Mapping[str, Any]) -> bool:
        return "auxiliary_users" in extras

    def loss(self, p: TensorMap, batch: TensorMap, extras: TensorMap) -> Tensor:
        """Return L_rec + lambda L_uc."""
        import torch

        total = self.model.loss(p, batch)
        if not self._contrasts(extras):
            return total
        user, tau = normalise_embeddings(p["users"][batch["user"]])[0], self.options.temperature
        against = torch.logsumexp(user @ extras["auxiliary_users"] / tau, dim=0)
        return total + self.options.user_weight * (against - (user * batch["own_auxiliary"]).sum() / tau)

    def analytic_term(self, gradient: CompiledGradient) -> AnalyticTerm | None:
        """Return the analytic gradient of the users' loss, or None."""
        from gossiprec.federated import term_kernels

        options = self.options
        if not options.user_weight:
            return AnalyticTerm(term_kernels.add_nothing, np.zeros(0))
        if options.temperature < term_kernels.LEAST_TEMPERATURE:
            return None
        numbers = np.array([options.user_weight, options.temperature])
        return AnalyticTerm(
            term_kernels.add_contrast, numbers, extra="auxiliary_users", of_step="own_auxiliary"
        )

    def report(
        self, split: TrainingData, contribution: Contribution, hook: CoordinatorHook | None, own: F32
    ) -> dict[str, Any]:
        """Return the budgets of the contribution and the share of items that it kept."""
        return {"contribution": contribution.report()}

    @property
    def upload_attack(self) -> tuple[str, Mapping[str, Any]] | None:
        """The attack on contributions, if the option ``leaks`` requests it."""
        size = self.options.leaks
        return None if size is None else ("contributions", {"community_size": size})

    def coordinator_hook(self, context: CoordinatorContext) -> CoordinatorHook:
        """Return the coordinator's part: training the auxiliary model and drawing items to its rows."""
        auxiliary = AuxiliaryModel(
            self.model, context.contribution.sets, n_items=context.layout.n_items, negatives=self.negatives,
            batch=self.options.auxiliary_batch, rate=self.learning_rate, seed=context.seed,
        )  # fmt: skip
        return AuxiliaryModelHook(context, self.options, auxiliary, self.learning_rate)


class AuxiliaryModelHook(CoordinatorHook):
    """The coordinator's part: it trains the auxiliary model before an epoch and draws items to its rows at the end."""

    def __init__(
        self, context: CoordinatorContext, options: PDCOptions, auxiliary: AuxiliaryModel, rate: float
    ) -> None:
        self._known, self._options, self._rate = context, options, rate
        self.auxiliary = auxiliary
        self._extras: dict[str, Any] = {}
        self.own_extras = frozenset({"sent_items", "sent_labels"} if options.augmented else ())
        n_users, width = auxiliary.users.shape
        self.extra_bytes = 8 * options.augmented + (4 * n_users * width if options.user_weight else 0)

    @property
    def knowledge(self) -> ContributionKnowledge:
        """The released sets, the popularity of items, and the scores of the auxiliary model."""
        known = self._known
        return ContributionKnowledge(
            known.contribution.released, known.popularity, self.auxiliary.iter_scores
        )

    def step(self, version: F32, answers: ClientAnswers, round: RoundContext) -> tuple[F32, Extras]:
        """Return the version and the auxiliary model's extras of this epoch."""
        epoch, over = self._known.epoch_begun_at(round), self._known.epochs_ended_at(round)
        if over and self._options.item_weight:
            version = self._move_items_near(version, over)
        if epoch is not None:
            for number in range(self._options.auxiliary_epochs):
                self.auxiliary.train(epoch * self._options.auxiliary_epochs + number)
            self._extras = self._new_extras()
        return version, self._extras

    def _new_extras(self) -> dict[str, Any]:
        """Return the extras that clients are sent."""
        extras: dict[str, Any] = {}
        options, n_users = self._options, len(self.auxiliary.users)
        if options.augmented:
            shape = (self._known.n_clients, options.augmented)
            extras = {"sent_items": np.zeros(shape, np.int32), "sent_labels": np.zeros(shape, np.float32)}
            items, labels = self.auxiliary.best_items(options.augmented)
            extras["sent_items"][:n_users], extras["sent_labels"][:n_users] = items, labels
        if options.user_weight:
            directions = normalise_rows(self.auxiliary.users).T
            extras["auxiliary_users"] = np.ascontiguousarray(directions, np.float32)
        return extras

    def _move_items_near(self, version: F32, epoch: int) -> F32:
        """Return a version after a pass over its items (eq. 8), which draws each to its auxiliary row.

        A plain step of an item depends only on its own row, so a pass is one step on the sum of all their losses.
        """
        import torch

        from gossiprec.numerics.torch_setup import make_adam, make_sgd

        has_adam = self._options.item_optimizer == "adam"
        layout, draw = self._known.layout, generator(self._known.seed, "items-near", 0, epoch)
        width, found = layout.n_items * layout.item_width, version.copy()
        items = torch.from_numpy(found[:width].reshape(layout.n_items, -1)).requires_grad_()
        others = torch.from_numpy(normalise_rows(self.auxiliary.items).astype(np.float32))
        optimizer = (make_adam if has_adam else make_sgd)([items], lr=self._rate, foreach=False)
        order = torch.from_numpy(draw.permutation(layout.n_items))
        with single_torch_thread():
            for anchors in torch.split(order, ANCHORS):
                optimizer.zero_grad()
                near = normalise_embeddings(items[anchors]) @ others.T / self._options.temperature
                loss = torch.nn.functional.cross_entropy(
                    near, anchors, reduction="mean" if has_adam else "sum"
                )
                torch.autograd.backward(self._options.item_weight * loss)
                optimizer.step()
        found[:width] = items.detach().numpy().ravel()
        return found

    def state(self) -> dict[str, Any]:
        """Return the auxiliary model and the extras that clients were sent."""
        return {"auxiliary": self.auxiliary.state(), "extras": self._extras}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the auxiliary model and the extras that :meth:`state` returned."""
        self.auxiliary.restore(state["auxiliary"])
        self._extras = dict(state["extras"])
