"""Terms: what the loss of a local update has in addition to the model's, over the items that a step trains.

A term is two functions, as a model's formula is. A policy adds terms to its nodes
(:meth:`gossiprec.compute.local_update.NodeSettings.add_term`), a model to all nodes
(:meth:`gossiprec.models.base.Model.item_terms`). The rest, such as batches, optimizers and DP-SGD, is in the executors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from gossiprec.native.jit import borrow, specialise

if TYPE_CHECKING:
    from torch import Tensor


class ItemTerm(NamedTuple):
    """A term of the loss: the sum, over items, of a function of the item's row.

    Attributes
    ----------
    loss : function
        ``loss(items, start)`` returns the sum in torch. Both have shape (n_items, item_width): the rows now, and as
        the local update began. An executor gives it the items of the batch, each once; under DP-SGD, noise moves
        all items, so it gives all of them.
    add_gradient : function
        ``add_gradient(slopes, item, start, strength)`` adds the derivative for one item, times `strength`, to
        `slopes`; arrays of float32, shape (item_width,). It is plain Python of the module; numba compiles it.
    """

    loss: Callable[[Tensor, Tensor], Tensor]
    add_gradient: Callable[..., None]


def add_gradient(slopes, item, start, strength):
    """Stand in for a term's: add its gradient."""
    raise NotImplementedError


def add_rest(slopes, item, start, strengths, k):
    """Stand in for the terms from number `k`: add their gradients."""
    raise NotImplementedError


@borrow
def add_nothing(slopes, item, start, strengths, k):
    """Add the gradients of no term."""


def add_from(slopes, item, start, strengths, k):
    """Add the gradients of the terms from number `k`."""
    add_gradient(slopes, item, start, strengths[k])
    add_rest(slopes, item, start, strengths, k + 1)


@functools.cache
def specialise_terms(terms: tuple[ItemTerm, ...]) -> Any:
    """Return the compiled function ``add(slopes, item, start, strengths, 0)`` of all terms."""
    found = add_nothing
    for each in reversed(terms):
        found = specialise(add_from, borrow, add_gradient=borrow(each.add_gradient), add_rest=found)
    return found
