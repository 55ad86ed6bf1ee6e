"""The deltas of an inbox: norms, clipping and sums, and rules that reduce them item by item.

A rule for whole models can be applied to each item over the clients that touched it (:class:`TouchedRule`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from pydantic import Field, model_validator

from gossiprec.base.arrays import F32, F64, I32, I64
from gossiprec.base.options import Options
from gossiprec.base.ragged import Ragged
from gossiprec.native import jit_cached
from gossiprec.rules import aggregators
from gossiprec.rules.aggregators import Aggregator, Inbox, ModelDelta


class ScopeOptions(Options):
    """The scope of a rule: whole models, or touched items."""

    over: Literal["all", "touched"] = "all"
    """all: reduce whole models; touched: reduce the deltas of each item over the clients that touched it, and of the
    shared weights over all clients (requires clients that answer with updates)"""


class TouchedRuleOptions(ScopeOptions):
    """The scope of a rule that takes a kind of mean."""

    rescale: Literal["none", "n"] = "none"
    """n: multiply the reduced delta by the number of clients that contributed to it, so that it represents their sum
    (over: touched)"""

    @model_validator(mode="after")
    def _of_changes(self) -> TouchedRuleOptions:
        if self.rescale == "n" and self.over == "all":
            raise ValueError("rescale n multiplies deltas; set over to touched, or remove rescale")
        return self


class TouchedRule(Aggregator):
    """A rule for whole models that can also be applied to deltas, item by item."""

    Options = TouchedRuleOptions
    options: TouchedRuleOptions
    checkpointed = ("n_small_items", "n_items")

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._n_small_items = self._n_items = 0

    @property
    def small_items(self) -> tuple[int, int]:
        """Number of items so far with fewer than :attr:`enough` deltas in an inbox, and of all items with deltas."""
        return self._n_small_items, self._n_items

    def reduce(self, own: F32, inbox: Inbox) -> F32:
        """Return the reduced models, or the own model with the reduced deltas added."""
        if not self.uses_deltas:
            return self.reduce_models(own, inbox)
        out, uploads = own.copy(), StackedDeltas.of(inbox)
        width = uploads.rows.shape[1]
        items = out[: len(own) - uploads.shared.shape[1]].reshape(-1, max(width, 1))
        for chosen, values in uploads.by_item(len(items)):
            items[chosen] += self._scaled(values)
            self._n_items += len(chosen)
            self._n_small_items += len(chosen) if len(values) < self.enough else 0
        if len(uploads.shared):
            together = np.ascontiguousarray(uploads.shared.T)[None]
            out[items.size :] += self._scaled(together.transpose(2, 0, 1))[0]
        return out

    def _scaled(self, values: F32) -> F32:
        found = self.combine(values)
        return found if self.options.rescale == "none" else found * np.float32(len(values))

    @abstractmethod
    def reduce_models(self, own: F32, inbox: Inbox) -> F32:
        """Return the reduced model for an inbox of whole models, as :meth:`reduce` does."""

    @abstractmethod
    def combine(self, values: F32) -> F32:
        """Return one delta for each item.

        Parameters
        ----------
        values : ndarray of float32, shape (n_uploads, n_items, width)
            At least one upload, finite, in order of arrival, for items that the same number of clients touched, or
            for all shared weights as one item.

        Returns
        -------
        ndarray of float32, shape (n_items, width)
            Each item must depend only on its own deltas: the grouping of items is arbitrary.
        """


@dataclass(frozen=True)
class StackedDeltas:
    """The deltas of an inbox, concatenated in order of arrival; non-finite ones are left out.

    Attributes
    ----------
    items : Ragged of int32
        The items that each client touched.
    rows : ndarray of float32, shape (n_rows, width)
        The deltas of these items.
    shared : ndarray of float32, shape (n_changes, n_shared)
    """

    items: Ragged
    rows: F32
    shared: F32

    @classmethod
    def of(cls, inbox: Inbox) -> StackedDeltas:
        """Return the deltas of an inbox that is not empty."""
        assert inbox.deltas is not None
        width, n_shared = inbox.deltas[0].rows.shape[1], len(inbox.deltas[0].shared)
        nothing = ModelDelta(np.zeros(0, np.int32), np.zeros((0, width), np.float32), np.zeros(0, np.float32))
        changes = [change for change in inbox.deltas if change.is_finite]
        together = [nothing, *changes]
        items = Ragged.from_parts([change.items for change in together])
        rows = np.concatenate([change.rows for change in together], dtype=np.float32)
        shared = np.array([change.shared for change in changes], np.float32)
        return cls(items, rows, shared.reshape(len(changes), n_shared))

    def by_item(self, n_items: int) -> Iterator[tuple[I64, F32]]:
        """Yield the touched items in blocks, with their uploads, shape (n_uploads, n_items, width).

        An item's uploads of one number are adjacent in memory, so that they are sorted and summed fast, and sums are
        byte-identical for any grouping of items.
        """
        touched = self.items.values
        uploads = Ragged.from_pairs(touched, np.arange(len(touched)), n_items)
        for n in np.unique(uploads.sizes[uploads.sizes > 0]).tolist():
            items = np.flatnonzero(uploads.sizes == n)
            at_once = max(1, aggregators.BLOCK // max(n * self.rows.shape[1], 1))
            for low in range(0, len(items), at_once):
                some = items[low : low + at_once]
                which = uploads.values[uploads.offsets[some, None] + np.arange(n)]
                yield some, np.ascontiguousarray(self.rows[which].transpose(0, 2, 1)).transpose(2, 0, 1)


def mean_over_uploads(values: F32) -> F32:
    """Return the mean over uploads, summed in the same way for any number of items."""
    return np.ascontiguousarray(np.moveaxis(values, 0, -1)).mean(axis=-1)


def drop_nonfinite(inbox: Inbox) -> Inbox:
    """Return an inbox without the deltas that have a non-finite value."""
    assert inbox.deltas is not None
    changes = [change for change in inbox.deltas if change.is_finite]
    kept = inbox.is_finite
    return replace(inbox, row_index=inbox.row_index[kept], weights=inbox.weights[kept], deltas=changes)


def delta_norms(changes: Sequence[ModelDelta]) -> tuple[F64, F64]:
    """Return the Euclidean norms of all rows, and of all clients' shared weights."""
    rows = [row_norms(change.rows) for change in changes]
    return np.concatenate(rows), np.concatenate([row_norms(change.shared[None]) for change in changes])


