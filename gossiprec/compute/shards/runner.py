"""Running a shard's part of a plan: its own tasks, and the exchange of rows and payloads with other shards."""

from __future__ import annotations

import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any, ClassVar, TypeAlias

import msgpack
import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F32, I32, I64, Bools
from gossiprec.base.errors import ShardLostError
from gossiprec.base.ragged import row_entries
from gossiprec.compute.executors.base import Executor
from gossiprec.compute.plan.program import ExecutionPlan, Program
from gossiprec.compute.shards import Key, Mailbox, ShardContext, ShardPlan
from gossiprec.compute.store import Store
from gossiprec.compute.store.update import Update, pack_updates, unpack_updates
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.compute.waves import NOTHING, DeliveryHook, WaveOptions, WaveRunner, pool_deliveries_in_wave
from gossiprec.numerics.buffer_pool import BufferPool

Address: TypeAlias = tuple[str, int, str]
"""A host, a port, and the name of a Unix socket that only processes of the same machine reach; empty for none."""

CONNECT_S = 10.0
"""Seconds to wait for a connection to another shard, and for its proof of the secret."""
STALL_S = 120.0
"""Seconds after which a shard that takes no more bytes counts as lost."""
_STALLS = {
    getattr(socket, name): value
    for name, value in {
        "TCP_KEEPIDLE": 60,
        "TCP_KEEPINTVL": 10,
        "TCP_KEEPCNT": 6,
        "TCP_USER_TIMEOUT": 120_000,
    }.items()
    if hasattr(socket, name)
}
"""Options by which an idle link is closed within two minutes if its other end does not answer."""
_LENGTH = struct.Struct("<I")
_MOST_PIECES = 512  # of one system call; Linux and macOS allow 1024
_UNIX_BUFFER = 4 << 20  # bytes that a Unix socket may hold, as TCP does by itself


