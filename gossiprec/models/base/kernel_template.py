"""Kernels for a new model from two functions: the score of an item, and its gradient.

The template is for models that learn from labelled items (:class:`gossiprec.models.feeds.PointwiseFeed`) by the
cross-entropy of their logits, and score item by item. Merges, the sampling of negatives, SGD and Adam, terms of
the loss, scores and observers are the same for all of them (:mod:`gossiprec.models.base.template_kernels`,
:mod:`gossiprec.models.base.template_observers`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from gossiprec.base.arrays import F32, I32, I64
from gossiprec.models.base.dp_sgd_kernels import PrivacySettings
from gossiprec.models.base.kernel_interface import (
    NO_CONTEXT,
    AdversaryQueries,
    BoundKernel,
    ModelKernels,
    ScoreQuery,
    Sizes,
    TaskColumns,
    ValidationLists,
    VictimModels,
    flat_view,
)
from gossiprec.models.base.parameter_blocks import BlockRole, Layout
from gossiprec.models.base.template_formula import NO_CONSTANTS, FormulaInputs, Kind, Queries, room_size
from gossiprec.models.base.template_kernels import (
    TrainingLoops,
    TreatedLoops,
    specialise_training,
    specialise_treated,
)
from gossiprec.models.base.template_observers import ObserverLoops, specialise_observers
from gossiprec.models.base.template_pairs import PairFunctions, fill_query_weights
from gossiprec.models.base.template_performance import specialise_performance
from gossiprec.models.feeds import PointwiseFeed, TransitionFeed
from gossiprec.native.jit import as_type, borrow, specialise


class TemplateKernels(ModelKernels):
    """Kernels of a model made from two functions; :func:`template_kernels` makes a subclass of it for each model."""

    loops: ClassVar[TrainingLoops]
    observers: ClassVar[ObserverLoops]
    sizes_of: ClassVar[Any] = None
    weigh_merges: ClassVar[Any]
    pairs: ClassVar[PairFunctions | None] = None
    fill_weights: ClassVar[Any] = None
    all_users = merges_by_performance = scores_performance = True
    apart = frozenset({"with_terms", "private"})
    treat: ClassVar[Callable[..., TreatedLoops]]

    def __init__(self, work: Any) -> None:
        super().__init__(work)
        judged, options, pairs = work.candidates, work.model.options, self.pairs
        if judged is not None:  # else there is nothing to weigh
            self.merges_by_performance = pairs is None and work.arena.rows.dtype == np.float32
        self._judged = None if judged is None else ValidationLists(judged.offsets, judged.values)
        self._lists = self._judged if self.merges_by_performance else None
        self._bundled: tuple[Any, ...] = (None,) * 4
        shape, n_room = self.sizes_of(options) if self.sizes_of else ((), 0)
        summed, settings = bool(getattr(options, "summed", False)), work.node_settings
        self._inputs = FormulaInputs(
            n_room, tuple(map(as_type, shape)), summed, settings.strengths, np.uint64(work.seed),
            NO_CONTEXT if pairs is None else work.feed.previous,
            NO_CONSTANTS if pairs is None else work.model.constants[pairs.constants],
            () if pairs is None else pairs.numbers(options), (0,) * (0 if pairs is None else pairs.n_weights),
        )  # fmt: skip
        self.room_size = room_size(len(self.dims), len(self.item_dims), self.sizes.n_shared, n_room)

    @classmethod
    def missing_part(cls, model: Any) -> str | None:
        """Return the constants of a model that the template does not see, or its feed if samples differ, or None."""
        expected = PointwiseFeed if cls.pairs is None else TransitionFeed
        unknown = sorted(model.constants.keys() - (set() if cls.pairs is None else {cls.pairs.constants}))
        if unknown:
            return f"constants {', '.join(unknown)}"
        return None if model.feed is expected else f"samples from {model.feed.__name__}"

    @classmethod
    def missing_feature(cls, training: Any, storage: str, ways: frozenset[str], layout: Layout) -> str | None:
        """Return the optimizer or DP-SGD if rows are float16, DP-SGD of pairs, or private weights, or None."""
        if storage != "float32" and (training.optimizer != "sgd" or "private" in ways):
            return f"{storage} (executor.storage) without plain 'sgd'"
        if cls.pairs is not None and "private" in ways:
            return "dp-sgd"
        private = layout.blocks_of_role(BlockRole.PRIVATE)
        return f"the private block {private[0].name!r}" if private else None

    def merge_and_train(self, program: Any, tasks: I64, update_numbers: I32) -> None:
        """Run `tasks` of one wave: all merges, including those by performance, and plain local updates."""
        run, arguments = self._loop(program, update_numbers)
        run(tasks, *arguments)

    def bind(self, program: Any, update_numbers: I32) -> BoundKernel | None:
        """Return the loop over tasks, and its arguments for a plan; None if merges are weighed before."""
        return self._loop(program, update_numbers) if self.merges_by_performance else None

    def _loop(self, program: Any, update_numbers: I32) -> BoundKernel:
        known, rows = self._bundled, self.work.arena.rows
        if known[0] is not program or known[1] is not update_numbers or known[2] is not rows:
            columns = TaskColumns.of(program, update_numbers)
            arguments = columns, *self.training_inputs(), self._lists, self._inputs
            # a new plan; several threads may see it
            self._bundled = known = (program, update_numbers, rows, (self.loops.run_tasks, arguments))
        return known[3]

    def score_performance(self, program: Any, tasks: I64) -> None:
        """Compute the weights of merges by performance."""
        if self._judged is not None:
            unknown = self._weights(np.zeros(1, np.int32), np.full(1, -1, np.int32), self._inputs.constants)
            rows, columns = flat_view(self.work.arena.rows), TaskColumns.of(program)
            self.weigh_merges(tasks, columns, rows, self._judged, unknown, self.sizes, self._inputs)

    def train_in_way(self, way: str, program: Any, tasks: I64) -> None:
        """Run local updates with terms, or with clipped samples and noise."""
        columns, inputs, settings = TaskColumns.of(program), self.training_inputs(), self.work.node_settings
        loops = self.treat(tuple(settings.terms))
        if way == "private":
            privacy = PrivacySettings.of(settings)
            loops.run_private_tasks(tasks, columns, *inputs, privacy, self._inputs)
        else:
            loops.run_term_tasks(tasks, columns, *inputs, None, self._inputs)

    def predict_scores(self, query: ScoreQuery) -> F32:
        """Return predicted scores."""
        out, rows, items = (
            np.empty(len(query.items), np.float32),
            np.ascontiguousarray(query.rows),
            query.items,
        )
        sizes, contexts, known = (
            Sizes.of(query.layout)._replace(width=rows.shape[1]),
            NO_CONTEXT,
            NO_CONSTANTS,
        )
        if self.pairs is not None:
            (column,), known = self.work.feed.context_columns, (query.constants or {})[self.pairs.constants]
            contexts = query.contexts.get(column, np.full(len(items), -1, np.int32))
        queries = Queries(items, contexts, self._weights(items, contexts, known))
        self.loops.score_items(
            flat_view(rows), query.row, query.user, query.offsets, queries, sizes, self._inputs, out
        )
        return out

    def _weights(self, items: I32, contexts: I32, constants: F32) -> F32:
        if self.pairs is None:
            return np.zeros((0, 0), np.float32)
        weights = np.empty((len(items), self.pairs.n_weights), np.float32)
        self.fill_weights(items, contexts, constants, self._inputs.numbers, weights)
        return weights

    def query_weights(self, items: I32, contexts: I32) -> F32:
        """Return the weights of queries, shape (n_queries, n_weights)."""
        return self._weights(items, contexts, self._inputs.constants)

    def fit_recipe(self, feed: Any) -> FormulaInputs:
        """Return the inputs of the formula, with the contexts of the adversaries' positives."""
        return self._inputs if self.pairs is None else self._inputs._replace(contexts=feed.previous)

    def rank(self, victims: VictimModels, queries: AdversaryQueries, latest: F32) -> None:
        """Rank victims, whether or not they withhold their user row."""
        victims = victims._replace(rows=flat_view(victims.rows))
        self.observers.rank_victims(victims, queries, latest, self.sizes, self._inputs)

    def entropies(self, victims: VictimModels, a: int, items: I32) -> F32:
        """Return entropies of items."""
        out = np.empty((len(victims.row), len(items)), np.float32)
        victims = victims._replace(rows=flat_view(victims.rows))
        self.observers.fill_entropies(victims, a, items, self.sizes, self._inputs, out)
        return out


