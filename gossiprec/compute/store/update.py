"""Updates of clients without a model of their own.

An update holds the rows that a client touched of a version. Also here: the views by which aggregation rules read
received updates (:class:`ReceivedModels`, :class:`ReceivedChanges`), the sums and checks of many updates, as plain
loops that are compiled when called (:func:`gossiprec.native.jit_cached`), and the packed form in which
checkpoints and shards hold updates.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F32, F64, I32, I64, Bools
from gossiprec.base.ragged import Ragged
from gossiprec.compute.store import Handles
from gossiprec.models.base import Layout
from gossiprec.native import jit_cached
from gossiprec.numerics.buffer_pool import BufferPool
from gossiprec.rules.aggregators import ModelDelta
from gossiprec.rules.servers import CALLING_THREAD, ThreadPoolLike

AT_ONCE = 2**20
"""Numbers, approximately, in the updates that are concatenated at once."""
FEW = 8
"""Fewer updates in a row of one trainer's batch, on average, are copied."""


class UpdateBatch(NamedTuple):
    """Updates of one version, concatenated.

    Attributes
    ----------
    base : ndarray of float32, shape (n_columns,)
        The version.
    begins, ends : ndarray of int64, shape (n_updates,)
        Update k has the items and rows from ``begins[k]`` to ``ends[k]``.
    items : ndarray of int32, shape (n,); rows : ndarray of float32, shape (n, item_width)
    shared : ndarray of float32, shape (n_updates, n_shared)
    """

    base: F32
    begins: I64
    ends: I64
    items: I32
    rows: F32
    shared: F32


def batch_updates(updates: Sequence[Update], memory: BufferPool) -> Iterator[tuple[slice, UpdateBatch]]:
    """Yield consecutive ranges of updates, each of one version and of bounded size, as batches.

    They are copied, unless most of them lie in the batches of their trainer, one batch after the other.
    """
    pairs = [*itertools.pairwise(updates)]
    moves = sum(one.trained is not other.trained for one, other in pairs)
    in_place = FEW * moves < len(updates)
    begins, size = [0], 0
    for number, (last, update) in enumerate(pairs, 1):
        size += last.rows.size + last.shared.size
        if in_place and (last.trained or update.trained):
            ends = last.trained is not update.trained
        else:
            ends = last.base is not update.base or size + update.rows.size + update.shared.size > AT_ONCE
        if ends:
            begins.append(number)
            size = 0
    for begin, end in zip(begins, [*begins[1:], len(updates)], strict=True):
        some = updates[begin:end]
        if in_place and (trained := some[0].trained) is not None:
            own = [update.number for update in some]
            parts = (trained.begins[own], trained.ends[own], trained.items, trained.rows, trained.shared[own])
            yield slice(begin, end), UpdateBatch(some[0].base, *parts)
            continue
        places = np.zeros(len(some) + 1, np.int64)
        np.cumsum([len(update.items) for update in some], out=places[1:])
        n, width, n_shared = int(places[-1]), some[0].rows.shape[1], len(some[0].shared)
        touched, rows, shared = memory.empty((n,), (n, width), (len(some), n_shared))
        items = touched.view(np.int32)
        np.concatenate([update.items for update in some], out=items)
        np.concatenate([update.rows for update in some], out=rows)
        np.stack([update.shared for update in some], out=shared)
        yield slice(begin, end), UpdateBatch(some[0].base, places[:-1], places[1:], items, rows, shared)


def are_finite(updates: Sequence[Update], memory: BufferPool) -> Bools:
    """Return whether the change of each update is finite, shape (n_updates,)."""
    found = np.ones(len(updates), np.bool_)
    for some, several in batch_updates(updates, memory) if updates else ():
        jit_cached(check_finite_updates)(several, found[some])
    return found


def sum_deltas(
    updates: Sequence[Update], weights: F64, threads: ThreadPoolLike, memory: BufferPool
) -> tuple[F64, F64, F64]:
    """Return the weighted sum of changes, each rounded as in :attr:`Update.change`.

    Returns
    -------
    total : ndarray of float64, shape (n_items, item_width)
    mass : ndarray of float64, shape (n_items,)
        For each item, the total weight of the updates that touched it.
    shared : ndarray of float64, shape (n_shared,)
    """
    n_shared, width, size = len(updates[0].shared), updates[0].rows.shape[1], threads.size
    n_items = (len(updates[0].base) - n_shared) // max(width, 1)
    total, mass, shared = np.zeros((n_items, width)), np.zeros(n_items), np.zeros(n_shared)
    for some, several in batch_updates(updates, memory):

        def add_up(part: int, several: UpdateBatch = several, shares: F64 = weights[some]) -> None:
            items, numbers = _part(n_items, part, size), _part(n_shared, part, size)
            jit_cached(add_weighted_deltas)(
                total[items], mass[items], shared[numbers], items.start, numbers.start, several, shares
            )

        threads.run(add_up)
    return total, mass, shared


