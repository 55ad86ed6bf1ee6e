"""The compiled form of a model: what the fused executor and compiled observers ask of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from gossiprec.arrays import F32, I32, I64, Bools
from gossiprec.models.base.parameter_blocks import Layout
from gossiprec.old_names import forward

NO_CONTEXT = np.zeros(0, np.int32)

FIT_STEPS, FIT_RATE, FIT_NEGATIVES = 30, 0.01, 4
"""Of fitting a user row to an adversary's targets: Adam steps over all samples, learning rate, negatives per target."""


def flat_view(rows: Any) -> Any:
    """Return rows as one flat array, float16 as its bits."""
    values = rows.reshape(-1)
    return values.view(np.uint16) if rows.dtype == np.float16 else values


@dataclass(frozen=True)
class ScoreQuery:
    """Which models score which items.

    Attributes
    ----------
    layout : Layout
        Of `rows`; it may hold fewer items than the run's, as the models that observers keep do.
    rows : ndarray of float32 or float16, shape (n_rows, row_size)
        Model versions.
    row, user : ndarray of int64, shape (n_queries,)
        Query q uses version ``rows[row[q]]`` and row ``user[q]`` of its user table.
    offsets : ndarray of int64, shape (n_queries + 1,)
    items : ndarray of int32, shape (offsets[-1],)
        Query q scores ``items[offsets[q]:offsets[q + 1]]``.
    contexts : mapping of str to ndarray of int32, shape (offsets[-1],)
        The feed's context columns: items by the layout's numbering; -1: not known, as all are of a column left out.
    constants : mapping of str to ndarray, shape (n_items, ...)
        The model's constants for the layout's items. An executor that stacks rows also takes one for each row, shape
        (n_rows, n_items, ...).
    together : bool
        All queries use row 0, which need not be copied for each of them.
    histories : mapping of str to ndarray of int32, shape (n_queries, ...)
        Columns of the feed about a query as a whole (:meth:`gossiprec.feeds.base.Feed.histories`).
    """

    layout: Layout
    rows: F32
    row: I64
    user: I64
    offsets: I64
    items: I32
    contexts: Mapping[str, I32]
    constants: Mapping[str, F32]
    together: bool = False
    histories: Mapping[str, I32] = field(default_factory=dict)


@dataclass(frozen=True)
class VictimModels:
    """Models that a pool of observers holds.

    Attributes
    ----------
    rows : ndarray, shape (n_rows, row_size)
        float32, or float16.
    row, ids : ndarray of int64, shape (n_victims,)
        Which of `rows`, and whose they are.
    hides : ndarray of bool, shape (n_nodes,)
        Who keeps the user row.
    users : ndarray of float32, shape (n_adversaries, user_width)
        What each adversary looks with at those.
    shared_of : ndarray of float32, shape (n_adversaries, n_shared) or (0, n_shared)
        Shared weights that it looks with; empty: the victim's.
    """

    rows: F32
    row: I64
    ids: I64
    hides: Bools
    users: F32
    shared_of: F32


@dataclass(frozen=True)
class AdversaryQueries:
    """What adversaries ask about, back to back, and by which rules.

    Attributes
    ----------
    offsets : ndarray of int64, shape (n_adversaries + 1,)
    items, contexts : ndarray of int32, shape (offsets[-1],)
        Contexts are empty for models that look at none.
    n_targets : ndarray of int64, shape (n_adversaries,)
    weights : ndarray of float32
        See :meth:`ModelKernels.query_weights`.
    rules : ndarray of int64; thresholds : ndarray of float32
        Codes (:func:`gossiprec.numerics.relevance.rule_code`).
    """

    offsets: I64
    items: I32
    contexts: I32
    n_targets: I64
    weights: F32
    rules: I64
    thresholds: F32


class ModelKernels(ABC):
    """Compiled training and scores of one model: the only place, beside its torch formula, that knows it.

    Parameters
    ----------
    work : Workload
        Of the executor: model, layout, training settings, feed, arena, seed, settings of nodes.
    """

    merges_by_performance: ClassVar[bool] = False
    """Whether :meth:`run` finds the weights of merges by performance itself."""

    appraises: ClassVar[bool] = False
    """Whether :meth:`appraise` finds them before :meth:`run`, sooner than the interpreter does."""

    apart: ClassVar[frozenset[str]] = frozenset()
    """Ways of training that are not part of :meth:`run` and have :meth:`train_apart`."""

    all_users: ClassVar[bool] = False
    """Whether they also compute with models that hold all users' rows (``protocol.user_table: averaged``)."""

    ranks_open: ClassVar[bool] = False
    """Whether :meth:`rank` also serves victims who send their user row; else their scores of all items are ranked."""

    score_kept: ClassVar[Any]
    fit_user: ClassVar[Any]
    """Compiled functions for :mod:`gossiprec.attacks.individual_kernels`, which says what they are given."""

    def __init__(self, work: Any) -> None:
        self.work = work
        self.dims = (0,) * work.layout.user_width
        """As long as a user row: a tuple's length is part of its type, so the compiler knows it."""
        self.item_dims = (0,) * work.layout.item_width
        """Likewise, as long as an item's part."""

    @classmethod
    @abstractmethod
    def lacks(cls, training: Any, storage: str, ways: frozenset[str]) -> str | None:
        """Return what there are no kernels for, of these settings, storage and ways of training; or None."""

    @abstractmethod
    def run(self, program: Any, tasks: I64, update: I32) -> None:
        """Run `tasks` of one wave: merges, then local updates number ``update[task]``, none where it is -1."""

    def appraise(self, program: Any, tasks: I64) -> None:
        """Find the weights of merges by performance (:meth:`~gossiprec.compute.executors.base.Executor.appraise`)."""
        raise NotImplementedError(f"{type(self).__name__} does not score models by performance")

    def train_apart(self, way: str, program: Any, tasks: I64) -> None:
        """Run the local updates of tasks whose merges are done, in a way that is :attr:`apart`."""
        raise NotImplementedError(f"{type(self).__name__} has no separate training kernel")

    @abstractmethod
    def scores(self, query: ScoreQuery) -> F32:
        """Return predicted scores."""

    def query_weights(self, items: I32, contexts: I32) -> F32:
        """Return constants of what an adversary asks about, for `score_kept` and `rank`, one row for each question."""
        return np.zeros((0, 0), np.float32)

    def fit_recipe(self, feed: Any) -> tuple[Any, ...]:
        """Return what else `fit_user` needs of the adversaries' data and of the model."""
        return ()

    @abstractmethod
    def rank(self, victims: VictimModels, asked: AdversaryQueries, latest: F32) -> None:
        """Fill ``latest[rule, adversary, victim]`` for victims seen with each adversary's fictive user."""

    def entropies(self, victims: VictimModels, a: int, items: I32) -> F32:
        """Return entropies of items by victims' items and adversary a's user row, shape (n_victims, n_items)."""
        raise NotImplementedError(f"{type(self).__name__} does not predict probabilities")


forward(__name__)
