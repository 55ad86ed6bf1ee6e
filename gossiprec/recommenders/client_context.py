"""What a recommender finds at a client, and adds there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gossiprec.arrays import F32, F64, I32, I64
from gossiprec.models.base import Layout
from gossiprec.old_names import forward
from gossiprec.rng import generator
from gossiprec.servers.base import Extras


class PersonalModels(NamedTuple):
    """What clients recommend by, where that is not the version that they were sent.

    Attributes
    ----------
    versions : ndarray of float32, shape (n, n_columns)
        For a client that has not trained the present version.
    of : ndarray of int64, shape (n_clients,)
        Which of them each takes.
    local : float
        How much of its own change a client adds that has.
    """

    versions: F32
    of: I64
    local: float


@dataclass(frozen=True, eq=False)
class ClientContext:
    """What a client has at hand for one local update; none of it is to be changed.

    Attributes
    ----------
    seed, node, update : int
        Of the run, whose it is, and its number among the node's.
    layout : Layout
        Of whole models.
    positives : ndarray of int32, shape (n_positives,)
        Its training items, ascending.
    history : ndarray of int32, shape (n,)
        Those that its user's state follows from, in the order of time (:meth:`gossiprec.feeds.base.Feed.history`).
    own : ndarray of float32, shape (user_width,)
        The row of its user, as it is now.
    version : ndarray of float32, shape (n_columns,)
        ``[items | shared]``, as it was sent.
    extras : mapping of str to ndarray
        What was sent beside it; of those for single clients it may look at its row.
    told : ndarray of float32, shape (told_width,), or None
        What it has told of its user; None: nothing yet.
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
        """Return draws that depend on seed, purpose, node and update alone."""
        return generator(self.seed, purpose, self.node, self.update)


class KernelStep(NamedTuple):
    """A step of a client's training, for compiled terms: as kernels of gradients have it, and what else there is.

    Attributes
    ----------
    core, items, slopes, item_slopes, samples, positives, shape, room
        Of :attr:`gossiprec.models.base.analytic_gradients.AnalyticGradient.fill`.
    places : ndarray of int32, shape (n_samples,)
        The column of each sample's item; a positive, its negatives, the next positive.
    numbers : ndarray of float64
    extra, of_step, of_samples : ndarray
        Those of :class:`AnalyticTerm`; a zero where it names none.
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
    """What a recommender adds to a model's gradient, written out and compiled.

    Attributes
    ----------
    add : kernel
        ``add(client)``, compiled by :mod:`gossiprec.native.jit`, adds to the slopes of a :class:`KernelStep`.
    numbers : ndarray of float64
        What the kernel is told of the options.
    extra : str or None
        Name of what the coordinator sends beside the version, float32, shape (n, d).
    of_step, of_samples : str or None
        Names of what :meth:`Recommender.draws` gives: the first as it is, of the second the rows of positives. It is
        then asked with samples of which the number alone is known.
    """

    add: Any
    numbers: F64
    extra: str | None = None
    of_step: str | None = None
    of_samples: str | None = None


forward(__name__)
