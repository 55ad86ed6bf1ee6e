"""Poisoners: nodes without data that send fabricated updates. One file per poisoner."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from gossiprec.base.arrays import F32, F64, I32, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import NoOptions, Options
from gossiprec.base.ragged import Ragged
from gossiprec.base.registry import Registry, registry_name
from gossiprec.compute.messages import MessagePayload, PushContext
from gossiprec.models import BlockRole, Layout, Model
from gossiprec.models.base.kernel_interface import CompiledGradient, LabelledBatch, has_own_gradient
from gossiprec.models.feeds import PairwiseFeed, PointwiseFeed
from gossiprec.models.feeds.base import Feed
from gossiprec.rules.aggregators import ModelDelta

if TYPE_CHECKING:
    from torch import Tensor


class ModelFormula:
    """The public part of a model that was sent: its scores and its training loss.

    Parameters
    ----------
    model : Model
    layout : Layout
    """

    def __init__(self, model: Model, layout: Layout) -> None:
        self.model = model
        self.layout = replace(layout, n_users=1)

    @staticmethod
    def check(model: Model, layout: Layout, name: str, *, labels: bool = True) -> None:
        """Refuse a model without user rows, or, with `labels`, one that does not learn from labelled items.

        Raises
        ------
        ScenarioError
        """
        what = None
        if not labels:
            if not issubclass(model.feed, PointwiseFeed | PairwiseFeed):
                what = "does not learn from single items or pairs of items"
        elif not issubclass(model.feed, PointwiseFeed):
            what = "does not learn from single items with labels"
        elif not model.predicts_probabilities:
            what = "does not predict probabilities"
        if what is None and not layout.user_width:
            what = "has no user rows"
        elif layout.blocks_of_role(BlockRole.PRIVATE):
            what = "has private weights"
        if what is not None:
            raise ScenarioError(
                f"attackers: {name} trains items on synthetic users, but {registry_name(model)} {what}; "
                "choose a model such as gmf, ncf, or mf with loss: bce"
            )

    def scores(self, users: Tensor, rows: Tensor, shared: Tensor) -> Tensor:
        """Return the logits of all `rows` for all `users`, shape (n_users, n_rows), also under derivatives."""
        import torch

        query = {"user": torch.zeros(1, dtype=torch.int64), "items": torch.arange(len(rows))}
        found = torch.func.vmap(lambda user: self.model.score(self.blocks(user, rows, shared), query))
        return found(users)

    def pair_scores(self, users: Tensor, rows: Tensor, shared: Tensor) -> Tensor:
        """Return the logit of each user for one row, shape (n_pairs,); `users` and `rows` have a row for each pair."""
        import torch

        query = {"user": torch.zeros(1, dtype=torch.int64), "items": torch.zeros(1, dtype=torch.int64)}
        return torch.func.vmap(
            lambda user, row: self.model.score(self.blocks(user, row[None], shared), query)[0]
        )(users, rows)

    def loss(self, users: Tensor, rows: Tensor, shared: Tensor, labels: Tensor) -> Tensor:
        """Return the model's loss for each of `users` given the labels of `rows`, shape (n_users,)."""
        import torch

        batch = {
            "user": torch.zeros(1, dtype=torch.int64), "items": torch.arange(len(rows)), "labels": labels,
            "weights": torch.ones_like(labels),
        }  # fmt: skip
        found = torch.func.vmap(lambda user: self.model.loss(self.blocks(user, rows, shared), batch))
        return found(users)

    def gradients(self, sent: MessagePayload, items: I32) -> UserGradients:
        """Return the gradients of users who have some items of a version as their only samples, all with one label.

        They are compiled if the model has its own gradient, and by torch otherwise, or if the users like the items
        so much that the compiled ``p - 1`` loses its digits: it is 0 above a logit of 17, and poisoners scale it up.
        """
        model = self.model
        if (
            model.feed is PointwiseFeed
            and has_own_gradient(model)
            and (analytic := model.gradient()) is not None
        ):
            compiled = partial(_compiled_gradients, analytic, sent, items)
            return partial(self._precise_gradients, compiled, sent, items)
        return partial(self._torch_gradients, sent, items)

    def _precise_gradients(
        self, compiled: UserGradients, sent: MessagePayload, items: I32, users: F32, label: float
    ) -> Gradients:
        found = compiled(users, label)
        if label and found.norm < SATURATED * compiled(users, 0.0).norm:
            return self._torch_gradients(sent, items, users, label)
        return found

    def _torch_gradients(self, sent: MessagePayload, items: I32, users: F32, label: float) -> Gradients:
        import torch

        (rows, shared), leaves = leaf_tensors(sent, items), torch.from_numpy(users).requires_grad_()
        losses = self.loss(leaves, rows, shared, torch.full((len(items),), label))
        (slopes,) = torch.autograd.grad(losses.sum(), leaves, retain_graph=True)
        mean = item_gradient(losses.mean(), items, rows, shared)
        return Gradients(slopes.numpy(), mean.rows, mean.shared)

    def blocks(self, user: Tensor, rows: Tensor, shared: Tensor) -> Mapping[str, Tensor]:
        """Return the model's blocks by name, with some items' rows in place of the item table."""
        tables = {"users": user[None], "items": rows}
        return self.layout.blocks_by_name(tables | self.layout.shared_blocks(shared))


