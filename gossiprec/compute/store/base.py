"""What owns versions and updates: both are payloads behind integer handles, which the planner deals in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.aggregators.base import Inbox
from gossiprec.arrays import F32, F64, I32, I64, U32, Bools
from gossiprec.compute.plan.planner import Planner
from gossiprec.compute.plan.program import PoolDeliveries, Program
from gossiprec.models.base.parameter_blocks import Layout
from gossiprec.servers.base import ALONE, Extras, ThreadPoolLike

Handles = npt.NDArray[np.integer]


@dataclass(frozen=True)
class ScoringView:
    """Models of some users as an executor scores them, user by user.

    See :class:`gossiprec.models.base.kernel_interface.ScoreQuery`.
    """

    layout: Layout
    rows: F32
    row: I64
    user: I64
    together: bool = False


@dataclass(frozen=True)
class UpdateRows:
    """Updates to be read like rows of whole models, put together when they are asked for.

    Attributes
    ----------
    models : ndarray, or what is read like one
        Base and update together, by handle.
    bases : ndarray, or what is read like one
        The versions that they were made from; of a version that itself.
    uploads : ndarray, or what is read like one
        The vectors that came next to updates; NaN if there is none.
    """

    models: Any
    bases: Any
    uploads: Any

    def __getitem__(self, at: Any) -> Any:
        """Return some columns of some models."""
        return self.models[at]


class Store(ABC):
    """Owns what nodes train, send and receive.

    A *version* is a whole model; an *update* is what a node has made of a version, and no more than it has touched.

    Attributes
    ----------
    layout : Layout
        Of a version.
    n_nodes : int
        The first `n_nodes` handles are the nodes' first models.
    rows : ndarray or UpdateRows
        What handles stand for, as those read it who look at merges.
    threads : Threads
        For what the coordinator computes: these have nothing else to do then.
    """

    layout: Layout
    n_nodes: int
    rows: Any
    threads: ThreadPoolLike = ALONE

    @property
    @abstractmethod
    def is_half(self) -> bool:
        """Whether versions are kept in float16."""

    @abstractmethod
    def load(self, handles: Handles) -> F32:
        """Return whole models, in float32, shape (n, row_size)."""

    @abstractmethod
    def store(self, handles: Handles, values: F32, keys: U32 | None) -> None:
        """Keep whole models, shape (n, row_size), under these handles; float16 rounds by `keys`, one for each."""

    def merged(self, handle: int) -> F32:
        """Return the columns of a model that receivers merge, in float32; not to be changed."""
        part: F32 = self.load(np.array([handle]))[0, self.layout.merged]
        return part

    def store_merged(self, target: int, source: int, values: F32, keys: U32 | None) -> None:
        """Keep, under the handle `target`, the model under `source` with other columns that receivers merge."""
        row = self.load(np.array([source]))
        row[0, self.layout.merged] = values
        self.store(np.array([target]), row, keys)

    @abstractmethod
    def inbox(self, handles: Handles, weights: F64, own_weight: float) -> Inbox:
        """Return what was received, as an aggregation rule reads it."""

    def inbox_copy(self, handles: Handles, weights: F64, own_weight: float) -> Inbox:
        """Return a copy of :meth:`inbox`, of the received models only, for a rule from outside gossiprec."""
        inbox = self.inbox(handles, weights, own_weight)
        rows = np.array(inbox.rows[inbox.places, :], order="C")
        return Inbox(rows, np.arange(len(rows)), weights.copy(), own_weight)

    @abstractmethod
    def shown(
        self, sightings: PoolDeliveries, first: int, last: int
    ) -> Iterator[tuple[F32, PoolDeliveries, int, int]]:
        """Yield sightings first .. last - 1 with the rows that they are about, base and update together.

        With rows of models come sightings, whose `row` says where in them, and which of these are meant.
        """

    def delivered(self, program: Program, tasks: I64) -> Any:
        """Return what `rows` is, to read in it what some tasks are about to merge, and their own versions."""
        return self.rows

    @abstractmethod
    def are_finite(self, handles: I64, nodes: I32) -> Bools:
        """Return whether each model under a handle, and what its node keeps to itself, is finite, shape (n,)."""

    @abstractmethod
    def models(self, current: I64, nodes: I64) -> F32:
        """Return copies of the present models of some nodes; `current` are the present handles of all nodes."""

    @abstractmethod
    def readable(self, current: I64, users: I64) -> ScoringView:
        """Return the present models of some users for scoring."""

    def attach(self, handle: int, extras: Extras) -> None:  # noqa: B027 (most have nobody to hand them to)
        """Keep what a coordinator sends beside the version under a handle."""

    def told_users(self, handles: Handles) -> F32 | None:
        """Return what was told of users' rows beside updates (:attr:`gossiprec.servers.base.ClientAnswers.users`)."""
        return None

    def forget(self, planner: Planner) -> None:  # noqa: B027 (where handles are rows there is nothing to do)
        """Let go of what nobody needs once all is carried out that was planned."""

    def discard(self, rows: I64) -> None:  # noqa: B027
        """Give back the memory of handles (ascending) that are written before they are read again."""

    def discard_moments(self, nodes: I64) -> None:  # noqa: B027 (where they are few they stay)
        """Give back the memory of the optimizer state of nodes (ascending) that do not train here."""

    def grow(self, capacity: int) -> None:  # noqa: B027
        """Make room for `capacity` handles."""

    def note(self, program: Program) -> None:  # noqa: B027 (of interest where rows are many)
        """Note what a program is about to change, for checkpoints."""

    @abstractmethod
    def state(self, needed: I64, now: float) -> dict[str, Any]:
        """Return what is under the handles `needed` (ascending), and the optimizer state, for a checkpoint at `now`."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` gave."""