class RowLinks:
    """The links of one shard: it listens for the others, and connects to each before the run.

    Both ends prove that they know the secret before anything else is read. What arrives is only ever read as numbers.

    Parameters
    ----------
    number : int
        The number of this shard.
    mailbox : Mailbox
        The mailbox into which arriving rows are put.
    secret : bytes
        Known to the shards of this run only.
    host : str
        The address of this machine at which the other shards can reach it.

    Attributes
    ----------
    address : (str, int, str)
        The host and port, and the name within this machine, at which this shard listens.

    Notes
    -----
    Within a machine rows go by a Unix socket, which takes half the processor time of the loopback interface.
    """

    def __init__(self, number: int, mailbox: Mailbox, secret: bytes, host: str) -> None:
        self._number, self._mailbox, self._secret = number, mailbox, secret
        self._buffers = BufferPool()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listeners = [socket.create_server((host, 0), family=family)]
        name = f"gossiprec-{os.urandom(16).hex()}" if sys.platform == "linux" else ""
        if name:  # in Linux's abstract namespace, so that no file is left
            self._listeners.append(socket.socket(socket.AF_UNIX))
            self._listeners[1].bind(f"\0{name}")
            self._listeners[1].listen()
        self.address: Address = (host, self._listeners[0].getsockname()[1], name)
        self._links: dict[int, socket.socket] = {}
        self._arriving: list[socket.socket] = []
        for listener in self._listeners:
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def connect(self, addresses: Mapping[int, Address]) -> dict[int, str]:
        """Connect to other shards, and return the reason for each that cannot be reached."""
        problems = {}
        for shard, address in addresses.items():
            try:
                self._links[shard] = self._connection(_open_link(address))
            except (OSError, EOFError, AuthenticationError) as error:
                problems[shard] = f"{address[0]}:{address[1]}: {error or type(error).__name__}"
        return problems

    def reaches(self, shard: int) -> bool:
        """Return whether there is a link to a shard."""
        return shard in self._links

    def send(self, to: int, key: Key, rows: npt.NDArray[Any], some: I64 | None = None) -> None:
        """Send all rows, or some of them; one thread at a time.

        Raises
        ------
        ShardLostError
            If the other shard has closed the link, or takes no bytes for :data:`STALL_S` seconds.
        """
        shape = [len(rows if some is None else some), *rows.shape[1:]]
        head = msgpack.packb([self._number, list(key), rows.dtype.str, shape])
        content = [np.ascontiguousarray(rows)] if some is None else [rows[row] for row in some.tolist()]
        bytes_ = [part.data.cast("B") for part in content if part.size]
        try:
            _write(self._links[to].fileno(), [_LENGTH.pack(len(head)), head, *bytes_])
        except BlockingIOError as error:
            raise ShardLostError(to, f"it took no rows for {STALL_S:.0f} s") from error
        except OSError as error:
            raise ShardLostError(to, f"its link is closed ({error.strerror})") from error

    def close(self) -> None:
        """Close all links; rows that arrive later are lost."""
        for (
            listener
        ) in self._listeners:  # a closed one alone would leave its thread waiting, and its port open
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
        for end in (*self._listeners, *self._links.values()):
            end.close()
        for end in self._arriving:  # a thread reads it, and closes it when nothing more comes
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _connection(self, found: socket.socket, *, arriving: bool = False) -> socket.socket:
        """Return a socket, once its other end has proved that it knows the secret."""
        found.settimeout(None)
        if found.family == socket.AF_UNIX:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNIX_BUFFER)
        else:
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _STALLS.items():
                found.setsockopt(socket.IPPROTO_TCP, option, value)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(STALL_S), 0))
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(CONNECT_S), 0))
        try:
            with Connection(os.dup(found.fileno())) as link:
                for prove in (deliver_challenge, answer_challenge)[:: 1 if arriving else -1]:
                    prove(link, self._secret)
        except BaseException:
            found.close()
            raise
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))
        return found

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                found, _ = listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._receive, args=(found,), daemon=True).start()

    def _receive(self, found: socket.socket) -> None:
        """Put the rows that arrive by one link into the mailbox, until it is closed."""
        with suppress(OSError, EOFError, AuthenticationError), self._connection(found, arriving=True) as link:
            self._arriving.append(link)
            self._fill_mailbox(link)

    def _fill_mailbox(self, link: socket.socket) -> None:
        """Receive until the other end closes the link, which shard 0 notices, or does not answer any more."""
        sender = None
        try:
            while True:
                (length,) = _LENGTH.unpack(_read(link, bytearray(_LENGTH.size)))
                sender, key, kind, shape = msgpack.unpackb(_read(link, bytearray(length)))
                size = int(np.prod(shape)) * np.dtype(kind).itemsize
                (memory,) = self._buffers.empty((-(-size // 4),))
                rows = memory.view(np.uint8)[:size]
                _read(link, rows.data)
                self._mailbox.put(sender, tuple(key), rows.view(kind).reshape(shape))
        except OSError as error:
            if sender is not None and self._number:  # shard 0 learns from Ray which shards ended
                self._mailbox.fail(ShardLostError(sender, f"its link is broken ({error.strerror})"))


def _open_link(address: Address) -> socket.socket:
    """Return a socket to a shard: a Unix socket if it is on this machine."""
    host, port, name = address
    if name:
        end = socket.socket(socket.AF_UNIX)
        try:
            end.connect(f"\0{name}")
        except OSError:  # on another machine, or in another container
            end.close()
        else:
            return end
    return socket.create_connection((host, port), CONNECT_S)


def _write(descriptor: int, pieces: Sequence[Any]) -> None:
    left = [memoryview(piece) for piece in pieces if len(piece)]
    while left:
        written = os.writev(descriptor, left[:_MOST_PIECES])
        while left and written >= len(left[0]):
            written -= len(left.pop(0))
        if written:
            left[0] = left[0][written:]


def _read(link: socket.socket, into: Any) -> Any:
    """Fill a buffer and return it; one call, because each return to Python may wait for the interpreter's lock."""
    left = memoryview(into)
    while len(left):
        count = link.recv_into(left, 0, socket.MSG_WAITALL)
        if not count:
            raise EOFError
        left = left[count:]
    return into


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

    def result_handles(self, handles: I64) -> I64:
        """Return the handles that hold results of the shard's nodes, without the versions they were sent."""
        return handles

    def copy_own_parts(self, current: I64, nodes: I64) -> F32:
        """Return copies of some nodes' own parts; `current` are the current handles of all nodes."""
        return self._store.models(current, nodes)

    def store_own_parts(self, current: I64, nodes: I64, values: F32) -> None:
        """Store the own parts that :meth:`copy_own_parts` gave."""
        self._store.rows[current[nodes]] = values

    def state_outside_handles(self, nodes: I64) -> dict[str, Any]:
        """Return copies of some nodes' state that is not under handles, for a checkpoint."""
        return {name: getattr(self._store, name)[of] for name, of in self._kept(nodes)}

    def restore_outside_handles(self, nodes: I64, state: Mapping[str, Any]) -> None:
        """Restore a :meth:`state_outside_handles`."""
        for name, of in self._kept(nodes):
            getattr(self._store, name)[of] = state[name]

    def follow_other_shards(self, program: Program, tasks: I64) -> None:
        """Update the handles that other shards' tasks changed, after the tasks of this wave."""

    def common_handles(self, current: I64) -> I64:
        """Return the handles of shard 0's versions by which all users recommend."""
        return NONE

    def version_numbers(self, handles: I64) -> I64:
        """Return a number for the version under each handle, equal for equal versions."""
        return NONE

    def refer_to_versions(self, handles: I64, versions: I64) -> None:
        """Let handles refer to versions that arrive later; equal numbers refer to one version."""

    def _kept(self, nodes: I64) -> list[tuple[str, I64]]:
        """Return the arrays of :meth:`state_outside_handles` with the rows of some nodes."""
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
        held = [store.payload(handle) for handle in handles.tolist()]
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
            store.attach_extras(handle, extras)
        updated = handles[is_update].tolist()
        # copies, because Ray keeps arrays in its store while they are referenced
        parts = {name: part.copy() for name, part in found.items() if name != "versions"}
        updates = unpack_updates(parts, [store.version(handle) for handle in updated])
        for handle, update in zip(updated, updates, strict=True):
            store.store_payload(handle, update)

    def result_handles(self, handles: I64) -> I64:
        return handles[[isinstance(self._store.payload(handle), Update) for handle in handles.tolist()]]

    def copy_own_parts(self, current: I64, nodes: I64) -> F32:
        return self._store.own[nodes]

    def store_own_parts(self, current: I64, nodes: I64, values: F32) -> None:
        self._store.own[nodes] = values

    def follow_other_shards(self, program: Program, tasks: I64) -> None:
        store = self._store
        published = program.node[tasks] == store.n_nodes - 1
        for target in program.target[tasks[published]].tolist():
            store.store_payload(target, self._unknown())
        others = tasks[~published]
        for target, sent in zip(
            program.target[others].tolist(), program.adopted_rows(others).tolist(), strict=True
        ):
            store.store_payload(target, store.version(sent))

    def common_handles(self, current: I64) -> I64:
        return current[-1:]

    def version_numbers(self, handles: I64) -> I64:
        numbers: dict[int, int] = {}
        held = [self._store.version(handle) for handle in handles.tolist()]
        return np.array([numbers.setdefault(id(version), len(numbers)) for version in held], np.int64)

    def refer_to_versions(self, handles: I64, versions: I64) -> None:
        known = [self._unknown() for _ in range(int(versions.max(initial=-1)) + 1)]
        for handle, number in zip(handles.tolist(), versions.tolist(), strict=True):
            self._store.store_payload(handle, known[number])

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


ROWS, FOUND, SHARED, VALUES = "rows", "found", "shared", "values"
"""Kinds of letters, the first part of their keys."""


@dataclass
class ShardTraffic:
    """Totals of a shard's traffic and waiting time so far.

    Attributes
    ----------
    waves, batches, rows, bytes : int
        Waves carried out, and the batches, rows and bytes that this shard sent to others for them.
    most_bytes : int
        Largest number of bytes sent for one wave.
    updates : int
        Local updates of the shard's own nodes.
    computed_s, sent_s, stored_s, waited_s, routed_s : float
        Seconds of wall time spent on the shard's own tasks, on copying and sending rows, on storing received rows, on
        waiting for other shards' rows, and on computing routes.
    """

    waves: int = 0
    batches: int = 0
    rows: int = 0
    bytes: int = 0
    most_bytes: int = 0
    updates: int = 0
    computed_s: float = 0.0
    sent_s: float = 0.0
    stored_s: float = 0.0
    waited_s: float = 0.0
    routed_s: float = 0.0


class ShardRunner(WaveRunner):
    """The runner of one shard's tasks; rows that other shards read are sent as soon as they are written.

    Parameters
    ----------
    executor : Executor
    watchers : sequence of DeliveryHook
    options : WaveOptions
    place : ShardContext
    needed : callable
        Function of rows that returns whether each is still needed (:meth:`Planner.are_needed`).
    shares_found : bool
        Whether the executors' findings about merges decide later events, so that all shards must know them.

    Attributes
    ----------
    payloads : StoreCodec
        The codec of the store's payloads.
    sent : ShardTraffic
    """

    def __init__(
        self,
        executor: Executor,
        watchers: Sequence[DeliveryHook],
        options: WaveOptions,
        *,
        place: ShardContext,
        needed: Callable[[I64], Bools],
        shares_found: bool,
    ) -> None:
        super().__init__(executor, watchers, options)
        self._parts, self._routes, self._exchange = place.parts, place.routes, place.exchange
        self._needed, self._shares_found = needed, shares_found
        self._number = 0  # of the plan
        self._n_shared = self._n_broadcast = 0
        self.payloads = make_store_codec(executor.store)
        self._bytes_for: dict[int, int] = {}  # by the wave for which they are sent
        self._used: list[I64] = []
        self._resident = np.zeros(0, np.int64)
        self._outdated = np.zeros(0, np.bool_)  # by row: a copy, of which the memory is kept
        self._n_outdated = 0  # at most
        self.sent = ShardTraffic()

    def run(self, plan: ExecutionPlan) -> None:
        """Carry out this shard's part of a plan."""
        begin, before = time.perf_counter(), self.sent.waited_s
        self._busy = 0.0
        route = self._routes.shard_plan(plan)
        self._outdated = np.append(
            self._outdated, np.zeros(self._routes.n_rows - len(self._outdated), np.bool_)
        )
        self.sent.routed_s += time.perf_counter() - begin
        for wave, part in enumerate(route.waves):
            self._send(route, wave)
            self._compute(plan, part.ready, NOTHING)
            for batch in part.incoming:
                self._fetch(batch.shard, (ROWS, self._number, batch.wave), batch.rows)
            self._compute(
                plan,
                part.waiting,
                pool_deliveries_in_wave(plan, wave) if self._parts.number == 0 else NOTHING,
            )
            self.payloads.follow_other_shards(plan.program, part.elsewhere)
            self._note_outdated(part.outdated, plan.program.target[np.append(part.ready, part.waiting)])
        self._note(plan, route)
        if self._shares_found:
            self._share_found(plan.program)
        self._number += 1
        self.sent.computed_s += self._busy
        waited = self.sent.waited_s - before
        self.bookkeeping_seconds += time.perf_counter() - begin - self._busy - waited

    def _note_outdated(self, rows: I64, written: I32) -> None:
        """Note copies that are outdated, and free them when they are more than the shard's own nodes.

        Most are soon written again, into the same memory; fresh memory would cost more than the copy.
        """
        self._outdated[written] = False
        self._outdated[rows] = True
        self._n_outdated += len(rows)
        if self._n_outdated > len(self._parts.own_nodes):
            outdated = np.flatnonzero(self._outdated)
            self._n_outdated = len(outdated)
            if self._n_outdated > len(self._parts.own_nodes):
                self._executor.store.discard(outdated)
                self._outdated[:], self._n_outdated = False, 0

    def note_used_rows(self, rows: I64) -> None:
        """Note that rows take memory in this shard."""
        self._used.append(rows)

    def release_rows(self) -> None:
        """Free the rows that are not needed, and the rows with a current version only in other shards."""
        resident = np.unique(np.concatenate([self._resident, *self._used]))
        stays = self._needed(resident) & self._routes.holds(resident)
        self._executor.store.discard(resident[~stays])
        self._outdated[:], self._n_outdated = False, 0
        self._resident, self._used = resident[stays], []

    def broadcast_rows(self, rows: I64) -> None:
        """Send some rows of shard 0 to all shards. All shards must call this at the same point of the plan."""
        lacking, key = self._routes.rows_to_share(rows), (SHARED, self._n_shared)
        self._n_shared += 1
        for shard, some in lacking.items():
            if len(some) and self._parts.number == 0:
                self._post(shard, key, some)
            elif len(some) and self._parts.number == shard:
                self._fetch(0, key, some)

    def broadcast_found(self, found: I64) -> I64:
        """Broadcast the values that shard 0 found. All shards must call this at the same point of the plan."""
        key = (VALUES, self._n_broadcast)
        self._n_broadcast += 1
        if self._parts.number != 0:
            return np.array(self._exchange.receive(0, key), np.int64)
        for shard in self._parts.other_shards:
            self._exchange.send(shard, key, found)
        return found

    def _send(self, route: ShardPlan, wave: int) -> None:
        """Send the batches that are due before a wave."""
        for batch in route.outgoing.get(wave, ()):
            size = self._post(batch.shard, (ROWS, self._number, batch.wave), batch.rows)
            self._bytes_for[batch.wave] = self._bytes_for.get(batch.wave, 0) + size

    def _post(self, shard: int, key: Key, rows: I64) -> int:
        """Send rows; return their size in bytes."""
        begin = time.perf_counter()
        if self.payloads.in_rows:
            content: npt.NDArray[Any] = self._executor.store.rows
            self._exchange.send_rows(shard, key, content, rows)
            size = len(rows) * content[:1].nbytes
        else:
            found = self.payloads.pack(rows, self._parts.nodes_of_shard(shard))
            self._exchange.send(shard, key, found)
            size = _bytes_of(found)
        self.sent.batches += 1
        self.sent.rows += len(rows)
        self.sent.bytes += size
        self.sent.sent_s += time.perf_counter() - begin
        return size

    def _fetch(self, shard: int, key: Key, rows: I64) -> None:
        """Receive rows and note the times of waiting and storing."""
        begin = time.perf_counter()
        found = self._exchange.receive(shard, key)
        came = time.perf_counter()
        self.payloads.unpack(rows, found, self._parts.own_nodes)
        self._outdated[rows] = False
        self.sent.waited_s += came - begin
        self.sent.stored_s += time.perf_counter() - came

    def _note(self, plan: ExecutionPlan, route: ShardPlan) -> None:
        """Count the work of a plan, and note the rows that it used."""
        program, sent = plan.program, self.sent
        mine = np.concatenate([np.zeros(0, np.int64), *(np.append(w.ready, w.waiting) for w in route.waves)])
        sent.waves += len(route.waves)
        sent.updates += int((program.update[mine] >= 0).sum())
        sent.most_bytes = max(sent.most_bytes, *self._bytes_for.values(), 0)
        self._bytes_for.clear()
        came = [batch.rows for wave in route.waves for batch in wave.incoming]
        self.note_used_rows(np.unique(np.concatenate([program.target[mine].astype(np.int64), *came])))
        if sum(len(some) for some in self._used) > len(self._parts.of) // (2 * self._parts.n):
            self.release_rows()

    def _share_found(self, program: Program) -> None:
        """Exchange with all shards the findings about the merges of their nodes."""
        shard_of = self._parts.of[program.node]
        own, entries = self._of_shard(program, shard_of, self._parts.number)
        found = (program.found[entries], program.refused[own])
        for shard in self._parts.other_shards:
            self._exchange.send(shard, (FOUND, self._number), found)
        begin = time.perf_counter()
        for shard in self._parts.other_shards:
            tasks, entries = self._of_shard(program, shard_of, shard)
            program.found[entries], program.refused[tasks] = self._exchange.receive(
                shard, (FOUND, self._number)
            )
        self.sent.waited_s += time.perf_counter() - begin

    def _of_shard(self, program: Program, shard_of: I64, shard: int) -> tuple[I64, I64]:
        tasks = np.flatnonzero(shard_of == shard)
        return tasks, row_entries(program.merge_offsets, tasks)[0]


def _bytes_of(found: Packed) -> int:
    """Return the size of all arrays in packed payloads, in bytes."""
    if isinstance(found, np.ndarray):
        return found.nbytes
    return sum(_bytes_of(part) for part in (found.values() if isinstance(found, dict) else found))