class Gradients(NamedTuple):
    """The gradients of some users' losses.

    Attributes
    ----------
    users : ndarray of float32, shape (n_users, user_width)
        Of each user's own loss.
    rows, shared : ndarray of float32, shape (n_items, item_width) and (n_shared,)
        Of the mean of the losses.
    """

    users: F32
    rows: F32
    shared: F32

    @property
    def norm(self) -> float:
        """The length of the gradients of rows and shared weights."""
        return float(np.hypot(np.linalg.norm(self.rows), np.linalg.norm(self.shared)))


SATURATED = 1e-3
"""Ratio of the gradients of the labels 1 and 0, (1 - p) / p, below which they are not compiled."""
UserGradients: TypeAlias = Callable[[F32, float], Gradients]
"""Users' rows, shape (n_users, user_width), and the label of the items -> gradients."""


def _compiled_gradients(
    analytic: CompiledGradient, sent: MessagePayload, items: I32, users: F32, label: float
) -> Gradients:
    """Return the gradients by a model's compiled form; means are of float64."""
    width, columns = users.shape[1], np.ascontiguousarray(sent.items[items].T)
    core, of_items = np.append(users[0], sent.shared), np.empty_like(columns)
    samples = np.full(len(items), 1.0 if analytic.summed else 1.0 / len(items), np.float32)
    positives, room = np.float32(label) * samples, np.empty(analytic.room, np.float32)
    slopes, total = np.empty((len(users), len(core)), np.float32), np.zeros(columns.shape)
    batch = LabelledBatch(samples, positives)
    for user, slope in zip(users, slopes, strict=True):
        core[:width] = user
        analytic.fill(core, columns, slope, of_items, batch, analytic.shape, room)
        total += of_items
    rows = np.ascontiguousarray((total / len(users)).T, np.float32)
    return Gradients(
        slopes[:, :width], rows, slopes[:, width:].mean(axis=0, dtype=np.float64).astype(np.float32)
    )


def leaf_tensors(sent: MessagePayload, items: I32) -> tuple[Tensor, Tensor]:
    """Return some items' rows and the shared weights as leaf tensors for derivatives."""
    import torch

    rows, shared = torch.from_numpy(sent.items[items]), torch.from_numpy(sent.shared.copy())
    return rows.requires_grad_(), shared.requires_grad_()


def item_gradient(loss: Tensor, items: I32, rows: Tensor, shared: Tensor) -> ModelDelta:
    """Return the derivative of a loss with respect to some items' rows and the shared weights."""
    import torch

    parts = torch.autograd.grad(loss, (rows, shared), allow_unused=True, materialize_grads=True)
    of_rows, of_shared = (part.numpy() for part in parts)
    return ModelDelta(items, of_rows, of_shared)


def draw_user_rows(draw: np.random.Generator, count: int, layout: Layout, std: float) -> F32:
    """Draw rows of synthetic users from N(0, std^2), shape (count, user_width)."""
    return draw.normal(0.0, std, (count, layout.user_width)).astype(np.float32)


