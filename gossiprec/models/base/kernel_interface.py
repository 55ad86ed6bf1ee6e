"""The compiled forms of a model: for the fused executor and compiled observers, and as gradients for clients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from gossiprec.base.arrays import F32, F64, I32, I64, Bools
from gossiprec.models.base.parameter_blocks import Layout

BoundKernel: TypeAlias = tuple[Any, tuple[Any, ...]]
"""A kernel, and its arguments after the leading ones that differ between calls."""
NO_CONTEXT = np.zeros(0, np.int32)

FIT_STEPS, FIT_RATE, FIT_NEGATIVES = 30, 0.01, 4
"""Fit of a user row to an adversary's targets: Adam steps over all samples, learning rate, negatives per target."""


def flat_view(rows: Any) -> Any:
    """Return rows as one flat array; float16 as its bits."""
    values = rows.reshape(-1)
    return values.view(np.uint16) if rows.dtype == np.float16 else values


class Sizes(NamedTuple):
    """The sizes of a layout, for kernels.

    Attributes
    ----------
    dims, item_dims : tuple of int
        Zeros, as many as a user row and an item's part have numbers: the length of a tuple belongs to its type, so the
        compiler knows it.
    n_items, n_users, n_shared : int
    width : int
        Numbers per row.
    """

    dims: tuple[int, ...]
    item_dims: tuple[int, ...]
    n_items: int
    n_users: int
    n_shared: int
    width: int

    @classmethod
    def of(cls, layout: Layout) -> Sizes:
        """Return the sizes of a layout."""
        dims, item_dims = (0,) * layout.user_width, (0,) * layout.item_width
        return cls(dims, item_dims, layout.n_items, layout.n_users, layout.n_shared, layout.row_size)


class TaskColumns(NamedTuple):
    """The columns of a program that kernels read, and those that they fill (`found`, `refused`, `finite`).

    See :class:`gossiprec.compute.plan.program.Program`.
    """

    node: I32
    source: I32
    target: I32
    update: I32
    merge_offsets: I64
    merge_row: I32
    merge_keep: F32
    merge_message: I32
    found: F32
    refused: Bools
    finite: Bools

    @classmethod
    def of(cls, program: Any, update: I32 | None = None) -> TaskColumns:
        """Return the columns of a program, with other updates if given."""
        columns = {name: getattr(program, name) for name in cls._fields}
        return cls(**columns if update is None else {**columns, "update": update})


class Versions(NamedTuple):
    """The model versions of all nodes, flat, the moments of their optimizers, and their numbers of steps."""

    rows: F32
    first: F32
    second: F32
    steps: I64


class Samples(NamedTuple):
    """The positives of all nodes (:class:`gossiprec.models.feeds.base.Feed`), and the seed of the negatives."""

    offsets: I64
    positives: I32
    member: Any
    seed: np.uint64


class TrainingRule(NamedTuple):
    """The settings of local updates.

    Attributes
    ----------
    negatives : int
        Per positive.
    once, summed : bool
        Whether all updates use the negatives of update 0, and whether the loss is the sum over the samples.
    batch_size : int
        0 for all samples.
    epochs : int
    adam : bool
        Whether the optimizer is Adam; if not, it is plain gradient descent.
    rate, beta1, beta2, epsilon : float
    """

    negatives: int
    once: bool
    summed: bool
    batch_size: int
    epochs: int
    adam: bool
    rate: float
    beta1: float
    beta2: float
    epsilon: float

    @classmethod
    def of(cls, training: Any, *, summed: bool) -> TrainingRule:
        """Return the rule of the settings of training."""
        return cls(
            training.negatives, training.negatives_drawn == "once", summed, training.batch_size or 0,
            training.local_epochs, training.optimizer == "adam", training.learning_rate, training.beta1,
            training.beta2, training.epsilon,
        )  # fmt: skip


class ValidationLists(NamedTuple):
    """Items by which nodes judge models: node i has ``items[offsets[i]:offsets[i + 1]]``."""

    offsets: I64
    items: I32


