"""The arena on a device: rows and moments are copied to the host only when host code reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gossiprec.base.arrays import F32, I32, I64, U32, Bools
from gossiprec.base.errors import ResourceError
from gossiprec.base.ragged import row_entries
from gossiprec.compute.plan.program import Program
from gossiprec.compute.store import Handles
from gossiprec.compute.store.arena import Arena
from gossiprec.models.base.parameter_blocks import Layout

AT_ONCE = 256 << 20
"""Bytes copied at once between host and device."""


class MirroredRows:
    """Rows held twice, in a host array and in a device tensor; each row is up to date in at least one.

    Parameters
    ----------
    host : ndarray of float32, shape (n_rows, row_size)
        All its rows are up to date.
    device : torch.device

    Attributes
    ----------
    host : ndarray
    n_fetched, n_brought : int
        Rows copied so far to the host, and to the device.
    """

    def __init__(self, host: F32, device: torch.device) -> None:
        self.host = host
        self.n_fetched = self.n_brought = 0
        self._device = device
        self._tensor = torch.zeros((0, host.shape[1]), device=device)
        self._here = np.ones(len(host), np.bool_)
        self._there = np.zeros(len(host), np.bool_)

    def grow(self, host: F32) -> None:
        """Replace the host array by a longer one with the same first rows."""
        more = len(host) - len(self.host)
        self.host = host
        if not more:
            return
        self._here = np.concatenate([self._here, np.ones(more, np.bool_)])
        self._there = np.concatenate([self._there, np.zeros(more, np.bool_)])

    def copy_to_host(self, rows: Handles) -> None:
        """Bring rows of the host up to date."""
        for some in self._pieces(rows, self._here):
            self.host[some] = self._tensor.index_select(0, self._index(some)).cpu().numpy()
            self.n_fetched += len(some)
        self._here[rows] = True

    def mark_overwritten(self, rows: Handles) -> None:
        """Note that rows have been written on the host."""
        self._here[rows], self._there[rows] = True, False

    def take(self, rows: Handles) -> Tensor:
        """Return copies of rows on the device, shape (n, row_size)."""
        self._reach(rows)
        for some in self._pieces(rows, self._there):
            self._tensor.index_copy_(0, self._index(some), torch.from_numpy(self.host[some]).to(self._device))
            self.n_brought += len(some)
        self._there[rows] = True
        return self._tensor.index_select(0, self._index(rows))

    def put(self, rows: Handles, values: Tensor) -> None:
        """Write rows on the device, shape (n, row_size)."""
        self._reach(rows)
        self._tensor.index_copy_(0, self._index(rows), values)
        self._here[rows], self._there[rows] = False, True

    def _pieces(self, rows: Handles, are_present: npt.NDArray[np.bool_]) -> Iterator[I64]:
        """Yield the rows that are not up to date, in pieces that are copied at once."""
        lacking = np.unique(rows[~are_present[rows]]).astype(np.int64)
        size = max(1, AT_ONCE // (4 * self.host.shape[1]))
        return (lacking[low : low + size] for low in range(0, len(lacking), size))

    def _index(self, rows: Handles) -> Tensor:
        return torch.from_numpy(rows.astype(np.int64)).to(self._device)

    def _reach(self, rows: Handles) -> None:
        """Make room on the device for the given rows, with half as many more than before if memory allows."""
        needed, before = int(rows.max(initial=-1)) + 1, self._tensor
        if needed <= len(before):
            return
        width = before.shape[1]
        for n_rows in (min(max(needed, 3 * len(before) // 2), len(self.host)), needed):
            try:
                self._tensor = torch.zeros((n_rows, width), device=self._device)
            except torch.OutOfMemoryError:
                continue
            self._tensor[: len(before)] = before
            return
        raise ResourceError(
            f"executor.device: the device has not enough memory for {4 * needed * width / 2**20:,.0f} MiB "
            f"({needed} model versions or their moments); set it to cpu, or lower dataset.limit_users or "
            "model.dim"
        )


class DeviceArena(Arena):
    """An arena of which the rows and moments are trained, merged and kept on a device.

    The host arrays are copies. Before host code reads rows, those that are newer on the device are copied over
    (:meth:`host_rows`, :meth:`rows_of_tasks`); rows stored by host code are copied when the device next needs them.
    So a wave that no host code reads copies none.

    Parameters
    ----------
    layout : Layout
    n_nodes, capacity : int
    moments : bool
    device : torch.device

    Notes
    -----
    Rows are float32: rounding to float16 is done by compiled loops on the host, by a key for each number.
    The device has room for the rows, and for the moments, up to the last one that was ever needed there.
    """

    def __init__(
        self, layout: Layout, *, n_nodes: int, capacity: int, moments: bool, device: torch.device
    ) -> None:
        super().__init__(layout, n_nodes=n_nodes, capacity=capacity, moments=moments)
        self._device = device
        self._both = MirroredRows(self.rows, device)
        self._both_moments = [MirroredRows(part, device) for part in (self.first, self.second)]

    @property
    def n_fetched(self) -> int:
        """Rows copied to the host so far, including moments."""
        return sum(part.n_fetched for part in (self._both, *self._both_moments))

    @property
    def n_brought(self) -> int:
        """Rows copied to the device so far, including moments."""
        return sum(part.n_brought for part in (self._both, *self._both_moments))

    def host_rows(self, handles: Handles) -> F32:
        """Return all rows; those under `handles` are up to date."""
        self._both.copy_to_host(handles)
        return self.rows

    def host_moments(self, owned: I64) -> tuple[F32, F32]:
        """Return all moments; those in the rows `owned` are up to date."""
        for part in self._both_moments:
            part.copy_to_host(owned)
        return self.first, self.second

    def rows_of_tasks(self, program: Program, tasks: I64) -> F32:
        """Return all rows; the versions that the tasks merge, and their own, are up to date."""
        received = program.merge_row[row_entries(program.merge_offsets, tasks)[0]]
        return self.host_rows(np.concatenate([program.source[tasks], received]))

    def store(self, handles: Handles, values: F32, keys: U32 | None) -> None:
        """Write rows on the host."""
        super().store(handles, values, keys)
        self._both.mark_overwritten(handles)

    def take(self, handles: Handles) -> Tensor:
        """Return copies of rows on the device, shape (n, row_size)."""
        return self._both.take(handles)

    def put(self, handles: Handles, rows: Tensor, keys: U32 | None = None) -> None:
        """Write rows on the device, shape (n, row_size); they are not rounded."""
        self._both.put(handles, rows)

    def take_moments(self, nodes: I64) -> list[Tensor]:
        """Return copies of the nodes' first and second moments on the device, of shape (n, row_size) each."""
        return [part.take(self.moment_rows(nodes)) for part in self._both_moments]

    def put_moments(self, nodes: I64, moments: Sequence[Tensor]) -> None:
        """Write the nodes' moments on the device."""
        for part, values in zip(self._both_moments, moments, strict=True):
            part.put(self.moment_rows(nodes), values)

    def are_finite(self, handles: Handles, nodes: I32) -> Bools:
        """Return whether each row is finite; the check runs on the device."""
        size = max(1, AT_ONCE // (4 * self.layout.row_size))
        pieces = (handles[low : low + size] for low in range(0, len(handles), size))
        found = [torch.isfinite(self.take(some)).all(dim=1).cpu().numpy() for some in pieces]
        return np.concatenate([np.zeros(0, np.bool_), *found])

    def merge(self, program: Program, tasks: I64, seed: int) -> None:
        """Merge every task's first delivery, then every task's second, and so on, into the target rows."""
        merged = self.layout.merged
        rows = self.take(program.source[tasks])
        for some, entry in program.deliveries_in_turn(tasks):
            at = torch.from_numpy(np.flatnonzero(some)).to(self._device)
            keep = torch.from_numpy(program.merge_keep[entry, None]).to(self._device)
            received = self.take(program.merge_row[entry])[:, merged]
            mixed = keep * rows[at, merged] + (1 - keep) * received
            rows[at, merged] = torch.where(keep == 0, received, mixed)
        self.put(program.target[tasks], rows)

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        super().grow(capacity)
        self._both.grow(self.rows)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a :meth:`state`."""
        super().restore(state)
        self._both.mark_overwritten(state["needed"])
        for part in self._both_moments:
            part.mark_overwritten(np.arange(len(part.host)))
