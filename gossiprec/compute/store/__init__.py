"""Stores of model versions and updates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F32, F64, I32, I64, U32, Bools
from gossiprec.compute.plan.program import PoolDeliveries, Program
from gossiprec.models.base.parameter_blocks import Layout
from gossiprec.rules.aggregators import Inbox
from gossiprec.rules.servers import CALLING_THREAD, Extras, ThreadPoolLike

if TYPE_CHECKING:
    from gossiprec.compute.plan.planner import Planner

Handles = npt.NDArray[np.integer]


@dataclass(frozen=True)
class ScoringView:
    """Models of some users in the form in which an executor scores them, user by user.

    See :class:`gossiprec.models.base.kernel_interface.ScoreQuery`; `contexts`, shape (n_models,) each, and `histories`,
    shape (n_models, ...) each, are the feed's context columns and columns with one entry per user.
    """

    layout: Layout
    rows: F32
    row: I64
    user: I64
    together: bool = False
    contexts: Mapping[str, I32] = field(default_factory=dict)
    histories: Mapping[str, I32] = field(default_factory=dict)


@dataclass(frozen=True)
class UpdateRows:
    """A view of updates as rows of whole models, which are built when they are read.

    Attributes
    ----------
    models : ndarray, or an object that is indexed like one
        Base and update together, by handle.
    bases : ndarray, or an object that is indexed like one
        The versions from which the updates were made; for a version, the version itself.
    uploads : ndarray, or an object that is indexed like one
        The user uploads that came with the updates; NaN if there is none.
    """

    models: Any
    bases: Any
    uploads: Any

    def __getitem__(self, at: Any) -> Any:
        """Return some columns of some models."""
        return self.models[at]


class Store(ABC):
    """The owner of the versions and updates that nodes train, send and receive.

    A *version* is a whole model; an *update* is a node's trained version, of which only the touched rows are kept.

    Attributes
    ----------
    layout : Layout
        The layout of a version.
    n_nodes : int
        The first `n_nodes` handles are the nodes' first models.
    rows : ndarray or UpdateRows
        The models under handles, as observers of merges read them.
    threads : ThreadPoolLike
        Threads for the computations of the coordinator; they are idle then.
    """

    layout: Layout
    n_nodes: int
    rows: Any
    threads: ThreadPoolLike = CALLING_THREAD

    @property
    @abstractmethod
    def is_half(self) -> bool:
        """Whether versions are kept in float16."""

    @abstractmethod
    def load(self, handles: Handles) -> F32:
        """Return whole models, in float32, shape (n, row_size)."""

    @abstractmethod
    def store(self, handles: Handles, values: F32, keys: U32 | None) -> None:
        """Store whole models, shape (n, row_size), under handles; float16 rounds by `keys`, one for each."""

    def merged_columns(self, handle: int) -> F32:
        """Return the columns of a model that receivers merge, in float32; not to be changed."""
        return self.load(np.array([handle]))[0, self.layout.merged]

    def store_merged(self, target: int, source: int, values: F32, keys: U32 | None) -> None:
        """Store under `target` the model under `source`, with new values for the columns that receivers merge."""
        row = self.load(np.array([source]))
        row[0, self.layout.merged] = values
        self.store(np.array([target]), row, keys)

    @abstractmethod
    def inbox(self, handles: Handles, weights: F64, own_weight: float) -> Inbox:
        """Return the received models or updates, as an aggregation rule reads them."""

    def inbox_copy(self, handles: Handles, weights: F64, own_weight: float) -> Inbox:
        """Return a copy of :meth:`inbox`, of the received models only, for a rule from outside gossiprec."""
        inbox = self.inbox(handles, weights, own_weight)
        rows = np.array(inbox.rows[inbox.row_index, :], order="C")
        return Inbox(rows, np.arange(len(rows)), weights.copy(), own_weight)

    @abstractmethod
    def iter_pool_rows(
        self, pool_deliveries: PoolDeliveries, first: int, last: int
    ) -> Iterator[tuple[F32, PoolDeliveries, int, int]]:
        """Yield pool deliveries first .. last - 1 with the rows of their models, base and update together.

        Each item is (rows, deliveries, first, last): `row` of a delivery is its place in the rows, and only the
        deliveries first .. last - 1 are meant.
        """

    def rows_of_tasks(self, program: Program, tasks: I64) -> Any:
        """Return `rows`, up to date for the versions that some tasks read: their own and those they merge."""
        return self.rows

    @abstractmethod
    def are_finite(self, handles: I64, nodes: I32) -> Bools:
        """Return whether each model, with the part that its node keeps private, is finite, shape (n,)."""

    @abstractmethod
    def models(self, current: I64, nodes: I64) -> F32:
        """Return copies of the present models of some nodes; `current` are the present handles of all nodes."""

    @abstractmethod
    def scoring_view(self, current: I64, users: I64) -> ScoringView:
        """Return the present models of some users for scoring."""

    def attach_extras(self, handle: int, extras: Extras) -> None:  # noqa: B027 (only clients without a model use extras)
        """Keep the extras that a coordinator sends with the version under a handle."""

    def uploaded_users(self, handles: Handles) -> F32 | None:
        """Return the user uploads that came with updates (:attr:`gossiprec.rules.servers.ClientAnswers.users`)."""
        return None

    def drop_unneeded(self, planner: Planner) -> None:  # noqa: B027 (an arena's rows need no action)
        """Free the payloads that are no longer referenced once all planned tasks have run."""

    def discard(self, rows: I64) -> None:  # noqa: B027
        """Free the memory of handles (ascending) that are written before they are read again."""

    def discard_moments(self, nodes: I64) -> None:  # noqa: B027 (a small state may stay)
        """Free the optimizer state of nodes (ascending) that do not train here."""

    def grow(self, capacity: int) -> None:  # noqa: B027
        """Make room for `capacity` handles."""

    @abstractmethod
    def state(self, needed: I64) -> dict[str, Any]:
        """Return the payloads under `needed` (ascending) and the optimizer state, for a checkpoint."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a :meth:`state`."""

    @abstractmethod
    def continue_from(self, ended: Any, current: I64) -> None:
        """Begin with the present models and the optimizer state of another run of the same nodes.

        Parameters
        ----------
        ended : Store
            A store of the same class.
        current : ndarray of int64, shape (n_nodes,)
            Its present handles of all nodes.
        """
