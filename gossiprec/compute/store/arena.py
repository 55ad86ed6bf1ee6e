"""The arena, which holds every live model version as one row of one array.

Also here: the arena of one row, for runs with one model (:class:`SingleModelStore`), rows that take memory only when
written (:class:`LazyRows`), and the keys by which rows are rounded to float16 (:func:`merge_keys`,
:func:`update_keys`, :func:`push_keys`).
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import (
    F32,
    F64,
    I32,
    I64,
    U32,
    Bools,
    are_all_finite,
)
from gossiprec.base.errors import ResourceError
from gossiprec.base.rng import philox_words
from gossiprec.compute.plan.program import PoolDeliveries, Program
from gossiprec.compute.store import Handles, ScoringView, Store
from gossiprec.models.base.parameter_blocks import Layout
from gossiprec.numerics.noise import ENCODED, MERGED, TRAINED, to_float16
from gossiprec.rules.aggregators import Inbox
from gossiprec.runs.checkpoint_state import PartialArray

# MAP_NORESERVE, which Python does not name
_NO_RESERVE = {"linux": 0x4000, "darwin": 0x40}.get(sys.platform, 0)
_LARGE = 2**22
"""Bytes above which large pages are requested, as numpy does."""


class LazyRows:
    """Zeroed rows that take memory only when they are written.

    Parameters
    ----------
    n_rows, row_size : int
    kind : dtype
    sparse : bool
        Whether most rows never take memory; large pages are then not requested.

    Attributes
    ----------
    rows : ndarray, shape (n_rows, row_size)

    Raises
    ------
    OSError, OverflowError
        If the system refuses to reserve that many addresses.
    """

    def __init__(self, n_rows: int, row_size: int, kind: npt.DTypeLike, *, sparse: bool) -> None:
        self._row_bytes = row_size * np.dtype(kind).itemsize
        size = max(n_rows * self._row_bytes, 1)
        self._memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
        if hasattr(mmap, "MADV_HUGEPAGE") and size > _LARGE and not sparse:
            self._memory.madvise(mmap.MADV_HUGEPAGE)
        found = np.frombuffer(self._memory, kind, n_rows * row_size)
        self.rows: npt.NDArray[Any] = found.reshape(n_rows, row_size)

    def discard(self, rows: I64) -> None:
        """Free the whole pages of rows (ascending); the rows may read as zeros afterwards."""
        if not hasattr(mmap, "MADV_DONTNEED"):
            return
        page, edges = mmap.PAGESIZE, _ranges(rows) * self._row_bytes
        for low, high in np.stack([-(-edges[:, 0] // page), edges[:, 1] // page], axis=1) * page:
            if low < high:
                self._memory.madvise(mmap.MADV_DONTNEED, low, high - low)


def _ranges(rows: I64) -> I64:
    """Return the first row of each range of consecutive rows, and the row after its last, shape (n, 2)."""
    begins = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
    ends = np.append(begins[1:], len(rows))[: len(begins)] - 1
    return np.stack([rows[begins], rows[ends] + 1], axis=1)


def merge_keys(program: Program, tasks: I64, seed: int) -> U32:
    """Return the key by which each task's merged row is rounded: of its node and its last message."""
    ends = program.merge_offsets[tasks + 1]
    merges = ends > program.merge_offsets[tasks]
    last = np.zeros(len(tasks), np.int64)
    last[merges] = program.merge_message[ends[merges] - 1]
    return philox_words(seed, 0, last, program.node[tasks], MERGED)[:, 0]


def update_keys(program: Program, tasks: I64, seed: int) -> U32:
    """Return the key by which each task's trained row is rounded: of its node and its local update."""
    return philox_words(seed, 0, program.update[tasks], program.node[tasks], TRAINED)[:, 0]


def push_keys(program: Program, tasks: I64, seed: int) -> U32:
    """Return the key by which each task's outgoing row is rounded: of its node and its push."""
    return philox_words(seed, 0, program.push[tasks], program.node[tasks], ENCODED)[:, 0]


Storage: TypeAlias = Literal["float32", "float16"]

RESERVE = 16
"""Rows of address space reserved per row of the first capacity; they take no memory."""


