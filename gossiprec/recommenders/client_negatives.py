"""Negatives of a client: some of its fixed random items, and semi-hard ones that it drops where they are its own.

References
----------
The FedCL paper (specification, section 6).
"""

from __future__ import annotations

import numpy as np

from gossiprec.arrays import I32, Bools
from gossiprec.recommenders.pseudo_items import outside
from gossiprec.rng import generator

NONE = -1
"""In the place of a negative that there is not."""


def local_items(seed: int, node: int, positives: I32, *, n_items: int, number: int) -> I32:
    """Return the random items that a client keeps for the run, none of them its own; fewer if there are not so many.

    Parameters
    ----------
    seed, node : int
        All that the draw depends on, besides the client's items.
    positives : ndarray of int32, shape (n_positives,)
        Ascending.
    n_items, number : int
    """
    others = n_items - len(positives)
    ranks = generator(seed, "local-items", node).choice(others, min(number, others), replace=False)
    return outside(positives, ranks).astype(np.int32)


def some_of(items: I32, number: int, draw: np.random.Generator) -> I32:
    """Return different ones of some items, uniform; :data:`NONE` where there are not so many; shape (number,)."""
    there = min(number, len(items))
    found = items[draw.choice(len(items), there, replace=False)]
    return found if there == number else np.append(found, np.full(number - there, NONE, np.int32))


def some_for_each(items: I32, shape: tuple[int, ...], number: int, draw: np.random.Generator) -> I32:
    """Return different ones of some items for each place, uniform; shape (*shape, number).

    The draws of the places are independent; :data:`NONE` where there are not so many items.
    """
    there = min(number, len(items))
    order = draw.random((*shape, len(items)), np.float32).argsort(axis=-1)[..., :there]
    found = np.full((*shape, number), NONE, np.int32)
    found[..., :there] = items[order]
    return found


def without(negatives: I32, known: I32) -> I32:
    """Return negatives with :data:`NONE` for those that are among some items, which are ascending."""
    return np.where(among(negatives, known), np.int32(NONE), negatives)


def among(items: I32, known: I32) -> Bools:
    """Say which items are among others, which are ascending."""
    if not len(known):
        return np.zeros(items.shape, np.bool_)
    return np.asarray(known[np.minimum(np.searchsorted(known, items), len(known) - 1)] == items)