@functools.cache
def template_kernels(
    score: Any,
    add_gradient: Any,
    sizes: Callable[[Any], tuple[Sequence[int], int]] | None = None,
    *,
    affine: bool = False,
    pairs: PairFunctions | None = None,
) -> type[TemplateKernels]:
    """Return the kernels of a model, for its method ``kernels()``.

    The two functions are plain Python of the module; numba compiles them. `p` is a bundle of arrays of float32:
    ``p.user`` and ``p.item``, the rows of a user and of an item, and ``p.shared``, all shared weights. Blocks of a role
    lie one after the other, in the order of ``blocks()``. `room` is working memory with arbitrary contents, and
    `shape`, int64, has the sizes that the arrays do not show, such as widths of layers. They make no arrays;
    `add_gradient` may call `score`.

    The model's ``loss`` is the binary cross-entropy of its logits: their mean, or, if ``options.summed``, their sum.
    :func:`gossiprec.testing.check_model` compares all loops with torch.

    Parameters
    ----------
    score : function
        ``score(p, room, shape)`` returns the logit of an item.
    add_gradient : function
        ``add_gradient(p, error, slopes, room, shape)`` adds the derivatives of the logit, times `error`, to
        ``slopes.user``, ``slopes.item`` and ``slopes.shared``.
    sizes : function, optional
        From the model's options to `shape` and the number of values of `room`; by default both are empty.
    affine : bool
        Whether the logit is an affine function of ``p.item``, as in matrix factorisation: a step then calls
        `add_gradient` twice, not once per item.
    pairs : PairFunctions, optional
        For models of moves (:class:`gossiprec.models.feeds.TransitionFeed`); the loss is ``-log sigmoid`` of the lead
        of a positive over a negative: `p` and `slopes` then also have ``context``, the row of the item before, and `p`
        has ``weights``, the query's numbers.
    """
    kind: Kind = "moves" if pairs is not None else "affine" if affine else "items"
    loops = specialise_training(score, add_gradient, kind, pairs)
    observers = specialise_observers(score, add_gradient, kind, pairs)
    own = {
        "loops": loops,
        "observers": observers,
        "treat": staticmethod(functools.partial(specialise_treated, score, add_gradient, kind, pairs)),
        "weigh_merges": staticmethod(specialise_performance(score, add_gradient, kind, pairs)),
        "pairs": pairs,
        "ranks_open": pairs is not None,
        "score_kept": observers.score_kept,
        "fit_user": observers.fit_user,
        "sizes_of": None if sizes is None else staticmethod(sizes),
    }
    if pairs is not None:
        own["fill_weights"] = staticmethod(
            specialise(fill_query_weights, set_weights=borrow(pairs.set_weights))
        )
    return type("TemplateKernels", (TemplateKernels,), own)