def _part(n: int, part: int, size: int) -> slice:
    return slice(n * part // size, n * (part + 1) // size)


def weighted_sum(updates: Sequence[Update], shares: F64, threads: ThreadPoolLike, memory: BufferPool) -> F32:
    """Return the weighted sum of the models of some updates, rounded from float64.

    Changes are added up in their order, then each version once. Every thread has some items and some shared weights.
    """
    n_columns, n_shared, width = len(updates[0].base), len(updates[0].shared), updates[0].rows.shape[1]
    of_versions, size = dict[int, float](), threads.size
    (found,) = memory.empty((n_columns,))
    n_items = (n_columns - n_shared) // max(width, 1)
    versions = {id(update.base): update.base for update in updates}
    for update, share in zip(updates, shares.tolist(), strict=True):
        of_versions[id(update.base)] = of_versions.get(id(update.base), 0.0) + share
    *others, (last, of_last) = of_versions.items()

    total, there, shared = np.empty((n_items, width)), np.zeros(n_items, np.bool_), np.zeros((1, n_shared))
    for some, several in batch_updates(updates, memory):

        def add_up(part: int, several: UpdateBatch = several, each: F64 = shares[some]) -> None:
            items, numbers = _part(n_items, part, size), _part(n_shared, part, size)
            jit_cached(add_update_shares)(
                total[items], there[items], shared[:, numbers], items.start, numbers.start, several, each
            )

        threads.run(add_up)

    def finish(part: int) -> None:
        items, numbers = _part(n_items, part, size), _part(n_shared, part, size)
        first = n_columns - n_shared
        for sums, known, low, high in (
            (total[items], there[items], items.start * width, items.stop * width),
            (shared[:, numbers], np.ones(1, np.bool_), first + numbers.start, first + numbers.stop),
        ):
            for version, of_version in others:
                jit_cached(add_version)(sums, known, versions[version][low:high], of_version)
            jit_cached(add_rounded)(sums, known, versions[last][low:high], of_last, found[low:high])

    threads.run(finish)
    return found


def add_update_shares(
    total: F64, there: Bools, rest: F64, first_item: int, first: int, updates: UpdateBatch, shares: F64
) -> None:
    """Add each update's change of some items and of shared weights, times its share.

    Parameters
    ----------
    total : ndarray of float64, shape (n_items, item_width)
        Of the items from `first_item`; rows that are not `there` yet count as zeros.
    there : ndarray of bool, shape (n_items,)
    rest : ndarray of float64, shape (1, n_weights)
        Of the weights from `first`.
    """
    base, begins, ends, items, rows, shared = updates
    last_item, width = first_item + len(total), np.uint64(rows.shape[1])
    sums, trained = total.reshape(-1), rows.reshape(-1)
    into, sent = rest[0], base[len(base) - shared.shape[1] + first :]
    for number in range(len(shares)):
        share = shares[number]
        for touched in range(begins[number], ends[number]):
            if first_item <= items[touched] < last_item:
                row = items[touched] - first_item
                at, before = np.uint64(row) * width, np.uint64(items[touched]) * width
                now = np.uint64(touched) * width
                if not there[row]:
                    total[row] = 0.0
                    there[row] = True
                for k in range(width):
                    sums[at + k] += share * (np.float64(trained[now + k]) - np.float64(base[before + k]))
        weights = shared[number, first : first + len(into)]
        for k in range(len(into)):
            into[k] += share * (np.float64(weights[k]) - np.float64(sent[k]))


def add_weighted_deltas(
    total: F64, mass: F64, rest: F64, first_item: int, first: int, updates: UpdateBatch, weights: F64
) -> None:
    """Add weighted changes, in single precision, of some items and shared weights; add the weights to `mass`.

    Parameters
    ----------
    total : ndarray of float64, shape (n_items, item_width); mass : ndarray of float64, shape (n_items,)
        Of the items from `first_item`.
    rest : ndarray of float64, shape (n_weights,)
        Of the weights from `first`.
    """
    base, begins, ends, items, rows, shared = updates
    last_item, width = first_item + len(total), np.uint64(rows.shape[1])
    sums, trained = total.reshape(-1), rows.reshape(-1)
    sent = base[len(base) - shared.shape[1] + first :]
    for number in range(len(weights)):
        weight = weights[number]
        for touched in range(begins[number], ends[number]):
            if first_item <= items[touched] < last_item:
                item = items[touched] - first_item
                mass[item] += weight
                at, before = np.uint64(item) * width, np.uint64(items[touched]) * width
                now = np.uint64(touched) * width
                for k in range(width):
                    sums[at + k] += weight * np.float64(trained[now + k] - base[before + k])
        numbers = shared[number, first : first + len(rest)]
        for k in range(len(rest)):
            rest[k] += weight * np.float64(numbers[k] - sent[k])


def add_version(total: F64, there: Bools, version: F32, share: float) -> None:
    """Add a share of a version to all rows."""
    width = total.shape[1]
    for row in range(len(total)):
        into, of_version = total[row], version[row * width : (row + 1) * width]
        for k in range(0 if there[row] else width):
            into[k] = 0.0
        there[row] = True
        for k in range(width):
            into[k] += np.float64(of_version[k]) * share


def add_rounded(total: F64, there: Bools, version: F32, share: float, found: F32) -> None:
    """Set `found` to the total plus a share of a version, without changing the total."""
    width = total.shape[1]
    for row in range(len(total)):
        place = row * width
        into, of_version = found[place : place + width], version[place : place + width]
        if there[row]:
            for k in range(width):
                into[k] = total[row, k] + np.float64(of_version[k]) * share
        else:
            for k in range(width):
                into[k] = 0.0 + np.float64(of_version[k]) * share


def check_finite_updates(updates: UpdateBatch, finite: Bools) -> None:
    """Set `finite` to False for each update of which the change is not finite."""
    base, begins, ends, items, rows, shared = updates
    width, trained = np.uint64(rows.shape[1]), rows.reshape(-1)
    sent = base[len(base) - shared.shape[1] :]
    for number in range(len(finite)):
        others = 0
        for touched in range(begins[number], ends[number]):
            before, now = np.uint64(items[touched]) * width, np.uint64(touched) * width
            for k in range(width):
                others += 0 if np.isfinite(trained[now + k] - base[before + k]) else 1
        weights = shared[number]
        for k in range(len(weights)):
            others += 0 if np.isfinite(weights[k] - sent[k]) else 1
        finite[number] = others == 0


@dataclass(eq=False)
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
    trained : UpdateBatch, optional
        The batch, of the same version, of which the arrays are views.
    number : int
        The place in that batch.

    Notes
    -----
    It must not be changed; it is not frozen, because that would take half of the time of making it.
    """

    base: F32
    items: I32
    rows: F32
    shared: F32
    user: F32 | None = None
    trained: UpdateBatch | None = None
    number: int = 0

    @property
    def model(self) -> F32:
        """The model, ``[items | shared]``."""
        return self.model_columns(0, len(self.base))

    def model_columns(self, low: int, high: int) -> F32:
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

    def add_change_to(self, model: F32, share: float) -> None:
        """Add a share of the change to a model, ``[items | shared]``."""
        change = self.change
        self._tables(model)[change.items] += np.float32(share) * change.rows
        model[len(model) - len(self.shared) :] += np.float32(share) * change.shared

    @property
    def size_bytes(self) -> int:
        """Size of the message in bytes: touched items, their rows, shared weights and the user upload."""
        uploaded = 0 if self.user is None else self.user.nbytes
        return self.items.nbytes + self.rows.nbytes + self.shared.nbytes + uploaded

    def _tables(self, model: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return model[: len(model) - len(self.shared)].reshape(-1, self.rows.shape[1])


Payload: TypeAlias = "F32 | Update"
"""A version, ``[items | shared]``, or an update."""


class ReceivedModels:
    """Received updates read as rows of models (:class:`.aggregators.SummableRows`), by column ranges."""

    def __init__(
        self,
        updates: list[Update],
        n_columns: int,
        threads: ThreadPoolLike = CALLING_THREAD,
        memory: BufferPool | None = None,
    ) -> None:
        self._updates, self._threads, self._memory = updates, threads, memory or BufferPool()
        self.shape = (len(updates), n_columns)

    def __getitem__(self, at: tuple[Handles, slice]) -> F32:
        places, columns = at
        return np.stack(
            [self._updates[place].model_columns(columns.start, columns.stop) for place in places.tolist()]
        )

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
    return payload.model if isinstance(payload, Update) else payload


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
    rows, uploads = Ragged(items.offsets, found["rows"]), iter(found["told"])
    users = [next(uploads) if has_upload else None for has_upload in found["tells"].tolist()]
    return [
        Update(base, items[number], rows[number], found["shared"][number], users[number])
        for number, base in enumerate(bases)
    ]
