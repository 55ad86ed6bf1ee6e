"""Updates of clients without a model of their own.

An update holds the rows that a client touched of a version. Also here: the views by which aggregation rules read
received updates (:class:`ReceivedModels`, :class:`ReceivedChanges`), and the packed form in which checkpoints and
shards hold updates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F32, F64, I32, Bools
from gossiprec.base.ragged import Ragged
from gossiprec.compute.store.base import Handles
from gossiprec.compute.store.update_sums import are_finite, sum_deltas, weighted_sum
from gossiprec.models.base import Layout
from gossiprec.numerics.buffer_pool import BufferPool
from gossiprec.rules.aggregators.base import ModelDelta
from gossiprec.rules.servers.base import ALONE, ThreadPoolLike


@dataclass(frozen=True, eq=False)
class Update:
    """A client's trained version, as the rows that it touched.

    Attributes
    ----------
    base : ndarray of float32, shape (n_columns,)
        The version, ``[items | shared]``; all clients that were sent it share one array, which must not be changed.
    items : ndarray of int32, shape (n_touched,)
        The items touched, ascending.
    rows : ndarray of float32, shape (n_touched, item_width)
        Their rows after training.
    shared : ndarray of float32, shape (n_shared,)
    user : ndarray of float32, shape (user_upload_width,), or None
        The user upload of the client, or None.
    """

    base: F32
    items: I32
    rows: F32
    shared: F32
    user: F32 | None = None

    @property
    def whole(self) -> F32:
        """The model, ``[items | shared]``."""
        return self.part(0, len(self.base))

    def part(self, low: int, high: int) -> F32:
        """Return the columns ``low .. high`` of the model."""
        out, width, end = self.base[low:high].copy(), self.rows.shape[1], len(self.base) - len(self.shared)
        some = slice(*np.searchsorted(self.items, [low // width, -(-high // width)]))
        at = (self.items[some, None].astype(np.int64) * width + np.arange(width)).ravel() - low
        within = (at >= 0) & (at < len(out))
        out[at[within]] = self.rows[some].ravel()[within]
        out[max(end - low, 0) :] = self.shared[max(low - end, 0) : max(high - end, 0)]
        return out

    @property
    def change(self) -> ModelDelta:
        """The trained values minus the values of the version."""
        shared = self.base[len(self.base) - len(self.shared) :]
        before = self._tables(self.base).take(self.items, axis=0)
        return ModelDelta(self.items, self.rows - before, self.shared - shared)

    def move(self, model: F32, share: float) -> None:
        """Add a share of the change to a model, ``[items | shared]``."""
        change = self.change
        self._tables(model)[change.items] += np.float32(share) * change.rows
        model[len(model) - len(self.shared) :] += np.float32(share) * change.shared

    @property
    def size_bytes(self) -> int:
        """Size of the message in bytes: touched items, their rows, shared weights and the user upload."""
        told = 0 if self.user is None else self.user.nbytes
        return self.items.nbytes + self.rows.nbytes + self.shared.nbytes + told

    def _tables(self, model: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return model[: len(model) - len(self.shared)].reshape(-1, self.rows.shape[1])


Payload: TypeAlias = "F32 | Update"
"""A version, ``[items | shared]``, or an update."""


class ReceivedModels:
    """Received updates read as rows of models (:class:`.aggregators.base.SummableRows`), by column ranges."""

    def __init__(
        self,
        updates: list[Update],
        n_columns: int,
        threads: ThreadPoolLike = ALONE,
        memory: BufferPool | None = None,
    ) -> None:
        self._updates, self._threads, self._memory = updates, threads, memory or BufferPool()
        self.shape = (len(updates), n_columns)

    def __getitem__(self, at: tuple[Handles, slice]) -> F32:
        places, columns = at
        return np.stack([self._updates[place].part(columns.start, columns.stop) for place in places.tolist()])

    def are_finite(self, places: Handles) -> Bools:
        """Return whether each of some models, and its change, is finite, shape (n_places,)."""
        return are_finite([self._updates[place] for place in places.tolist()], self._memory)

    def weighted_sum(self, places: Handles, shares: F64) -> F32:
        """Return the weighted sum of some models: each version is added once, then the changes."""
        some = [self._updates[place] for place in places.tolist()]
        return weighted_sum(some, shares, self._threads, self._memory)


class ReceivedChanges(Sequence[ModelDelta]):
    """The changes of received updates, each computed when it is first read."""

    def __init__(self, updates: list[Update], threads: ThreadPoolLike, memory: BufferPool) -> None:
        self._updates, self._threads, self._memory = updates, threads, memory
        self._known: list[ModelDelta | None] = [None] * len(updates)

    def __len__(self) -> int:
        return len(self._updates)

    def __getitem__(self, at: Any) -> Any:
        known = self._known[at]
        if known is None:
            known = self._known[at] = self._updates[at].change
        return known

    def summed(self, weights: F64) -> tuple[F64, F64, F64]:
        """Return the weighted sum of all changes (:class:`gossiprec.rules.aggregators.deltas.SummableDeltas`)."""
        return sum_deltas(self._updates, weights, self._threads, self._memory)


def full_model(payload: Payload) -> F32:
    """Return the model, ``[items | shared]``, of a version or an update; it must not be changed."""
    return payload.whole if isinstance(payload, Update) else payload


def pack_updates(updates: Sequence[Update], layout: Layout, user_upload_width: int) -> dict[str, Any]:
    """Return copies of some updates without their versions, concatenated column by column."""
    return {
        "touched": np.array([len(update.items) for update in updates], np.int64),
        "items": np.concatenate([np.zeros(0, np.int32), *(update.items for update in updates)]),
        "rows": np.concatenate(
            [np.zeros((0, layout.item_width), np.float32), *(update.rows for update in updates)]
        ),
        "shared": np.array([update.shared for update in updates], np.float32).reshape(
            len(updates), layout.n_shared
        ),
        "tells": np.array([update.user is not None for update in updates], np.bool_),
        "told": np.concatenate(
            [np.zeros((0, user_upload_width), np.float32)]
            + [update.user[None] for update in updates if update.user is not None]
        ),
    }


def unpack_updates(found: Mapping[str, Any], bases: Sequence[F32]) -> list[Update]:
    """Return the updates that :func:`pack_updates` packed, given the version of each."""
    items = Ragged.from_sizes(found["touched"], found["items"])
    rows, told = Ragged(items.offsets, found["rows"]), iter(found["told"])
    users = [next(told) if tells else None for tells in found["tells"].tolist()]
    return [
        Update(base, items[number], rows[number], found["shared"][number], users[number])
        for number, base in enumerate(bases)
    ]
