"""Codecs for the payloads of a store that shards exchange, and for their nodes' own state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

import numpy as np

from gossiprec.base.arrays import F32, I64
from gossiprec.compute.plan.program import Program
from gossiprec.compute.store.base import Store
from gossiprec.compute.store.update import Update, pack_updates, unpack_updates
from gossiprec.compute.store.update_store import UpdateStore

Packed: TypeAlias = Any
"""An array, a mapping of arrays by name, or a list of these."""
NONE = np.zeros(0, np.int64)


class StoreCodec:
    """The codec of a store's payloads, for the part that one shard owns; of an arena, unless a subclass says otherwise.

    Attributes
    ----------
    in_rows : bool
        Whether a node's whole state, except for its optimizer state, is under its handle.
    """

    in_rows: ClassVar[bool] = True
    _store: Any

    def __init__(self, store: Store) -> None:
        self._store = store

    def pack(self, handles: I64, nodes: I64) -> Packed:
        """Return copies of the payloads under some handles, for the shard that owns `nodes`."""
        return self._store.rows[handles]

    def unpack(self, handles: I64, found: Packed, nodes: I64) -> None:
        """Store the payloads that :meth:`pack` gave in another shard; this shard owns `nodes`."""
        self._store.rows[handles] = found

    def made(self, handles: I64) -> I64:
        """Return the handles that hold results of the shard's nodes, without the versions they were sent."""
        return handles

    def own(self, current: I64, nodes: I64) -> F32:
        """Return copies of some nodes' own parts; `current` are the current handles of all nodes."""
        models: F32 = self._store.models(current, nodes)
        return models

    def take_own(self, current: I64, nodes: I64, values: F32) -> None:
        """Store the own parts that :meth:`own` gave."""
        self._store.rows[current[nodes]] = values

    def state(self, nodes: I64) -> dict[str, Any]:
        """Return copies of some nodes' state that is not under handles, for a checkpoint."""
        return {name: getattr(self._store, name)[of] for name, of in self._kept(nodes)}

    def restore(self, nodes: I64, state: Mapping[str, Any]) -> None:
        """Restore a :meth:`state`."""
        for name, of in self._kept(nodes):
            getattr(self._store, name)[of] = state[name]

    def follow(self, program: Program, tasks: I64) -> None:
        """Update the handles that other shards' tasks changed, after the tasks of this wave."""

    def common(self, current: I64) -> I64:
        """Return the handles of shard 0's versions by which all users recommend."""
        return NONE

    def versions(self, handles: I64) -> I64:
        """Return a number for the version under each handle, equal for equal versions."""
        return NONE

    def refer(self, handles: I64, versions: I64) -> None:
        """Let handles refer to versions that arrive later; equal numbers refer to one version."""

    def _kept(self, nodes: I64) -> list[tuple[str, I64]]:
        """Return the arrays of :meth:`state` with the rows of some nodes."""
        trained = nodes if len(self._store.first) else NONE
        return [("first", trained), ("second", trained), ("steps", nodes)]


def make_store_codec(store: Store) -> StoreCodec:
    """Return the codec of a store."""
    return _Updates(store) if isinstance(store, UpdateStore) else StoreCodec(store)


class _Updates(StoreCodec):
    """The codec of an update store: versions go from shard 0 to each shard once, updates only to shard 0.

    The version under each handle follows from the plan. So every shard knows it for all handles, with zeros in the
    place of a version until it arrives, and an update need not name its base.
    """

    in_rows = False
    _store: UpdateStore

    def pack(self, handles: I64, nodes: I64) -> Packed:
        store = self._store
        held = [store.held(handle) for handle in handles.tolist()]
        is_update = np.array([isinstance(each, Update) for each in held], np.bool_)
        return {
            "is_update": is_update,
            **pack_updates(
                [each for each in held if isinstance(each, Update)], store.layout, store.user_upload_width
            ),
            "versions": [
                {"version": store.version(handle).copy(), **self._extras(handle, nodes)}
                for handle in handles[~is_update].tolist()
            ],
        }

    def unpack(self, handles: I64, found: Packed, nodes: I64) -> None:
        store, is_update = self._store, found["is_update"]
        for handle, sent in zip(handles[~is_update].tolist(), found["versions"], strict=True):
            np.copyto(store.version(handle), sent["version"])
            extras = {name: extra.copy() for name, extra in sent["extras"].items()}
            for name, rows in sent["own_extras"].items():
                extras[name] = np.zeros((store.n_nodes - 1, *rows.shape[1:]), rows.dtype)
                extras[name][nodes] = rows
            store.attach(handle, extras)
        updated = handles[is_update].tolist()
        # copies, because Ray keeps arrays in its store while they are referenced
        parts = {name: part.copy() for name, part in found.items() if name != "versions"}
        updates = unpack_updates(parts, [store.version(handle) for handle in updated])
        for handle, update in zip(updated, updates, strict=True):
            store.keep(handle, update)

    def made(self, handles: I64) -> I64:
        return handles[[isinstance(self._store.held(handle), Update) for handle in handles.tolist()]]

    def own(self, current: I64, nodes: I64) -> F32:
        found: F32 = self._store.own[nodes]
        return found

    def take_own(self, current: I64, nodes: I64, values: F32) -> None:
        self._store.own[nodes] = values

    def follow(self, program: Program, tasks: I64) -> None:
        store = self._store
        published = program.node[tasks] == store.n_nodes - 1
        for target in program.target[tasks[published]].tolist():
            store.keep(target, self._unknown())
        others = tasks[~published]
        for target, sent in zip(
            program.target[others].tolist(), program.adopted(others).tolist(), strict=True
        ):
            store.keep(target, store.version(sent))

    def common(self, current: I64) -> I64:
        return current[-1:]

    def versions(self, handles: I64) -> I64:
        numbers: dict[int, int] = {}
        held = [self._store.version(handle) for handle in handles.tolist()]
        return np.array([numbers.setdefault(id(version), len(numbers)) for version in held], np.int64)

    def refer(self, handles: I64, versions: I64) -> None:
        known = [self._unknown() for _ in range(int(versions.max(initial=-1)) + 1)]
        for handle, number in zip(handles.tolist(), versions.tolist(), strict=True):
            self._store.keep(handle, known[number])

    def _unknown(self) -> F32:
        """Return zeros in the place of a version, which take memory only once the version arrives."""
        return np.zeros(self._store.n_columns, np.float32)

    def _extras(self, handle: int, nodes: I64) -> dict[str, Any]:
        """Return the extras of a version; of those for single clients, only the rows of `nodes`."""
        extras, own = self._store.extras(handle), self._store.own_extras
        return {
            "extras": {name: extra for name, extra in extras.items() if name not in own},
            "own_extras": {name: extra[nodes] for name, extra in extras.items() if name in own},
        }

    def _kept(self, nodes: I64) -> list[tuple[str, I64]]:
        clients = nodes[nodes < len(self._store.own)]
        trained = clients if len(self._store.first) else NONE
        return [("own", clients), ("first", trained), ("second", trained), ("steps", nodes)]