def row_norms(rows: F32) -> F64:
    """Return the Euclidean norm of each row, in double precision."""
    return np.linalg.norm(rows.astype(np.float64), axis=1)


def clip_inbox(inbox: Inbox, bound: float, shared_bound: float) -> Inbox:
    """Return an inbox in which rows and shared weights are scaled down to bounds."""
    assert inbox.deltas is not None
    changes = [
        ModelDelta(
            change.items, clip_rows(change.rows, bound), clip_rows(change.shared[None], shared_bound)[0]
        )
        for change in inbox.deltas
    ]
    return replace(inbox, deltas=changes)


def clip_rows(rows: F32, bound: float) -> F32:
    """Return rows, scaled down if they are longer than the bound."""
    found = row_norms(rows)
    scale = np.divide(bound, found, out=np.ones_like(found), where=found > bound)
    return (scale[:, None] * rows).astype(np.float32)


Bound: TypeAlias = Annotated[float, Field(gt=0)] | Literal["median"]
"""The largest norm of a row or model, or the median of the norms in an inbox."""

How: TypeAlias = Literal["touched-mean", "mean", "sum"]
"""The mean over the clients that touched an item, the mean over all (others count as zero), or the sum."""


@runtime_checkable
class SummableDeltas(Protocol):
    """Deltas that are summed without being materialised one by one."""

    def summed(self, weights: F64, /) -> tuple[F64, F64, F64]:
        """Return the weighted sum of each item's rows, the weight of its clients, and the sum of shared weights.

        The shapes are (n_items, item_width), (n_items,) and (n_shared,).
        """


def add_deltas(own: F32, inbox: Inbox, how: How) -> F32:
    """Return a model with the deltas of an inbox added; only means use weights."""
    assert inbox.deltas is not None
    weights = np.ones(len(inbox)) if how == "sum" else inbox.weights
    total, mass, shared = (
        inbox.deltas.summed(weights)
        if isinstance(inbox.deltas, SummableDeltas)
        else _summed(inbox.deltas, weights, len(own))
    )
    if how == "touched-mean":
        total /= np.where(mass > 0, mass, 1.0)[:, None]
    elif how == "mean":
        total /= weights.sum()
    if how != "sum":
        shared /= weights.sum()
    found = np.empty_like(own)
    found[: total.size] = own[: total.size] + total.ravel()  # in double precision, then rounded
    found[total.size :] = own[total.size :] + shared
    return found


def _summed(changes: Sequence[ModelDelta], weights: F64, n_columns: int) -> tuple[F64, F64, F64]:
    """Return the result of :meth:`SummableDeltas.summed` for a list of deltas."""
    width, n_shared = changes[0].rows.shape[1], len(changes[0].shared)
    n_items = (n_columns - n_shared) // max(width, 1)
    total, mass, shared = np.zeros((n_items, width)), np.zeros(n_items), np.zeros(n_shared)
    add_rows = jit_cached(_add_rows)
    for change, weight in zip(changes, weights, strict=True):
        add_rows(change.items, change.rows, weight, total, mass)
        shared += weight * change.shared
    return total, mass, shared


def _add_rows(items: I32, rows: F32, weight: float, total: F64, mass: F64) -> None:
    """Add weighted rows of some items to ``total``, and the weight to their ``mass``."""
    for place in range(len(items)):
        item = items[place]
        mass[item] += weight
        for column in range(rows.shape[1]):
            total[item, column] += weight * rows[place, column]