class FictiveState(NamedTuple):
    """The state of the fictive users of adversaries, which kernels change.

    Attributes
    ----------
    own : bool
        Whether adversaries score with their own present user row and shared weights.
    users, start : ndarray of float32, shape (n_adversaries, user_width)
        Present rows, and the rows from which a fit starts.
    due : ndarray of float64, shape (n_adversaries,)
        Virtual time from which a row is outdated.
    n_fits : ndarray of int64, shape (n_adversaries,)
    refit_every : float
    adversaries : ndarray of int64, shape (n_adversaries,)
        Their nodes.
    samples : Samples
        Of the adversaries' data, by node.
    """

    own: bool
    users: F32
    start: F32
    due: Any
    n_fits: I64
    refit_every: float
    adversaries: I64
    samples: Samples


class KeptQueries(NamedTuple):
    """An adversary's queries: places among its kept items, places of their contexts, and constants of the model.

    `room` is working memory (:attr:`ModelKernels.room_size`), which begins with zeros; `recipe` is that of a fit.
    """

    items: I32
    contexts: I32
    weights: F32
    room: F32
    recipe: Any


class ScoreColumns(NamedTuple):
    """The columns of a :class:`ScoreQuery` that kernels read."""

    rows: F32
    row: I64
    user: I64
    offsets: I64
    items: I32


@dataclass(frozen=True)
class ScoreQuery:
    """Queries of models for scores of items.

    Attributes
    ----------
    layout : Layout
        Layout of `rows`; it may hold fewer items than the run's, like the models that observers keep.
    rows : ndarray of float32 or float16, shape (n_rows, row_size)
        Model versions.
    row, user : ndarray of int64, shape (n_queries,)
        Query q uses version ``rows[row[q]]`` and row ``user[q]`` of its user table.
    offsets : ndarray of int64, shape (n_queries + 1,)
    items : ndarray of int32, shape (offsets[-1],)
        Query q scores ``items[offsets[q]:offsets[q + 1]]``.
    contexts : mapping of str to ndarray of int32, shape (offsets[-1],)
        The feed's context columns: items by the layout's numbering, -1 if unknown. A missing column is all unknown.
    constants : mapping of str to ndarray, shape (n_items, ...), or None
        The model's constants for the layout's items, or None if these are the run's items. An executor that stacks
        rows also accepts one set per row, shape (n_rows, n_items, ...).
    together : bool
        Whether all queries use row 0, which then need not be copied for each of them.
    histories : mapping of str to ndarray of int32, shape (n_queries, ...)
        Columns of the feed about a whole query (:meth:`gossiprec.models.feeds.base.Feed.histories`).
    """

    layout: Layout
    rows: F32
    row: I64
    user: I64
    offsets: I64
    items: I32
    contexts: Mapping[str, I32] = field(default_factory=dict)
    constants: Mapping[str, F32] | None = None
    together: bool = False
    histories: Mapping[str, I32] = field(default_factory=dict)

    @property
    def columns(self) -> ScoreColumns:
        """The columns for kernels."""
        return ScoreColumns(self.rows, self.row, self.user, self.offsets, self.items)


class VictimModels(NamedTuple):
    """The models that a pool of observers holds.

    Attributes
    ----------
    rows : ndarray, shape (n_rows, row_size)
        float32, or float16.
    row, ids : ndarray of int64, shape (n_victims,)
        Row of each victim's model in `rows`, and the victim's node.
    hides : ndarray of bool, shape (n_nodes,)
        Whether each node withholds its user row.
    users : ndarray of float32, shape (n_adversaries, user_width)
        The user row that each adversary uses for victims that withhold theirs.
    shared_of : ndarray of float32, shape (n_adversaries, n_shared) or (0, n_shared)
        Shared weights that it uses; empty for the victim's.
    """

    rows: F32
    row: I64
    ids: I64
    hides: Bools
    users: F32
    shared_of: F32


class AdversaryQueries(NamedTuple):
    """The queries of adversaries, concatenated, and the rules that score them.

    Attributes
    ----------
    offsets : ndarray of int64, shape (n_adversaries + 1,)
    items, contexts : ndarray of int32, shape (offsets[-1],)
        Contexts are empty for models without contexts.
    n_targets : ndarray of int64, shape (n_adversaries,)
    weights : ndarray of float32
        See :meth:`ModelKernels.query_weights`.
    rules : ndarray of int64; thresholds : ndarray of float32
        Codes of the rules (:func:`gossiprec.numerics.relevance.rule_code`).
    room_size : int
        See :attr:`ModelKernels.room_size`.
    """

    offsets: I64
    items: I32
    contexts: I32
    n_targets: I64
    weights: F32
    rules: I64
    thresholds: F32
    room_size: int