class Arena(Store):
    """Rows of parameters, and the nodes' optimizer state.

    Parameters
    ----------
    layout : Layout
    n_nodes : int
        The first `n_nodes` rows are the nodes' first versions.
    capacity : int
        Total number of rows. A row takes memory when it is first written.
    moments : bool
        Whether nodes have Adam moments.
    storage : str
        Number format of the rows, ``float32`` or ``float16``. Arithmetic is float32 in any case.
    owners : ndarray of int64, shape (n_owners,), optional
        The nodes, ascending, that have moments; all nodes by default.
    sparse : bool
        Whether most rows are never written and must not take memory; large pages are then not requested.

    Attributes
    ----------
    rows : ndarray of float32 or float16, shape (capacity, row_size)
        Read them by :meth:`host_rows` and write them by :meth:`store`: the current values may be on a device. Only
        first versions are written here directly, before anything runs.
    first, second : ndarray of float32, shape (n_owners, row_size) or (0, row_size)
        Adam's moments; :meth:`moment_rows` gives the row of a node.
    steps : ndarray of int64, shape (n_nodes,)
        Optimizer steps taken.
    fresh_moments : bool
        Whether items and shared weights are new to a node at each local update: their moments and steps begin at zero.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        n_nodes: int,
        capacity: int,
        moments: bool,
        storage: Storage = "float32",
        owners: I64 | None = None,
        sparse: bool = False,
    ) -> None:
        self.layout = layout
        self.fresh_moments = False
        self.n_nodes = n_nodes
        self._kind = np.dtype(storage)
        self._sparse = sparse
        self._reserved = self._reserve(capacity)
        self.rows: F32 = self._reserved.rows[:capacity]
        self._owners = owners
        n_owners = 0 if not moments else n_nodes if owners is None else len(owners)
        self._moments = [self._addresses(n_owners, np.float32) for _ in range(2)] if sparse else []
        self.first: F32
        self.second: F32
        self.first, self.second = (
            [moments.rows for moments in self._moments]
            if sparse
            else [np.zeros((n_owners, layout.row_size), np.float32) for _ in range(2)]
        )
        self.steps = np.zeros(n_nodes, np.int64)

    @property
    def is_half(self) -> bool:
        """Whether rows are kept in float16."""
        return self._kind == np.float16

    @property
    def is_plain(self) -> bool:
        """Whether :attr:`rows` are all rows, in float32, so that loops can read and write them in place."""
        return type(self) is Arena and not self.is_half

    def moment_rows(self, nodes: I64) -> I64:
        """Return the rows of moments that belong to some nodes."""
        return nodes if self._owners is None else np.searchsorted(self._owners, nodes)

    def host_rows(self, handles: Handles) -> F32:
        """Return all rows; those under `handles` are up to date."""
        return self.rows

    def host_moments(self, owned: I64) -> tuple[F32, F32]:
        """Return all moments; those in the rows `owned` are up to date."""
        return self.first, self.second

    def load(self, handles: Handles) -> F32:
        """Return copies of rows in float32, shape (n, row_size)."""
        return np.asarray(self.host_rows(handles)[handles], np.float32)

    def store(self, handles: Handles, values: F32, keys: U32 | None) -> None:
        """Write `values`, shape (n, row_size), to rows; float16 rounds by `keys`, one for each row."""
        self.rows[handles] = values if keys is None else to_float16(values, keys)

    def merge(self, program: Program, tasks: I64, seed: int) -> None:
        """Merge every task's first delivery, then every task's second, and so on, into the target rows."""
        merged = self.layout.merged
        rows = self.load(program.source[tasks])
        for some, entry in program.deliveries_in_turn(tasks):
            keep = program.merge_keep[entry, None]
            received = self.load(program.merge_row[entry])[:, merged]
            mixed = keep * rows[some, merged] + (1 - keep) * received
            rows[some, merged] = np.where(keep == 0, received, mixed)
        keys = merge_keys(program, tasks, seed) if self.is_half else None
        self.store(program.target[tasks], rows, keys)

    def inbox(self, handles: Handles, weights: F64, own_weight: float) -> Inbox:
        """Return received versions for an aggregation rule: the columns that receivers merge."""
        return Inbox(self.host_rows(handles)[:, self.layout.merged], handles, weights, own_weight)

    def iter_pool_rows(
        self, pool_deliveries: PoolDeliveries, first: int, last: int
    ) -> Iterator[tuple[F32, PoolDeliveries, int, int]]:
        """Yield all rows at once: a handle is the number of its row."""
        yield self.host_rows(pool_deliveries.row[first:last]), pool_deliveries, first, last

    def are_finite(self, handles: I64, nodes: I32) -> Bools:
        """Return whether each row is finite."""
        rows = self.host_rows(handles)
        return np.array([are_all_finite(rows[handle]) for handle in handles.tolist()], np.bool_)

    def models(self, current: I64, nodes: I64) -> F32:
        """Return copies of the nodes' rows."""
        handles = current[nodes]
        return self.host_rows(handles)[handles]

    def scoring_view(self, current: I64, users: I64) -> ScoringView:
        """Return a view of the users' rows, without a copy."""
        handles = current[users]
        return ScoringView(self.layout, self.host_rows(handles), handles, self.layout.user_index(users))

    def discard(self, rows: I64) -> None:
        """Free the whole pages of rows."""
        self._reserved.discard(rows)

    def discard_moments(self, nodes: I64) -> None:
        """Free the optimizer state of nodes (ascending) that do not train here."""
        for moments in self._moments:
            moments.discard(self.moment_rows(nodes))

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows; rows are copied only once the reserved rows are used up."""
        if capacity > len(self._reserved.rows):
            larger = self._reserve(capacity)
            larger.rows[: len(self.rows)] = self.rows
            self._reserved = larger
        if capacity > len(self.rows):
            self.rows = self._reserved.rows[:capacity]

    def state(self, needed: I64) -> dict[str, Any]:
        """Return the rows `needed` (ascending) and the optimizer state, for a checkpoint: references, no copies."""
        width = self.layout.row_size
        present = self.host_rows(needed)[: needed.max(initial=-1) + 1]
        first, second = self.host_moments(np.arange(len(self.first)))
        return {
            "needed": needed,
            "rows": PartialArray(present, lambda: np.stack([needed * width, (needed + 1) * width], axis=1)),
            "first": first,
            "second": second,
            "steps": self.steps,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a :meth:`state`; moments are written in place, for optimizers may hold views of them."""
        needed = state["needed"]
        self.rows[needed] = state["rows"][needed]
        for name in ("first", "second", "steps"):
            getattr(self, name)[...] = state[name]

    def continue_from(self, ended: Arena, current: I64) -> None:
        """Begin with the present rows, the moments and the steps of another run."""
        nodes = np.arange(self.n_nodes)
        self.restore({**ended.state(nodes), "needed": nodes, "rows": ended.models(current, nodes)})

    def _addresses(self, n_rows: int, kind: np.typing.DTypeLike) -> LazyRows:
        return LazyRows(n_rows, self.layout.row_size, kind, sparse=self._sparse)

    def _reserve(self, capacity: int) -> LazyRows:
        """Return zeroed rows, at least `capacity`, that take memory only when written.

        A system may refuse addresses for more than its memory; then only `capacity` rows are reserved.
        """
        for n_rows in (max(RESERVE * capacity, 1), max(capacity, 1)):
            try:
                return self._addresses(n_rows, self._kind)
            except (OSError, OverflowError):
                continue
        row_bytes = self.layout.row_size * self._kind.itemsize
        raise ResourceError(
            f"the system refuses to reserve {capacity * row_bytes / 2**20:,.0f} MiB of address space for "
            f"{capacity} model versions; raise the limit (ulimit -v), or lower dataset.limit_users or "
            "model.dim"
        )


