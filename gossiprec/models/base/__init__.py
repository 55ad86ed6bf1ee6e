"""The base of models: parameters by role, a formula in torch, and an optional compiled form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F32, I64
from gossiprec.base.errors import PluginError
from gossiprec.base.options import Options
from gossiprec.base.rng import generator
from gossiprec.data.training_data import TrainingData
from gossiprec.models.base.kernel_interface import CompiledGradient, ModelKernels, has_own_gradient
from gossiprec.models.base.parameter_blocks import BlockRole, Layout, ParameterBlock, TensorMap
from gossiprec.models.feeds.base import Columns, Feed

if TYPE_CHECKING:
    from torch import Tensor

    from gossiprec.models.base.terms import ItemTerm


class ReductionOptions(Options):
    """The option of models with a loss that is by default the mean over samples."""

    loss_reduction: Literal["mean", "sum"] = "mean"
    """reduction of the loss over the samples of a step; sum: as L_rec is defined in the CL4FedRec and PDC-FRS
    papers, so that additional losses weigh less (dp-sgd always divides by the batch size)"""

    def describe_ineffective(self, scenario: Any) -> Iterator[str]:
        """Yield a note if Adam normalises away the sum of a loss that has no additional term."""
        adam = scenario.training.optimizer == "adam" and scenario.recommender is None
        more = any(getattr(choice.options, "adds_loss", False) for choice in scenario.policies)
        gradients = getattr(scenario.protocol.options, "upload", None) == "gradients"
        if self.summed and adam and not more and not gradients:
            yield (
                "model.loss_reduction: Adam normalises gradients, so without an additional loss the sum gives "
                "the result of the mean up to training.eps"
            )

    @property
    def summed(self) -> bool:
        """Whether the loss is the sum over the samples."""
        return self.loss_reduction == "sum"

    def cross_entropy(self, logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Return the binary cross-entropy of a step; weights are 1 for a sample, 0 for padding."""
        from torch.nn.functional import binary_cross_entropy_with_logits

        total = binary_cross_entropy_with_logits(logits, labels, weights, reduction="sum")
        return self.reduce_losses(total, weights)

    def reduce_losses(self, total: Tensor, weights: Tensor) -> Tensor:
        """Return the loss of a step.

        Parameters
        ----------
        total : Tensor
            Sum over the samples.
        weights : Tensor, shape (n,)
            1 for a sample, 0 for padding.
        """
        return total if self.summed else total / weights.sum()