class ModelKernels(ABC):
    """Compiled training and scores of one model: the only code that knows it apart from its torch formula.

    Parameters
    ----------
    work : ExecutorContext
        The context of the executor: model, layout, training settings, feed, arena, seed, settings of nodes.
    """

    merges_by_performance: bool = False
    """Whether :meth:`merge_and_train` computes the weights of merges by performance itself."""

    scores_performance: ClassVar[bool] = False
    """Whether :meth:`score_performance` computes them before :meth:`merge_and_train`, faster than the interpreter."""

    apart: ClassVar[frozenset[str]] = frozenset()
    """Ways of training that are not part of :meth:`merge_and_train` but of :meth:`train_in_way`."""

    all_users: ClassVar[bool] = False
    """Whether the kernels support models with the rows of all users (``protocol.user_table: averaged``)."""

    ranks_open: ClassVar[bool] = False
    """Whether :meth:`rank` also serves victims that send their user row; if not, all their scores are ranked."""

    scores: ClassVar[bool] = True
    """Whether the kernels score; if not, torch does, and observers have no compiled form."""

    score_kept: ClassVar[Any]
    fit_user: ClassVar[Any]
    """Compiled functions for :mod:`gossiprec.adversaries.attacks.individual_kernels`; its stubs show the arguments."""

    room_size: int = 0
    """Numbers of working memory that `score_kept` needs."""

    def __init__(self, work: Any) -> None:
        self.work = work
        self.sizes = Sizes.of(work.layout)
        self.dims, self.item_dims = self.sizes.dims, self.sizes.item_dims

    @classmethod
    @abstractmethod
    def missing_feature(cls, training: Any, storage: str, ways: frozenset[str], layout: Layout) -> str | None:
        """Return the feature of the settings, storage, ways of training or layout without kernels, or None."""

    @classmethod
    def missing_part(cls, model: Any) -> str | None:
        """Return the part of a model, bound to its data, that the kernels do not see, or None."""
        return None

    def training_inputs(self) -> tuple[Versions, Samples, TrainingRule, Sizes]:
        """Return the inputs of loops that train on labelled items."""
        work, arena = self.work, self.work.arena
        positives = getattr(work.feed, "moves", work.feed.positives)
        return (
            Versions(flat_view(arena.rows), arena.first, arena.second, arena.steps),
            Samples(positives.offsets, positives.values, work.feed.member, np.uint64(work.seed)),
            TrainingRule.of(work.training, summed=bool(getattr(work.model.options, "summed", False))),
            self.sizes,
        )

    @abstractmethod
    def merge_and_train(self, program: Any, tasks: I64, update_numbers: I32) -> None:
        """Run `tasks` of one wave: merges, then local updates number ``update_numbers[task]``, none if it is -1."""

    def bind(self, program: Any, update_numbers: I32) -> BoundKernel | None:
        """Return the kernel that does all of :meth:`merge_and_train`, and its arguments after the tasks, or None."""
        return None

    def score_performance(self, program: Any, tasks: I64) -> None:
        """Compute merge weights by performance, as :meth:`Executor.resolve_performance_weights`."""
        raise NotImplementedError(f"{type(self).__name__} does not score models by performance")

    def train_in_way(self, way: str, program: Any, tasks: I64) -> None:
        """Run the local updates of tasks after their merges, in a way that is :attr:`apart`."""
        raise NotImplementedError(f"{type(self).__name__} has no separate training kernel")

    @abstractmethod
    def predict_scores(self, query: ScoreQuery) -> F32:
        """Return predicted scores."""

    def query_weights(self, items: I32, contexts: I32) -> F32:
        """Return constants of an adversary's queries, for `score_kept` and `rank`, one row per query."""
        return np.zeros((0, 0), np.float32)

    def fit_recipe(self, feed: Any) -> tuple[Any, ...]:
        """Return further inputs of `fit_user`, a NamedTuple, from the adversaries' data and the model."""
        return ()

    @abstractmethod
    def rank(self, victims: VictimModels, queries: AdversaryQueries, latest: F32) -> None:
        """Fill ``latest[rule, adversary, victim]`` for victims scored with each adversary's fictive user."""

    def entropies(self, victims: VictimModels, a: int, items: I32) -> F32:
        """Return entropies of items by victims' items and adversary a's user row, shape (n_victims, n_items)."""
        raise NotImplementedError(f"{type(self).__name__} does not predict probabilities")