@dataclass(frozen=True)
class PoisonerContext:
    """A poisoner's knowledge in addition to the version that it is sent; about users only what its class declares.

    Attributes
    ----------
    formula : ModelFormula
        Formula of the model.
    empty_feed : Feed
        A feed without data that makes samples of given items, like a client's (``empty_feed.for_items(items)``).
    negatives : int
        Number of negatives that clients draw for each positive.
    targets : ndarray of int32, shape (n_targets,)
        Items to be promoted or demoted, ascending; none if the poisoner has no use for them.
    sign : int
        1 to promote the targets, -1 to demote them.
    nodes : ndarray of int64
        The nodes that poison together.
    rate : float
        The clients' learning rate.
    popularity : ndarray of int64, shape (n_items,), or None
        Number of users with each item in their training data, if the class declares this knowledge.
    interactions : Ragged of int32 or None
        Some training items of each user, if the class declares this knowledge.
    """

    formula: ModelFormula
    empty_feed: Feed
    negatives: int
    targets: I32
    sign: int = 1
    nodes: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    rate: float = 1.0
    popularity: I64 | None = None
    interactions: Ragged | None = None


class Poisoner(ABC):
    """The way in which some nodes without data poison the model that they are sent.

    One object serves all nodes of its entry in a scenario and keeps no state between pushes, except what a node writes
    to :attr:`PushContext.memory`: a message follows from the versions that the node was sent, the seed, the node, the
    number of its push, and the targets.

    Parameters
    ----------
    options : Options
        Options of the class's own type.
    context : PoisonerContext

    Attributes
    ----------
    targeted : bool
        Whether the poisoner promotes or demotes targets; otherwise it lowers the quality of all recommendations.
    needs_labels : bool
        Whether the model must learn from single items with labels.
    knows : frozenset of str
        Knowledge about users that it needs: ``popularity`` of items; ``interactions``, a fraction of which its options
        name as `knowledge`.
    """

    Options: ClassVar[type[Options]] = NoOptions
    targeted: ClassVar[bool] = True
    needs_labels: ClassVar[bool] = True
    knows: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, options: Any, context: PoisonerContext) -> None:
        self.options = options
        self.context = context

    @classmethod
    def check(cls, model: Model, layout: Layout, name: str) -> None:
        """Refuse a model that the poisoner cannot work with.

        Raises
        ------
        ScenarioError
        """
        ModelFormula.check(model, layout, name, labels=cls.needs_labels)

    @classmethod
    def memory_numbers(cls, options: Any, layout: Layout, n_users: int) -> int:
        """Return the count of numbers that a node keeps from push to push: none."""
        return 0

    @abstractmethod
    def gradient(self, sent: MessagePayload, push: PushContext) -> ModelDelta:
        """Return the gradient of the poisoned loss, against which the poisoner's training would step.

        Parameters
        ----------
        sent : MessagePayload
            The version: ``items``, (n_items, item_width), and ``shared``, (n_shared,).
        push : PushContext
            Context with the random generators, ``push.generator(purpose)``, and with ``memory``.

        Returns
        -------
        ModelDelta
            Items, ascending, with one row of gradients each, and the gradient of the shared weights.
        """


class VersionWatcher(Poisoner):
    """A poisoner that compares each version with the one that it was sent before."""

    @classmethod
    def memory_numbers(cls, options: Any, layout: Layout, n_users: int) -> int:
        """Return the count of versions seen, the latest item rows, and a number for each item."""
        return 1 + layout.n_items * (layout.item_width + 1)

    def item_changes(self, sent: MessagePayload, push: PushContext) -> tuple[int, F32, F32]:
        """Return the number of earlier versions, the change of all item rows since the last one, and :attr:`notes`.

        The version is then the last one. Notes are a number for each item that the poisoner may change, zero at first.
        """
        seen, size = int(push.memory[0]), sent.items.size
        last, notes = push.memory[1 : 1 + size].reshape(sent.items.shape), push.memory[1 + size :]
        change = sent.items - last if seen else np.zeros_like(sent.items)
        last[:], push.memory[0] = sent.items, min(seen + 1, 2**23)
        return seen, change, notes


def no_change(sent: MessagePayload) -> ModelDelta:
    """Return the gradient of a poisoner that does not know enough yet."""
    none = np.zeros(0, np.int32)
    return ModelDelta(none, sent.items[none], np.zeros_like(sent.shared))


def largest_first(values: F32 | F64, count: int, *, without: I32) -> I64:
    """Return the places of the `count` largest values, largest first, lower places first on ties."""
    ranked = np.argsort(-values, kind="stable")
    return ranked[~np.isin(ranked, without)][:count]


POISONERS: Registry[type[Poisoner]] = Registry("poisoner", __name__, group="poisoners")
