"""Analytic gradients of models, compiled: the gradient of a client's full batch, without autograd."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from gossiprec.base.arrays import F32, F64, I32, I64


@dataclass(frozen=True, eq=False)
class AnalyticGradient:
    """The gradient of one user's cross-entropy over all samples, for models that score item by item.

    All samples of an item have the same score, so it is computed once per item, with the samples as weights.

    Attributes
    ----------
    fill : kernel
        ``fill(core, items, slopes, item_slopes, samples, positives, shape, room)``, compiled by
        :mod:`gossiprec.native.jit`, overwrites `slopes` and `item_slopes` with the gradient:

        - core, slopes: float32, shape (user_width + n_shared,): the user's row, then shared weights, in the order of
          the model's blocks.
        - items, item_slopes: float32, shape (item_width, n_items), C-contiguous: an item is a column.
        - samples, positives: float32, shape (n_items,): each item's share of all samples, and the share of its
          positive ones, or their numbers if the loss is summed; the loss is
          ``sum(samples * softplus(z) - positives * z)`` over the items' logits z.
        - room: float32 working memory with arbitrary contents.
    shape : ndarray of int64
        The model's sizes, for the kernel.
    room : int
        Number of values of working memory.
    summed : bool
        Whether the loss is the sum over the samples instead of their mean.
    """

    fill: Any
    shape: I64
    room: int = 0
    summed: bool = False


@dataclass(frozen=True, eq=False)
class PairGradient:
    """The gradient of one user's loss over all pairs of an item and one of its negatives.

    Attributes
    ----------
    fill : kernel
        ``fill(core, items, slopes, item_slopes, liked, others, numbers)``, compiled by :mod:`gossiprec.native.jit`,
        overwrites `slopes` and `item_slopes` with the gradient:

        - core, slopes: float32, shape (user_width + n_shared,): the user's row, then shared weights, in the order of
          the model's blocks.
        - items, item_slopes: float32, shape (n_items, item_width), C-contiguous: the items in any pair, each once.
        - liked, others: int32, shape (n_pairs,), at least one: the rows of each pair's item and of its negative.
    numbers : ndarray of float64
        The model's constants, for the kernel.
    """

    fill: Any
    numbers: F64


class SequenceBatch(NamedTuple):
    """The samples of one sequence.

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
class SequenceGradient:
    """The gradient of one sequence's mean softmax cross-entropy, of the positive at each place against others.

    A place's state is compared with the rows of items by their dot products. The candidates are the positive, all
    `others`, and, if the options say so, the positives of other places; each item counts once.

    Attributes
    ----------
    fill : kernel
        ``fill(core, items, slopes, item_slopes, batch, shape)``, compiled by :mod:`gossiprec.native.jit`, overwrites
        `slopes` and `item_slopes` with the gradient:

        - core, slopes: float32, shape (user_width + n_shared,): the user's row, then shared weights, in the order of
          the model's blocks.
        - items, item_slopes: float32, shape (n_items, item_width), C-contiguous: the touched items, each once.
        - batch: :class:`SequenceBatch`.
    read : kernel
        ``read(core, items, history, shape, state)``, compiled in the same way, sets `state`, float32, shape
        (item_width,), to the state after a history, int32, shape (length,), rows of `items`; -1 means none.
    shape : ndarray of int64
        The model's sizes and options, for the kernel.
    """

    fill: Any
    read: Any
    shape: I64


def has_own_gradient(model: Any) -> bool:
    """Return whether a model's gradient belongs to its own formula, not to a base class."""
    return defined_by_same_class(model, "analytic_gradient", "score", "loss", "draws")


def has_own_pair_gradient(model: Any) -> bool:
    """Return whether a model's gradient of pairs belongs to its formula, including its encoding of rows."""
    encodes = ("encode_client",) if hasattr(model, "encode_client") else ()
    return defined_by_same_class(model, "pair_gradient", "score", "loss", "draws", *encodes)


def has_own_sequence_gradient(model: Any) -> bool:
    """Return whether a model's gradient of sequences belongs to its formula and its draws."""
    return defined_by_same_class(model, "sequence_gradient", "states", "loss", "draws")


def has_compiled_states(model: Any) -> bool:
    """Return whether a model's compiled states belong to its formula of states."""
    return defined_by_same_class(model, "sequence_gradient", "state_after")


def defined_by_same_class(thing: Any, written_out: str, *formulas: str) -> bool:
    """Return whether the class that defines an analytic form, or a base of it, also defines its formulas."""
    owner = {
        name: next(k for k, kind in enumerate(type(thing).__mro__) if name in vars(kind))
        for name in (written_out, *formulas)
    }
    return all(owner[written_out] <= owner[name] for name in formulas)
