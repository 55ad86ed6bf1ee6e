"""A client's data for a recommender, its personal models, and the terms that a recommender adds to its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gossiprec.base.arrays import F32, F64, I32, I64
from gossiprec.base.rng import generator
from gossiprec.models.base import Layout
from gossiprec.old_names import forward
from gossiprec.rules.servers.base import Extras


class PersonalModels(NamedTuple):
    """The models that clients recommend by, if they differ from the version that they were sent.

    Attributes
    ----------
    versions : ndarray of float32, shape (n, n_columns)
        The present models, for clients that have not trained.
    of : ndarray of int64, shape (n_clients,)
        Index of each client's version.
    local : float
        Share of its own change that a client adds after it has trained.
    """

    versions: F32
    of: I64
    local: float


@dataclass(frozen=True, eq=False)
class ClientContext:
    """A client's data for one local update, which must not be changed.

    Attributes
    ----------
    The seed of the run, the client's node, and the number of the update among the node's.
    layout : Layout
        Of whole models.
    positives : ndarray of int32, shape (n_positives,)
        Its training items, ascending.
    history : ndarray of int32, shape (n,)
        The items that its user's state is computed from, in the order of time
        (:meth:`gossiprec.models.feeds.base.Feed.history`).
    own : ndarray of float32, shape (user_width,)
        The present row of its user.
    version : ndarray of float32, shape (n_columns,)
        ``[items | shared]``, as sent.
    extras : mapping of str to ndarray
        The extras sent with the version; of extras for single clients it may read its own row.
    told : ndarray of float32, shape (told_width,), or None
        The vector that it has uploaded about its user, or None before the first upload.
    """

    seed: int
    node: int
    update: int
    layout: Layout
    positives: I32
    history: I32
    own: F32
    version: F32
    extras: Extras
    told: F32 | None = None

    def draw(self, purpose: str) -> np.random.Generator:
        """Return draws that depend only on seed, purpose, node and update."""
        return generator(self.seed, purpose, self.node, self.update)


class KernelStep(NamedTuple):
    """A step of a client's training, for compiled terms: the arrays of gradient kernels and further ones.

    Attributes
    ----------
    core, items, slopes, item_slopes, samples, positives, shape, room
        Of :attr:`gossiprec.models.base.analytic_gradients.AnalyticGradient.fill`.
    places : ndarray of int32, shape (n_samples,)
        The column of each sample's item; a positive, its negatives, the next positive.
    numbers : ndarray of float64
    extra, of_step, of_samples : ndarray
        The arrays named in :class:`AnalyticTerm`; a zero for each that it does not name.
    """

    core: Any
    items: Any
    slopes: Any
    item_slopes: Any
    samples: Any
    positives: Any
    places: Any
    numbers: Any
    extra: Any
    of_step: Any
    of_samples: Any
    shape: Any
    room: Any


@dataclass(frozen=True, eq=False)
class AnalyticTerm:
    """The compiled analytic gradient that a recommender adds to a model's.

    Attributes
    ----------
    add : kernel
        ``add(client)``, compiled by :mod:`gossiprec.native.jit`, adds to the slopes of a :class:`KernelStep`.
    numbers : ndarray of float64
        The kernel's numbers from the options.
    extra : str or None
        Name of the array that the coordinator sends with the version, float32, shape (n, d).
    of_step, of_samples : str or None
        Names of arrays from :meth:`Recommender.draws`: the first is used whole, of the second the rows of positives.
        The samples passed to it are then placeholders, of which only the number is known.
    """

    add: Any
    numbers: F64
    extra: str | None = None
    of_step: str | None = None
    of_samples: str | None = None


forward(__name__)