class LabelledBatch(NamedTuple):
    """The samples of labelled items: items are columns.

    All samples of an item have the same score, so it is computed once per item, with the samples as weights.

    Attributes
    ----------
    samples, positives : ndarray of float32, shape (n_items,)
        Each item's share of all samples, and the share of its positive ones, or their numbers if the loss is summed;
        the loss is ``sum(samples * softplus(z) - positives * z)`` over the items' logits z.
    """

    samples: F32
    positives: F32


class PairBatch(NamedTuple):
    """The pairs of an item and one of its negatives: the rows of both, int32, shape (n_pairs,), at least one."""

    liked: I32
    others: I32


class SequenceBatch(NamedTuple):
    """The samples of one sequence, for the softmax cross-entropy of the positive at each place against others.

    A place's state is compared with the rows of items by their dot products. The candidates are the positive, all
    `others`, and, if the options say so, the positives of other places; each item counts once.

    Attributes
    ----------
    previous, wanted : ndarray of int32, shape (length,)
        The rows of the item before each place, and of the item at the place; -1 if there is none, or it is not to be
        learnt.
    others : ndarray of int32, shape (1, n_others) or (length, n_others)
        The rows of the negatives of all places, or of each place; -1 means none.
    keep : ndarray of float32, shape (length, item_width) or (0, ...)
        Factors of the item before each place: the model's draws for a step (:meth:`Model.draws`).
    """

    previous: I32
    wanted: I32
    others: I32
    keep: F32


@dataclass(frozen=True, eq=False)
class CompiledGradient:
    """The gradient of a model's loss of one user's batch, for whole models and for clients without a model.

    Attributes
    ----------
    fill : kernel
        ``fill(core, items, slopes, item_slopes, batch, shape, room)``, compiled by :mod:`gossiprec.native.jit`,
        overwrites `slopes` and `item_slopes` with the gradient:

        - core, slopes: float32, shape (user_width + n_shared,): the user's row, then shared weights, in the order of
          the model's blocks.
        - items, item_slopes: float32, C-contiguous, the items in use, each once: columns, shape (item_width, n_items),
          for a :class:`LabelledBatch`; else rows, shape (n_items, item_width).
        - batch: the class that belongs to the model's feed (:class:`LabelledBatch`, :class:`PairBatch` or
          :class:`SequenceBatch`).
        - room: float32 working memory with arbitrary contents.
    shape : ndarray of int64 or float64
        The model's sizes and numbers, for its kernels.
    room : int
        Number of values of working memory.
    summed : bool
        Whether the loss is the sum over the samples instead of their mean.
    score_all_items : kernel or None
        ``score_all_items(users, shared, tables, found, shape)``, compiled, fills `found`, shape (n_users, n_items),
        with the logits of all items. Without it the executor that scores computes them.
    read_state : kernel or None
        ``read_state(core, items, history, shape, state)``, compiled, sets `state`, float32, shape (item_width,), to the
        state after a history, int32, shape (length,), rows of `items`; -1 means none.
    """

    fill: Any
    shape: I64 | F64
    room: int = 0
    summed: bool = False
    score_all_items: Any = None
    read_state: Any = None


def has_own_gradient(model: Any) -> bool:
    """Return whether the gradient of a model or its class belongs to its own formula, not to a base class's."""
    formulas = ("score", "states", "loss", "draws", "encode_client")
    return defined_by_same_class(model, "gradient", *(name for name in formulas if hasattr(model, name)))


def has_compiled_states(model: Any) -> bool:
    """Return whether a model's compiled states belong to its formula of states."""
    return defined_by_same_class(model, "gradient", "state_after")


def defined_by_same_class(thing: Any, written_out: str, *formulas: str) -> bool:
    """Return whether the class that defines a compiled form of a thing or class, or a base, defines its formulas."""
    own = thing if isinstance(thing, type) else type(thing)
    owner = {
        name: next(k for k, kind in enumerate(own.__mro__) if name in vars(kind))
        for name in (written_out, *formulas)
    }
    return all(owner[written_out] <= owner[name] for name in formulas)