class SingleModelStore(Arena):
    """An arena of one row, the coordinator's model, by which all users are scored.

    Parameters
    ----------
    layout : Layout
        The layout with the rows of all users.
    moments : bool
        Whether there are Adam moments.
    """

    def __init__(self, layout: Layout, *, moments: bool) -> None:
        super().__init__(layout, n_nodes=1, capacity=1, moments=moments)

    def load(self, handles: Handles) -> F32:
        """Return copies of the model, shape (n, row_size)."""
        return super().load(np.zeros_like(handles))

    def store(self, handles: Handles, values: F32, keys: U32 | None) -> None:
        """Store the last of the given models."""
        self.rows[0] = values[-1]

    def are_finite(self, handles: Handles, nodes: I32) -> Bools:
        """Return whether the model is finite."""
        return np.full(len(handles), are_all_finite(self.rows[0]))

    def models(self, current: I64, nodes: I64) -> F32:
        """Return copies of the model."""
        return self.load(nodes)

    def scoring_view(self, current: I64, users: I64) -> ScoringView:
        """Return the model, shared by all the given users."""
        return ScoringView(self.layout, self.rows, np.zeros(len(users), np.int64), users, together=True)

    def grow(self, capacity: int) -> None:
        """Do nothing: the one row serves all handles."""

    def state(self, needed: I64) -> dict[str, Any]:
        """Return the model and its optimizer's state, for a checkpoint."""
        return super().state(np.zeros(1, np.int64))
