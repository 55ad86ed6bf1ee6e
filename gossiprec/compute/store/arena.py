"""The arena: every live model version as one row of one array."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np

from gossiprec.aggregators.base import Inbox
from gossiprec.arrays import F32, F64, I64, U32
from gossiprec.compute.plan.planner import Sightings
from gossiprec.compute.store.base import Handles, Readable, Store
from gossiprec.errors import ResourceError
from gossiprec.eventlog.checkpoints import Live
from gossiprec.models.base.blocks import Layout
from gossiprec.numerics.rounding import to_half

Storage: TypeAlias = Literal["float32", "float16"]

RESERVE = 16
"""Room reserved per row of the first capacity: addresses, not memory."""
# MAP_NORESERVE, which Python does not name
_NO_RESERVE = {"linux": 0x4000, "darwin": 0x40}.get(sys.platform, 0)


class Arena(Store):
    """Rows of parameters, and the optimizer state that belongs to the nodes.

    Parameters
    ----------
    layout : Layout
    n_nodes : int
        The first `n_nodes` rows are the nodes' first versions.
    capacity : int
        Rows in all. Memory of a row is taken when it is first written.
    moments : bool
        Whether nodes have Adam moments.
    storage : str
        ``float32`` or ``float16``: what rows are kept in. Arithmetic is float32 in any case.
    owners : ndarray of int64, shape (n_owners,), optional
        The nodes, ascending, that have moments; all, if it is left out.
    anew : bool
        Items and shared weights are new to a node at each local update: their moments and steps begin at zero.

    Attributes
    ----------
    rows : ndarray of float32 or float16, shape (capacity, row_size)
    first, second : ndarray of float32, shape (n_owners, row_size) or (0, row_size)
        Adam's moments; whose is which row says :meth:`owned`.
    steps : ndarray of int64, shape (n_nodes,)
        Optimizer steps taken.
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
        anew: bool = False,
    ) -> None:
        self.layout = layout
        self.anew = anew
        self.n_nodes = n_nodes
        self._kind = np.dtype(storage)
        self._reserved = self._reserve(capacity)
        self.rows: F32 = self._reserved[:capacity]
        self._owners = owners
        n_owners = 0 if not moments else n_nodes if owners is None else len(owners)
        self.first: F32 = np.zeros((n_owners, layout.row_size), np.float32)
        self.second: F32 = np.zeros((n_owners, layout.row_size), np.float32)
        self.steps = np.zeros(n_nodes, np.int64)

    @property
    def is_half(self) -> bool:
        """Whether rows are kept in float16."""
        return self._kind == np.float16

    def owned(self, nodes: I64) -> I64:
        """Return the rows of moments that belong to some nodes."""
        return nodes if self._owners is None else np.searchsorted(self._owners, nodes)

    def load(self, handles: Handles) -> F32:
        """Return copies of rows in float32, shape (n, row_size)."""
        return np.asarray(self.rows[handles], np.float32)

    def store(self, handles: Handles, values: F32, keys: U32 | None) -> None:
        """Write `values`, shape (n, row_size), to rows; float16 rounds by `keys`, one for each row."""
        self.rows[handles] = values if keys is None else to_half(values, keys)

    def inbox(self, handles: Handles, weights: F64, own_weight: float) -> Inbox:
        """Return received versions as an aggregation rule reads them: the columns that receivers merge."""
        return Inbox(self.rows[:, self.layout.merged], handles, weights, own_weight)

    def shown(self, sightings: Sightings, first: int, last: int) -> Iterator[tuple[F32, Sightings, int, int]]:
        """Yield all rows: a handle is the number of its row."""
        yield self.rows, sightings, first, last

    def models(self, current: I64, nodes: I64) -> F32:
        """Return copies of the nodes' rows."""
        found: F32 = self.rows[current[nodes]]
        return found

    def readable(self, current: I64, users: I64) -> Readable:
        """Return the users' rows where they lie."""
        return Readable(self.layout, self.rows, current[users], self.layout.user_index(users))

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows; rows are copied only once all that is reserved is used."""
        if capacity > len(self._reserved):
            larger = self._reserve(capacity)
            larger[: len(self.rows)] = self.rows
            self._reserved = larger
        if capacity > len(self.rows):
            self.rows = self._reserved[:capacity]

    def state(self, needed: I64) -> dict[str, Any]:
        """Return the rows `needed` (ascending) and the optimizer state, for a checkpoint: references, no copies."""
        width = self.layout.row_size
        rows = self.rows[: needed.max(initial=-1) + 1]
        return {
            "needed": needed,
            "rows": Live(rows, lambda: np.stack([needed * width, (needed + 1) * width], axis=1)),
            "first": self.first,
            "second": self.second,
            "steps": self.steps,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` gave; moments are written in place, for optimizers may hold views of them."""
        needed = state["needed"]
        self.rows[needed] = state["rows"][needed]
        for name in ("first", "second", "steps"):
            getattr(self, name)[...] = state[name]

    def _reserve(self, capacity: int) -> F32:
        """Return zeroed rows, at least `capacity`, that take memory only when written.

        A system may refuse addresses for more than its memory; then only what is needed is asked for.
        """
        row_bytes = self.layout.row_size * self._kind.itemsize
        for n_rows in (max(RESERVE * capacity, 1), max(capacity, 1)):
            try:
                flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
                memory = mmap.mmap(-1, n_rows * row_bytes, flags=flags)
            except (OSError, OverflowError):
                continue
            if hasattr(mmap, "MADV_HUGEPAGE") and n_rows * row_bytes > 2**22:
                memory.madvise(mmap.MADV_HUGEPAGE)  # as numpy does for its large arrays
            return np.frombuffer(memory, self._kind).reshape(n_rows, self.layout.row_size)
        raise ResourceError(
            f"the system refuses {capacity * row_bytes / 2**20:,.0f} MiB of addresses for {capacity} model versions; "
            "raise the limit (ulimit -v), or lower dataset.limit_users or model.dim"
        )
