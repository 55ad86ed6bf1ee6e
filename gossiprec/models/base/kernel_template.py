"""Kernels for a new model from two functions: the score of an item, and its gradient.

The template is for models that learn from labelled items (:class:`gossiprec.models.feeds.PointwiseFeed`) by the
cross-entropy of their logits, and score item by item. Merges, the sampling of negatives, SGD and Adam, drift
penalties, scores and observers are the same for all of them (:mod:`gossiprec.models.base.template_kernels`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from gossiprec.base.arrays import F32, I32, I64
from gossiprec.models.base.dp_sgd_kernels import PrivacySettings
from gossiprec.models.base.kernel_interface import (
    AdversaryQueries,
    ModelKernels,
    ScoreQuery,
    Sizes,
    TaskColumns,
    VictimModels,
)
from gossiprec.models.base.parameter_blocks import BlockRole, Layout
from gossiprec.models.base.template_kernels import FormulaInputs, ModelLoops, specialise_model
from gossiprec.models.feeds import PointwiseFeed
from gossiprec.native.jit import as_type


class TemplateKernels(ModelKernels):
    """Kernels of a model made from two functions; :func:`template_kernels` makes a subclass of it for each model."""

    loops: ClassVar[ModelLoops]
    sizes_of: ClassVar[Any] = None
    all_users = True
    apart = frozenset({"private"})

    def __init__(self, work: Any) -> None:
        super().__init__(work)
        self._summed = bool(getattr(work.model.options, "summed", False))

    @classmethod
    def missing_part(cls, model: Any) -> str | None:
        """Return the constants of a model, or its feed if samples are not labelled items, or None."""
        if model.constants:
            return f"constants {', '.join(model.constants)}"
        return None if model.feed is PointwiseFeed else f"samples from {model.feed.__name__}"

    @classmethod
    def missing_feature(cls, training: Any, storage: str, ways: frozenset[str], layout: Layout) -> str | None:
        """Return the storage if rows are not float32, or private weights, or None."""
        if storage != "float32":
            return f"{storage} (executor.storage)"
        private = layout.blocks_of_role(BlockRole.PRIVATE)
        return f"the private block {private[0].name!r}" if private else None

    def merge_and_train(self, program: Any, tasks: I64, update_numbers: I32) -> None:
        """Run `tasks` of one wave."""
        inputs = self._inputs(drifts=bool(self.work.node_settings.drift_penalty.any()))
        self.loops.run_tasks(
            tasks, TaskColumns.of(program, update_numbers), *self.training_inputs(), None, inputs
        )

    def train_in_way(self, way: str, program: Any, tasks: I64) -> None:
        """Run local updates with clipped samples and noise."""
        privacy = PrivacySettings.of(self.work.node_settings)
        columns = TaskColumns.of(program)
        self.loops.run_private_tasks(tasks, columns, *self.training_inputs(), privacy, self._inputs())

    def predict_scores(self, query: ScoreQuery) -> F32:
        """Return logits."""
        out = np.empty(len(query.items), np.float32)
        rows, sizes = np.ascontiguousarray(query.rows), Sizes.of(query.layout)
        self.loops.score_items(
            rows, query.row, query.user, query.offsets, query.items, sizes, self._inputs(), out
        )
        return out

    def query_weights(self, items: I32, contexts: I32) -> F32:
        """Return the sizes of the model, for every query."""
        inputs, sizes = self._inputs(), self.sizes
        numbers = (len(sizes.item_dims), sizes.n_shared, len(inputs.room), *self._sizes_of_model()[0])
        return np.tile(np.array(numbers, np.float32), (len(items), 1))

    def fit_recipe(self, feed: Any) -> FormulaInputs:
        """Return the inputs of the formula."""
        return self._inputs()

    def rank(self, victims: VictimModels, asked: AdversaryQueries, latest: F32) -> None:
        """Rank victims that withhold their user row."""
        self.loops.rank_victims(victims, asked, latest, self.sizes, self._inputs())

    def entropies(self, victims: VictimModels, a: int, items: I32) -> F32:
        """Return entropies of items."""
        out = np.empty((len(victims.row), len(items)), np.float32)
        self.loops.fill_entropies(victims, a, items, self.sizes, self._inputs(), out)
        return out

    def _sizes_of_model(self) -> tuple[Sequence[int], int]:
        return self.sizes_of(self.work.model.options) if self.sizes_of else ((), 0)

    def _inputs(self, *, drifts: bool = False) -> FormulaInputs:
        shape, room = self._sizes_of_model()
        return FormulaInputs(
            np.empty(room, np.float32),
            tuple(map(as_type, shape)),
            self._summed,
            self.work.node_settings.drift_penalty,
            np.empty(len(self.item_dims) * self.sizes.n_items if drifts else 0, np.float32),
        )


@functools.cache
def template_kernels(
    score: Any, add_gradient: Any, sizes: Callable[[Any], tuple[Sequence[int], int]] | None = None
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
    """
    own = {
        "loops": (loops := specialise_model(score, add_gradient)),
        "score_kept": loops.score_kept,
        "fit_user": loops.fit_user,
        "sizes_of": None if sizes is None else staticmethod(sizes),
    }
    return type("TemplateKernels", (TemplateKernels,), own)