class Model(ABC):
    """A recommendation model.

    Its formula is two functions of mappings of tensors. `p` holds the blocks by name (users' and items' blocks as
    tables: (n_users, ...), (n_items, ...)) and the :attr:`constants`; executors may stack such mappings, so there are
    no modules, no ``.item()`` and no branches on values.

    Parameters
    ----------
    options : Options
        Options of the class's own type.
    """

    Options: ClassVar[type[Options]]

    feed: type[Feed]
    """The feed of its training samples."""

    has_sample_gradients: ClassVar[bool] = True
    """Whether the loss of a batch is the mean of its samples' own losses: DP-SGD clips each sample's gradient."""

    predicts_probabilities: bool = True
    """Whether the sigmoid of a score is the probability that the user takes the item."""

    needs_features: ClassVar[bool] = False
    """Whether it uses attributes: the data then have them, if the data set does (docs/data.md)."""

    needs_graph: ClassVar[bool] = False
    """Whether its formula needs all interactions (:class:`gossiprec.models.base.graph.GraphModel`)."""

    def __init__(self, options: Any) -> None:
        self.options = options
        self.constants: Mapping[str, F32] = {}

    @classmethod
    def kernels(cls) -> type[ModelKernels] | None:
        """Return the compiled form, or None; it is imported on request."""
        return None

    @classmethod
    def training_path(cls) -> str:
        """Return how it trains: ``compiled``, ``compiled at clients`` (without a model of their own), or ``torch``."""
        if cls.kernels() is not None:
            return "compiled"
        return "compiled at clients" if has_own_gradient(cls) else "torch"

    @abstractmethod
    def blocks(self) -> tuple[ParameterBlock, ...]:
        """Return the parameters: their roles, shapes and initial values."""

    @abstractmethod
    def score(self, p: TensorMap, query: TensorMap) -> Tensor:
        """Return a score for recommending each of ``query["items"]`` to row ``query["user"]`` of the user table.

        Parameters
        ----------
        p : mapping of str to Tensor
        query : mapping of str to Tensor
            ``user`` (1,), ``items`` (n,), and the feed's context columns (n,), if any are known; int64.

        Returns
        -------
        Tensor, shape (n,)
            Logits if the model predicts probabilities: they have the same ranking and do not saturate.
        """

    def gradient(self) -> CompiledGradient | None:
        """Return the compiled gradient of a user's batch, or None; compilers are imported here.

        Clients without a stored model train with it many times as fast as with autograd; so do nodes with whole models
        if :meth:`kernels` uses it. It is for models without private blocks.
        """
        return None

    def score_all_items(self, p: TensorMap) -> Callable[[Tensor], Tensor] | None:
        """Return a function that computes a user's scores of all items, or None to use :meth:`score`.

        It is for formulas with a part that is the same for all users or all items, which is computed here, once.

        Parameters
        ----------
        p : mapping of str to Tensor

        Returns
        -------
        callable or None
            From a row of the user table, shape (1,), int64, to scores, shape (n_items,), equal to
            :meth:`score` up to rounding. It is called from several threads and does not change `p`; there is no
            gradient.
        """
        return None

    def draws(self, samples: Columns, draw: np.random.Generator) -> Columns:
        """Return the random inputs of a step in addition to its samples, such as dropout masks or noise.

        Parameters
        ----------
        samples : Columns
            Those of the step.
        draw : numpy.random.Generator
            Generator of the node, the local update and the step; it depends on nothing else.

        Returns
        -------
        mapping of str to ndarray, shape (n, ...)
            Columns with an entry for each sample, which :meth:`loss` finds in its batch. A loss that is computed
            without draws, as in fits of adversaries, lacks them.
        """
        return {}

    @abstractmethod
    def loss(self, p: TensorMap, batch: TensorMap) -> Tensor:
        """Return the training loss of a batch of samples.

        Parameters
        ----------
        p : mapping of str to Tensor
        batch : mapping of str to Tensor
            ``user``, (1,), or (n,) if a coordinator trains on the samples of all users; the feed's columns (n,), and
            ``weights`` (n,): 1 for a sample and 0 for padding; and the columns of :meth:`draws`.
        """

    def item_terms(self) -> Mapping[ItemTerm, float]:
        """Return the terms that every local update adds to the loss, and their factors; they may use the options."""
        return {}

    def layout(self, n_items: int, n_users: int = 1) -> Layout:
        """Return the layout of one version.

        Raises
        ------
        PluginError
            If a block's name is taken by another block, a constant, or a table; or if nothing would be sent.
        """
        blocks = self.blocks()
        self._check(blocks)
        return Layout(blocks, n_items, n_users)

    def _check(self, blocks: tuple[ParameterBlock, ...]) -> None:
        names = [*self.constants, *(block.name for block in blocks)]
        for block in blocks:
            due = {"users": BlockRole.USER, "items": BlockRole.ITEM}.get(block.name, block.role)
            if block.role is not due:
                found = (
                    f"is {block.role}, but its name is reserved for the table of all {block.name}; rename it"
                )
            elif names.count(block.name) > 1:
                found = "shares its name with another block or a constant; rename one of them"
            else:
                continue
            raise PluginError(f"model: {type(self).__name__}: the block {block.name!r} {found}")
        if not {BlockRole.ITEM, BlockRole.SHARED} & {block.role for block in blocks}:
            raise PluginError(
                f"model: {type(self).__name__} has no block with role item or shared, so nothing "
                "would be sent; add one"
            )

    def solve(self, feed: Feed) -> TensorMap | None:
        """Return the tables that minimise the loss on the data of all users, or None for a model without a closed form.

        A coordinator with all data then takes this step, and no other. Tables are named as in :attr:`Layout.tables`.
        """
        return None

    def sample_cost(self, layout: Layout) -> float:
        """Return the time to train on one sample, in merges of whole rows; it balances tasks between threads."""
        return 0.01

    def make_feed(self, split: TrainingData) -> Feed:
        """Return the feed of the nodes; attributes of users, which are the nodes' data, have a row for each."""
        return self.feed.of(split)

    def bind_to_data(self, split: TrainingData) -> Model:
        """Return the model for the items of the data, with :attr:`constants` of shape (n_items, ...).

        What it keeps is public: attacks have the model. Therefore attributes of users have columns, but no rows.

        Raises
        ------
        DataError
            If the data lack something that it needs.
        """
        return self

    def fill_rows(
        self,
        rows: npt.NDArray[np.floating],
        layout: Layout,
        seed: int,
        *,
        common_start: bool = True,
        nodes: I64 | None = None,
    ) -> None:
        """Write every node's first version into `rows`, shape (n_nodes, row_size), one after the other.

        Item tables and shared weights are common to all nodes, unless each node has its own start; user rows are
        always drawn separately. If `nodes` is given, only their rows are written.
        """
        users, private = self.initial_own(layout, len(rows), seed)
        begin = layout.initial_common(generator(seed, "initial-common", 0)).astype(rows.dtype)
        for node in range(len(rows)) if nodes is None else nodes.tolist():
            row = rows[node]
            if node > 0 and not common_start:
                begin = layout.initial_common(generator(seed, "initial-common", node)).astype(rows.dtype)
            row[layout.items.start : layout.shared.stop] = begin
            row[layout.users] = users[node] if layout.n_users == 1 else users[: layout.n_users].ravel()
            row[layout.private] = private[node]

    def initial_own(self, layout: Layout, n_nodes: int, seed: int) -> tuple[F32, F32]:
        """Return the initial user rows and private weights of the nodes, shapes (n_nodes, ...)."""
        users = np.stack([layout.initial_user(generator(seed, "initial-user", n)) for n in range(n_nodes)])
        if not layout.blocks_of_role(BlockRole.PRIVATE):
            return users, np.zeros((n_nodes, 0), np.float32)
        private = [layout.initial_private(generator(seed, "initial-private", n)) for n in range(n_nodes)]
        return users, np.stack(private)

    def initial_row(self, layout: Layout, seed: int) -> F32:
        """Return the first version of a node that holds the initial rows of all users, shape (row_size,)."""
        row = np.zeros(layout.row_size, np.float32)
        users, private = self.initial_own(layout, layout.n_users, seed)
        row[layout.users], row[layout.private] = users.ravel(), private[0]
        row[layout.items.start : layout.shared.stop] = layout.initial_common(
            generator(seed, "initial-common", 0)
        )
        return row

    def initial_rows(self, layout: Layout, n_nodes: int, seed: int) -> F32:
        """Return every node's first version, shape (n_nodes, row_size)."""
        rows = np.zeros((n_nodes, layout.row_size), np.float32)
        self.fill_rows(rows, layout, seed)
        return rows


class DotProductScores:
    """The scores of models that multiply the rows of the user and of the items."""

    def score(self, p: TensorMap, query: TensorMap) -> Tensor:
        """Return the dot products."""
        return (p["items"][query["items"]] * p["users"][query["user"]]).sum(-1)

    def score_all_items(self, p: TensorMap) -> Callable[[Tensor], Tensor]:
        """Return the function that multiplies the item table by a user's row."""
        return lambda user: p["items"] @ p["users"][user][0]


__all__ = ["BlockRole", "Layout", "Model", "ParameterBlock"]
