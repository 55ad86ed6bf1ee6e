"""Gradients of models written out and compiled: what a client's full batch asks of a formula, without autograd."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gossiprec.arrays import F64, I64


@dataclass(frozen=True, eq=False)
class AnalyticGradient:
    """The gradient of one user's cross-entropy over all samples, for models that score item by item.

    All samples of an item have one score, so it is worked out once an item, with the samples as weights.

    Attributes
    ----------
    fill : kernel
        ``fill(core, items, slopes, item_slopes, samples, positives, shape, room)``, compiled by
        :mod:`gossiprec.native.jit`, overwrites `slopes` and `item_slopes` with the gradient:

        - core, slopes: float32, shape (user_width + n_shared,): the user's row, then shared weights, in the order of
          the model's blocks.
        - items, item_slopes: float32, shape (item_width, n_items), C-contiguous: an item is a column.
        - samples, positives: float32, shape (n_items,): each item's share of all samples, and that of its positive
          ones, or how many these are if the loss is summed; the loss is
          ``sum(samples * softplus(z) - positives * z)`` over the items' logits z.
        - room: float32, whatever is in it.
    shape : ndarray of int64
        What the kernel is told of the model's sizes.
    room : int
        How many numbers it wants to write between its steps.
    summed : bool
        Whether the loss is the sum over the samples, not their mean.
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
        - items, item_slopes: float32, shape (n_items, item_width), C-contiguous: those that are in any pair, each once.
        - liked, others: int32, shape (n_pairs,), at least one: the rows of each pair's item and of its negative.
    numbers : ndarray of float64
        What the kernel is told of the model.
    """

    fill: Any
    numbers: F64


@dataclass(frozen=True, eq=False)
class SequenceGradient:
    """The gradient of one sequence's mean softmax cross-entropy, of the positive at each place against others.

    A place's state is compared with the rows of items by their dot products. It counts the positive, all `others`, and,
    if the options say so, all that is wanted at other places; each item once.

    Attributes
    ----------
    fill : kernel
        ``fill(core, items, slopes, item_slopes, previous, wanted, others, keep, shape)``, compiled by
        :mod:`gossiprec.native.jit`, overwrites `slopes` and `item_slopes` with the gradient:

        - core, slopes: float32, shape (user_width + n_shared,): the user's row, then shared weights, in the order of
          the model's blocks.
        - items, item_slopes: float32, shape (n_items, item_width), C-contiguous: those that are touched, each once.
        - previous, wanted: int32, shape (length,): the rows of the item before each place, and of that which came
          there; -1: none, nothing to go on by, or nothing to be learnt.
        - others: int32, shape (1, n_others): the rows of what all places are to be told from; or (length, n_others):
          what each place is to be told from; -1: none.
        - keep: float32, shape (length, item_width): what the item before each place is multiplied by; or (0, ...).
          What the model draws for a step (:meth:`SequenceModel.draws`).
    read : kernel
        ``read(core, items, history, shape, state)``, likewise, sets `state`, float32, shape (item_width,), to that
        after the items of a history, int32, shape (length,), rows of `items`; -1: none.
    shape : ndarray of int64
        What the kernel is told of the model's sizes and options.
    """

    fill: Any
    read: Any
    shape: I64


def has_own_gradient(model: Any) -> bool:
    """Whether a model's gradient is that of its formula, and not inherited by a subclass with another formula."""
    return defined_by_same_class(model, "analytic_gradient", "score", "loss")


def has_own_pair_gradient(model: Any) -> bool:
    """Whether the same holds of its gradient of pairs, which may be taken of what it makes of its rows."""
    encodes = ("encode_own",) if hasattr(model, "encode_own") else ()
    return defined_by_same_class(model, "pair_gradient", "score", "loss", *encodes)


def has_own_sequence_gradient(model: Any) -> bool:
    """Whether the same holds of its gradient of sequences, and of what is drawn for it."""
    return defined_by_same_class(model, "sequence_gradient", "states", "loss", "draws")


def has_own_states(model: Any) -> bool:
    """Whether the same holds of what it makes of histories."""
    return defined_by_same_class(model, "sequence_gradient", "state_after")


def defined_by_same_class(thing: Any, written_out: str, *formulas: str) -> bool:
    """Whether no subclass of the one that writes something out has changed the formulas that it is of."""
    owner = {
        name: next(k for k, kind in enumerate(type(thing).__mro__) if name in vars(kind))
        for name in (written_out, *formulas)
    }
    return all(owner[written_out] <= owner[name] for name in formulas)
